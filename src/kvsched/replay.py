"""One trace under any scheduler: the simulator's records, or the events of an engine's twin.

A trace goes through line by line and what is written leaves at once, so that memory holds the
unfinished requests and the ids of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, fields
from typing import Any

from kvsched import reserve, sglang, vllm
from kvsched.clock import Clock
from kvsched.contract import Plan, Result, Scheduler
from kvsched.engine import Engine, Outcome, run
from kvsched.errors import InputError
from kvsched.invariants import InvariantViolation
from kvsched.log import Entry, Event, Log
from kvsched.log import record as log_record
from kvsched.request import EOS
from kvsched.reserve.records import SCHEMA as RECORDS
from kvsched.reserve.records import Record, as_json
from kvsched.workload import Arrival, Door, WorkloadEvent
from kvsched.workload.trace import Line

POLICIES = ("serial", "continuous", "vllm", "sglang")
EVENTS = "kvsched-events-1"
NOTE = "A tick is synthetic: every pass takes one, whatever its shape. Times estimate nothing."

Write = Callable[[dict[str, Any]], None]

OPTIONS = {
    **{f.name: f"--{f.name.replace('_', '-')}" for f in fields(reserve.Config)},
    **dict.fromkeys(
        ("max_tokens", "max_num_batched_tokens", "max_prefill_tokens"), "--token-budget"
    ),
    **dict.fromkeys(("max_num_seqs", "max_running_requests"), "--max-rows"),
    **dict.fromkeys(("long_prefill_token_threshold", "chunked_prefill_size"), "--chunk"),
    "page_size": "--block-size",
    "num_gpu_blocks": "--blocks",
    "max_total_tokens": "--blocks times --block-size",
}
"""The command line's options, by the fields of the simulator's and the twins' configurations."""


class Answers:
    """The executor: token 1 for every answer, and EOS where a true output ends below its cap."""

    def __init__(self) -> None:
        self.left: dict[str, int] = {}

    def due(self) -> bool:
        """Nothing comes by itself."""
        return False

    def __call__(self, plan: Plan) -> Result:
        sampling = plan.scheduled if plan.sampling is None else plan.sampling
        return Result({request_id: (self._token(request_id),) for request_id in sampling})

    def _token(self, request_id: str) -> int:
        if request_id not in self.left:
            return 1
        self.left[request_id] -= 1
        if self.left[request_id]:
            return 1
        del self.left[request_id]
        return EOS


class Feed:
    """A trace's lines as they fall due. Those of one boundary: arrivals, then cancellations."""

    def __init__(self, lines: Iterator[Line], answers: Answers) -> None:
        self._lines = lines
        self._answers = answers
        self._next = next(lines, None)

    def due(self, now: int) -> list[WorkloadEvent]:
        due: list[WorkloadEvent] = []
        while self._next is not None and self._next.event.at <= now:
            event, output = self._next
            if isinstance(event, Arrival) and output < event.request.max_tokens:
                self._answers.left[event.request.id] = output
            due.append(event)
            self._next = next(self._lines, None)
        return sorted(due, key=lambda event: not isinstance(event, Arrival))

    def next_at(self) -> int | None:
        return self._next.event.at if self._next is not None else None

    def __bool__(self) -> bool:
        return self._next is not None


class Stream(Log):
    """A log that writes every event as it comes and keeps none."""

    __slots__ = ("now", "write")

    def __init__(self, write: Write) -> None:
        super().__init__()
        self.write = write
        self.now = 0

    def begin(self, step: int, now: int) -> None:
        super().begin(step, now)
        self.times.clear()
        self.now = now

    def end(self, now: int) -> None:
        self.now = now

    def add(self, event: Event) -> None:
        record = log_record(Entry(self.step, self.phase, event))
        self.write({"t": self.now, "type": record.pop("event"), **record})


def replay(
    lines: Iterator[Line], policy: str, config: reserve.Config, clock: Clock | None, write: Write
) -> Outcome:
    """Replay under one of POLICIES; ``write`` gets a header, then a record at a time.

    The simulator's own policy is ``config.policy``. ``clock`` None counts ticks. An engine's twin
    runs behind the front end's door: what can never fit is refused, as the simulator refuses it.
    """
    unit = "tick" if clock is None else "ns"
    if policy in reserve.POLICIES:
        write(_header(RECORDS, policy, unit, asdict(config)))
        return replay_reserve(lines, config, clock, lambda record: write(as_json(record)))
    log = Stream(write)
    scheduler = twin(policy, config, log)
    write(_header(EVENTS, policy, unit, log.config, engine=log.engine, version=log.version))
    answers = Answers()
    door = Door(config.blocks, config.block_size)
    return run(scheduler, Feed(lines, answers), log, clock, answers, door=door)


def replay_reserve(
    lines: Iterator[Line],
    config: reserve.Config,
    clock: Clock | None = None,
    write: Callable[[Record], None] | None = None,
) -> Outcome:
    """Replay under the simulator. With nothing to dispatch the clock jumps to what comes next."""
    answers = Answers()
    feed = Feed(lines, answers)
    log = reserve.Records(write)
    scheduler = reserve.Scheduler(config, log)
    engine = Engine(scheduler, feed, log, clock, answers)
    engine.now = feed.next_at() or 0
    while not engine.done:
        plan = engine.step()
        if not plan.scheduled:
            engine.now = _next_time(feed.next_at(), scheduler.next_wake(), engine)
    return Outcome("all_done", engine.steps, engine.now)


def twin(policy: str, config: reserve.Config, log: Log) -> Scheduler:
    """An engine's twin with the same pool and budgets, and no prefix cache.

    ``max_rows`` bounds its running requests: it has no other bound on rows. SGLang cuts an output
    at arrival so that it fits the pool with a page and a token to spare (sglang/req.py).
    Raises InputError for what the engine would refuse, and for extensions it does not know.
    """
    for name in ("reserve", "order", "batch_size", "prefix_cache", "release_delay"):
        if getattr(config, name) != getattr(reserve.Config(), name):
            fix = "leave it out, or use --policy continuous"
            raise InputError(OPTIONS[name], f"the {policy} twin has no such option", fix)
    try:
        return _vllm(config, log) if policy == "vllm" else _sglang(config, log)
    except InputError as error:
        raise error.called(OPTIONS).inside(f"--policy {policy}") from None


def _vllm(config: reserve.Config, log: Log) -> vllm.Scheduler:
    own = vllm.Config(
        num_gpu_blocks=config.blocks + 1,
        block_size=config.block_size,
        max_num_seqs=min(config.max_rows, config.max_tokens),
        max_num_batched_tokens=config.max_tokens,
        max_model_len=vllm.config.LIMIT,
        enable_prefix_caching=False,
        long_prefill_token_threshold=config.chunk,
    )
    return vllm.Scheduler(own, log)


def _sglang(config: reserve.Config, log: Log) -> sglang.Scheduler:
    own = sglang.Config(
        max_total_tokens=config.blocks * config.block_size,
        page_size=config.block_size,
        max_running_requests=config.max_rows,
        max_prefill_tokens=config.max_tokens,
        chunked_prefill_size=min(config.chunk, config.max_tokens),
        disable_radix_cache=True,
    )
    return sglang.Scheduler(own, log)


def _header(
    schema: str, policy: str, unit: str, config: dict[str, Any], **engine: str
) -> dict[str, Any]:
    head = {"type": "header", "schema": schema, "policy": policy, "unit": unit}
    note = {"note": NOTE} if unit == "tick" else {}
    return {**head, **engine, "config": config, **note}


def _next_time(arrival: int | None, wake: int | None, engine: Engine) -> int:
    times = [time for time in (arrival, wake) if time is not None]
    if not times and not engine.done:
        raise InvariantViolation("requests wait, and nothing is to come that could help them")
    return min(times, default=engine.now)
