"""Recorded decisions about who gives memory or a place up: retraction, and priority preemption."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvsched.conform.sglang.build import PRIVATE, Ranges, give, make_req
from kvsched.conform.sglang.parts import AMPLE
from kvsched.conform.sglang.result import Pair, taken
from kvsched.log import Finish
from kvsched.sglang import Config, Scheduler
from kvsched.sglang.ignore_eos import Adder
from kvsched.sglang.req import Req

SHARED = 500
"""A first token that several requests of a case begin with."""
SHARED_TOKENS = 30


def retract_order(case: dict[str, Any]) -> Iterator[Pair]:
    """The order in which requests are kept."""
    config = Config(
        AMPLE,
        enable_priority_scheduling=True,
        schedule_low_priority_values_first=case["low_first"],
        retraction_policy=case["policy"],
    )
    reqs = []
    for i, (outputs, length, priority) in enumerate(case["reqs"]):
        r = make_req(config, i, [[PRIVATE * i, length]], priority=priority)
        give(r, [0] * outputs)
        reqs.append(r)
    kept = sorted(reqs, key=Scheduler(config).keep_rank, reverse=True)
    yield taken(case, {"order": [int(r.id) for r in kept]})


def retract_loop(case: dict[str, Any]) -> Iterator[Pair]:
    """A decode batch in a pool that is all but full: does it fit, and if not, who goes?"""
    scheduler = _decoding(case)
    kv, reqs = scheduler.kv, scheduler.running
    rows = zip(case["reqs"], reqs, strict=True)
    got: dict[str, Any] = {
        "reqs": [[*row[:3], r.kv_committed_len, r.cache_protected_len] for row, r in rows],
        "need": kv.decode_need(reqs),
        "free0": kv.available,
        "evictable0": kv.evictable,
    }
    got["ok"] = kv.fits(reqs)
    yield taken(case, got)
    if got["ok"]:
        return
    victims = scheduler.retract_decode()
    ended = [entry.event for entry in scheduler.log.entries if isinstance(entry.event, Finish)]
    got = {
        "retracted": [int(r.id) for r in victims],
        "kept": [int(r.id) for r in scheduler.running],
        "aborted": [int(event.id) for event in ended],
        "abort_msg": [event.reason for event in ended],
        "ratio": scheduler.ratio.current,
        "free1": kv.available,
        "evictable1": kv.evictable,
    }
    yield taken(case, got)


def _decoding(case: dict[str, Any]) -> Scheduler:
    """All prefilled in one pass, earlier outputs included; then all but ``free0`` is taken."""
    page, rows = case["page"], case["reqs"]
    held = sum(-(-(length + outputs) // page) * page for length, outputs, *_ in rows)
    config = Config(case["free0"] + held, page_size=page, disable_radix_cache=not case["radix"])
    scheduler = Scheduler(config)
    kv = scheduler.kv
    for i, (length, outputs, max_new, *_) in enumerate(rows):
        r = make_req(config, i, _prompt(case, i, length), max_new)
        give(r, range(PRIVATE * (i + 1), PRIVATE * (i + 1) + outputs - 1))
        r.extend_range = (0, r.num_tokens)
        scheduler.requests[r.id] = r
        scheduler.running.append(r)
    for r in scheduler.running:
        kv.match(r, r.num_tokens)
        kv.lock(r)
    kv.extend(scheduler.running)
    for r in scheduler.running:
        kv.cache_unfinished(r)
        give(r, [0])
    scheduler.slots_taken = len(rows)
    kv.pool.take(max(0, kv.available - case["free0"]) // page)
    return scheduler


def _prompt(case: dict[str, Any], i: int, length: int) -> Ranges:
    """The prompt of row ``i``: shared to its end, for its first tokens, or not at all."""
    first: int = case["tok0"][i]
    if case["mode"] == "dup" or first != SHARED or length <= SHARED_TOKENS:
        return [[first, length]]
    tail = PRIVATE // 2 + 1000 * i
    return [[first, SHARED_TOKENS], [tail, length - SHARED_TOKENS]]


def preempt(case: dict[str, Any]) -> Iterator[Pair]:
    """Who is thrown out for a newcomer of better priority."""
    page = case["page"]
    held = sum(-(-(length + out - 1) // page) * page for length, out, *_ in case["running"])
    config = Config(
        case["avail"] + held,
        page_size=page,
        enable_priority_scheduling=True,
        schedule_low_priority_values_first=case["low_first"],
        priority_scheduling_preemption_threshold=case["threshold"],
    )
    scheduler = Scheduler(config)
    kv = scheduler.kv
    for i, row in enumerate(case["running"]):
        scheduler.running.append(_holding(scheduler, i, row))
    length, max_new, priority = case["new"]
    new = make_req(config, len(case["running"]), [[0, length]], max_new, priority)
    new.fill_len = case["new_fill_len"]
    adder = Adder(config, kv, scheduler.running, case["ratio"])
    got: dict[str, Any] = {
        "avail": kv.available,
        "evictable": kv.evictable,
        "rem_total0": adder.total_left,
    }
    got["ok"] = scheduler.preempt_for(new, adder)
    got["preempted"] = [int(r.id) for r in adder.preempted]
    got["kept"] = [int(r.id) for r in scheduler.running]
    got["rem_total1"] = adder.total_left
    yield taken(case, got)


def _holding(scheduler: Scheduler, i: int, row: list[Any]) -> Req:
    """A running request that holds all its pages alone."""
    length, out, max_new, priority, entry = row
    r = make_req(scheduler.config, i, [[PRIVATE * i, length]], max_new, priority)
    give(r, [0] * out)
    r.entry_order = entry
    r.kv_committed_len = length + out - 1
    kv = scheduler.kv
    r.pages = kv.pool.take(kv.ceil(r.kv_committed_len) // kv.page_size)
    return r
