"""A recording's workload through our scheduler, step by step, up to the recording's own stop."""

from __future__ import annotations

from collections.abc import Iterator

from kvsched.conform.recording import Recording
from kvsched.engine import Engine, ScriptedExecutor
from kvsched.errors import InputError
from kvsched.log import Log
from kvsched.request import Request
from kvsched.steps import StepRecord, rebuild
from kvsched.vllm import Config, Scheduler
from kvsched.workload import Arrival, Cancel, WorkloadEvent


def replay(recording: Recording) -> tuple[Log, str]:
    """Run a recording's requests and events; return the log and why it stopped.

    Stops as the format says: ``all_done``, ``stalled`` after ``max_idle`` idle steps with every
    event past, ``max_steps``.
    """
    log = Log()
    engine = _engine(recording, log)
    idle = 0
    while True:
        before = log.delivered
        plan = engine.step()
        idle = idle + 1 if not plan.scheduled and log.delivered == before else 0
        if not engine.calendar:
            if not engine.scheduler.has_work():
                return log, "all_done"
            if idle >= recording.max_idle:
                return log, "stalled"
        if engine.steps >= recording.max_steps:
            return log, "max_steps"


def replayed_steps(recording: Recording) -> Iterator[StepRecord]:
    """The steps of a replay."""
    log, _ = replay(recording)
    return rebuild(log)


def _engine(recording: Recording, log: Log) -> Engine:
    try:
        config = Config.from_dict(recording.config)
    except InputError as error:
        raise error.inside(f"{recording.path}: config") from None
    first_token = {r["id"]: 1_000_000 + 10_000 * i for i, r in enumerate(recording.requests)}
    return Engine(
        Scheduler(config, log), _workload(recording), log, executor=ScriptedExecutor(first_token)
    )


def _workload(recording: Recording) -> list[WorkloadEvent]:
    arrivals = [
        Arrival(
            r["arrival_step"],
            Request(
                id=r["id"],
                prompt=tuple((first, count) for first, count in r["prompt"]),
                max_tokens=r["max_tokens"],
                arrival_time=r["arrival_time"],
                priority=r["priority"],
            ),
        )
        for r in recording.requests
    ]
    return [*arrivals, *(Cancel(event["step"], event["id"]) for event in recording.events)]
