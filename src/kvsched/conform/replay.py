"""A recording's workload through our scheduler, step by step, up to the recording's own stop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kvsched.conform.document import place
from kvsched.conform.recording import Recording
from kvsched.conform.world import RecordedWorld
from kvsched.contract import Close, Control, NextChunk, Pause, Plan, Reset, Result
from kvsched.engine import Engine, Outcome, drive
from kvsched.errors import InputError
from kvsched.log import Log
from kvsched.request import Request, Runs, Stop
from kvsched.steps import StepRecord, rebuild
from kvsched.vllm import AsyncScheduler, Config, Scheduler
from kvsched.workload import Arrival, Cancel, Order, WorkloadEvent


class Run(NamedTuple):
    """A replay: its log, the scheduler's configuration, and why it stopped."""

    log: Log
    config: Config
    stop: str


def replay(recording: Recording, most_steps: int | None = None) -> Run:
    """Run a recording's requests and events.

    Stops as the format says: ``all_done``, ``stalled`` after ``max_idle`` idle steps with every
    event past, ``max_steps``; or ``too_long``, one step after ``most_steps``. Raises InputError
    if the configuration is out of range.
    """
    return replay_with(recording, None, most_steps)


def replay_with(
    recording: Recording, kind: type[Scheduler] | None, most_steps: int | None = None
) -> Run:
    """The same with another scheduler: a what-if on a recording's requests."""
    engine = _Engine(recording, kind)
    log, config = engine.log, engine.config
    idle = 0
    while most_steps is None or engine.steps <= most_steps:
        before = log.delivered
        plan = engine.step()
        idle = 0 if plan.scheduled or log.delivered > before else idle + 1
        if not engine.calendar and engine.steps > engine.world.last_grammar:
            if not (engine.scheduler.has_work() or engine.scheduler.requests or engine.batches):
                return Run(log, config, "all_done")
            if idle >= recording.max_idle:
                return Run(log, config, "stalled")
        if engine.steps >= recording.max_steps:
            return Run(log, config, "max_steps")
    return Run(log, config, "too_long")


def verdict(recording: Recording) -> Outcome:
    """How the run would end if nobody stopped it: see ``engine.run``."""
    return drive(_Engine(recording, None))


class _Engine(Engine):
    """A recording's engine: what a batch brings back is settled as its output is taken in."""

    def __init__(self, recording: Recording, kind: type[Scheduler] | None) -> None:
        log = Log()
        self.config = config = _config(recording)
        self.world = world = RecordedWorld(recording, log)
        kind = kind or (AsyncScheduler if config.async_scheduling else Scheduler)
        lag = config.max_concurrent_batches - 1
        self.scheduler: Scheduler = kind(config, log, world)
        super().__init__(self.scheduler, _workload(recording), log, executor=world, lag=lag)

    def take_in(self, plan: Plan, result: Result) -> None:
        super().take_in(plan, self.world.settle(plan, result))


def replayed_steps(recording: Recording) -> Iterator[StepRecord]:
    """The steps of a replay."""
    return rebuild(replay(recording).log)


def _config(recording: Recording) -> Config:
    """The scheduler's knobs under vLLM's own names."""
    around = ("connector", "depth", "spec")
    knobs = {key: value for key, value in recording.config.items() if key not in around}
    connector = recording.config.get("connector")
    role = "" if connector is None else connector.get("role", "kv_consumer")
    policy = "recompute" if connector is None else connector.get("failure_policy", "recompute")
    spec = recording.config.get("spec") or {}
    more = {
        "kv_load_failure_policy": policy,
        "kv_role": role,
        "pipeline_parallel_size": max(1, recording.config.get("depth", 1) - 1),
        "speculative_method": spec.get("method", ""),
        "num_speculative_tokens": spec.get("num_speculative_tokens", 0),
    }
    try:
        return Config.from_dict({**knobs, **more})
    except InputError as error:
        raise InputError(
            f"{place(recording.path)}: config.{error.place}", error.problem, error.fix
        ) from None


def _workload(recording: Recording) -> list[WorkloadEvent]:
    arrivals = [Arrival(r["arrival_step"], _request(r)) for r in recording.requests]
    own_stop = {r["id"]: r.get("stop") for r in recording.requests}
    return [*arrivals, *(_event(event, own_stop) for event in recording.events)]


def _request(spec: dict[str, Any]) -> Request:
    return Request(
        id=spec["id"],
        prompt=_runs(spec["prompt"]),
        max_tokens=spec["max_tokens"],
        arrival_time=spec["arrival_time"],
        priority=spec["priority"],
        stop=_stop(spec.get("stop")),
        grammar="grammar" in spec,
        resumable=spec.get("resumable", False),
    )


def _event(event: dict[str, Any], own_stop: dict[str, Any]) -> WorkloadEvent:
    mid = event["when"] == "mid"
    if event["op"] == "abort":
        return Cancel(event["step"], event["id"], mid)
    return Order(event["step"], _order(event, own_stop), mid)


def _order(event: dict[str, Any], own_stop: dict[str, Any]) -> Control:
    match event["op"]:
        case "chunk":
            return NextChunk(
                event["id"],
                _runs(event["prompt"]),
                event["arrival_time"],
                _stop(event.get("stop", own_stop[event["id"]])),
                event.get("max_tokens", 0),
            )
        case "close":
            return Close(event["id"])
        case "reset":
            return Reset(event["running"])
        case _:
            return Pause(event["state"])


def _runs(prompt: list[list[int]]) -> Runs:
    return tuple((first, count) for first, count in prompt)


def _stop(spec: dict[str, Any] | None) -> Stop | None:
    if spec is None:
        return None
    repetition = spec.get("repetition")
    return Stop(
        eos_token_id=spec.get("eos"),
        stop_token_ids=tuple(spec.get("stop_ids", ())),
        min_tokens=spec.get("min_tokens", 0),
        repetition=tuple(repetition) if repetition is not None else None,
    )
