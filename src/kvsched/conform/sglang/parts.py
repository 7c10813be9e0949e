"""Recorded parts that need no memory: the ratio, the queue's order, the waiting timeout.

Every function takes one recorded case and yields a pair for each step: recorded, and the twin's.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from kvsched.conform.sglang.build import fill_tree, make_req
from kvsched.conform.sglang.result import Pair, taken
from kvsched.log import Finish, Log
from kvsched.sglang import Config, Scheduler
from kvsched.sglang.kv_cache import KVCache
from kvsched.sglang.policy import SchedulePolicy
from kvsched.sglang.ratio import NewTokenRatio, estimate

AMPLE = 1_000_000
"""Tokens of a pool whose size does not matter."""


class Counted(NamedTuple):
    """What the ratio reads of a request."""

    num_output_tokens: int
    max_new_tokens: int


def ratio_start(case: dict[str, Any]) -> Iterator[Pair]:
    """A tracker's start, floor and slope, and its value after so many decays."""
    config = Config(AMPLE, schedule_conservativeness=case["cons"])
    start = NewTokenRatio(config)
    yield taken(case, {"init": start.init, "min": start.min, "decay": start.decay})
    for steps, expected in case["after"].items():
        ratio = NewTokenRatio(config)
        for _ in range(int(steps)):
            ratio.decay_step()
        yield {f"after {steps}": expected}, {f"after {steps}": ratio.current}


def ratio_sequence(case: dict[str, Any]) -> Iterator[Pair]:
    """A tracker through a list of operations."""
    ratio = NewTokenRatio(Config(AMPLE, schedule_conservativeness=case["cons"]))
    for (op, *rest), expected in zip(case["ops"], case["cur"], strict=True):
        if op == "d":
            for _ in range(rest[0]):
                ratio.decay_step()
        elif op == "r":
            ratio.reset()
        else:
            ratio.assign([Counted(*pair) for pair in rest[0]])
        yield {"cur": expected}, {"cur": ratio.current}


def ratio_estimate(case: dict[str, Any]) -> Iterator[Pair]:
    """The estimate after a retraction."""
    kept = [Counted(*pair) for pair in case["reqs"]]
    yield taken(case, {"ratio": estimate(kept, case["steps"])})


def policy(case: dict[str, Any]) -> Iterator[Pair]:
    """The order of a queue, and what was found of each prefix on the way."""
    config = Config(
        AMPLE,
        page_size=case["page"],
        schedule_policy=case["policy"],
        enable_priority_scheduling=case["prio"],
        schedule_low_priority_values_first=case["low_first"],
    )
    kv = KVCache(config, Log())
    fill_tree(kv, case["tree"])
    reqs = []
    for i, (tokens, max_new, priority, entry, key) in enumerate(case["reqs"]):
        r = make_req(config, i, tokens, max_new, priority)
        r.entry_order, r.routing_key = entry, key
        reqs.append(r)
    running = []
    for i, key in enumerate(case["running_keys"]):
        r = make_req(config, i, [[0, 1]])
        r.routing_key = key
        running.append(r)
    asked = SchedulePolicy(config, kv, Random(case["seed"]))
    queue = list(reqs)
    active = asked.active(queue)
    asked.sort(queue, running)
    got = {
        "effective": config.schedule_policy,
        "active": active,
        "order": [int(r.id) for r in queue],
        "matched": [r.num_matched_prefix_tokens for r in reqs],
        "prefix": [r.prefix_len for r in reqs],
        "deprio": sorted(int(i) for i in asked.deprioritized),
    }
    yield taken(case, got)


def timeout(case: dict[str, Any]) -> Iterator[Pair]:
    """Who has waited too long. An entry time of 0 is one that was never set."""
    scheduler = Scheduler(Config(AMPLE, req_waiting_timeout=case["timeout"]))
    for i, entry in enumerate(case["entry"]):
        r = make_req(scheduler.config, i, [[1000 * i, 1]])
        r.wait_queue_entry_time = entry or None
        scheduler.waiting.append(r)
        scheduler.requests[r.id] = r
    scheduler.now = case["now"]
    scheduler.abort_timed_out()
    told = [entry.event for entry in scheduler.log.entries if isinstance(entry.event, Finish)]
    got = {
        "left": [int(r.id) for r in scheduler.waiting],
        "aborted": [[int(event.id), 503, event.reason, "abort"] for event in told],
    }
    yield taken(case, got)
