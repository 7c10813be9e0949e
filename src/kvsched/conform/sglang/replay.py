"""A recorded loop's workload through the twin, up to the recording's own end."""

from __future__ import annotations

from typing import Any, NamedTuple

from kvsched.contract import Plan, Result
from kvsched.engine import Engine
from kvsched.log import Log
from kvsched.request import Stop
from kvsched.sglang import Config, Request, Scheduler
from kvsched.workload import Arrival

EOS = 999_999_999

CONFIG = {
    "total": "max_total_tokens",
    "page_size": "page_size",
    "max_reqs": "max_running_requests",
    "max_prefill_tokens": "max_prefill_tokens",
    "chunked": "chunked_prefill_size",
    "mixed": "enable_mixed_chunk",
    "policy": "schedule_policy",
    "conserv": "schedule_conservativeness",
    "decay_steps": "new_token_ratio_decay_steps",
    "max_ctx": "context_length",
    "prio": "enable_priority_scheduling",
    "low_first": "schedule_low_priority_values_first",
    "thresh": "priority_scheduling_preemption_threshold",
    "retraction_policy": "retraction_policy",
    "timeout": "req_waiting_timeout",
    "fix22": "fix22",
}
"""The recordings' short names for the fields of Config; ``radix`` is the other way round."""


class Asked(NamedTuple):
    """A recorded request."""

    arrival: int
    prompt: list[list[int]]
    max_new: int
    out_len: int
    ignore_eos: bool
    priority: int | None
    routing_key: str | None


class Script:
    """The recorded model: which token ends a row is given by the row's end alone.

    So a token that was dropped, because its request was retracted meanwhile, comes again.
    """

    def __init__(self, asked: list[Asked]) -> None:
        self.asked = asked
        self.lengths = [sum(count for _, count in a.prompt) for a in asked]

    def due(self) -> bool:
        """Nothing comes by itself."""
        return False

    def __call__(self, plan: Plan) -> Result:
        sampling = set(plan.sampling or ())
        tokens = {}
        for request_id, start, count, _ in plan.rows:
            if request_id in sampling:
                i = int(request_id)
                tokens[request_id] = (self.token(i, start + count - self.lengths[i]),)
        return Result(tokens)

    def token(self, i: int, k: int) -> int:
        """Output ``k`` of request ``i``."""
        if k == self.asked[i].out_len - 1 and not self.asked[i].ignore_eos:
            return EOS
        return 10_000_000 + 100_000 * i + k


def config_of(run: dict[str, Any]) -> Config:
    """The run's configuration; InputError names a value the engine could not run with."""
    cfg = run["cfg"]
    values = {CONFIG[key]: value for key, value in cfg.items() if key in CONFIG}
    values = {key: value for key, value in values.items() if value is not None}
    return Config(**values, disable_radix_cache=not cfg["radix"], seed=run["seed"])


def engine_of(run: dict[str, Any]) -> Engine:
    """The run's workload before the twin, ready for its first iteration."""
    log = Log()
    asked = [Asked(*row) for row in run["reqs"]]
    arrivals = [Arrival(a.arrival, request_of(i, a)) for i, a in enumerate(asked)]
    lag = 1 if run["overlap"] else 0
    return Engine(Scheduler(config_of(run), log), arrivals, log, executor=Script(asked), lag=lag)


def request_of(i: int, asked: Asked) -> Request:
    """A recorded request as the twin takes it. Its id is its place in the list."""
    return Request(
        id=str(i),
        prompt=tuple((first, count) for first, count in asked.prompt),
        max_tokens=asked.max_new,
        priority=asked.priority or 0,
        stop=Stop(EOS),
        ignore_eos=asked.ignore_eos,
        routing_key=asked.routing_key,
        no_priority=asked.priority is None,
    )


def replay(run: dict[str, Any]) -> Engine:
    """Run to the recording's own end: nothing to come, nobody here, and nothing ran."""
    engine = engine_of(run)
    scheduler = engine.scheduler
    assert isinstance(scheduler, Scheduler)
    while engine.steps <= len(run["trace"]):
        plan = engine.step()
        here = scheduler.waiting or scheduler.running or scheduler.chunked_req
        if not (plan.scheduled or engine.calendar or here):
            break
    return engine
