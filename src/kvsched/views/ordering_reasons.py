"""Why a request stands where it stands, in words: each order's own reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kvsched.sglang import Scheduler
from kvsched.sglang.keys import shared
from kvsched.sglang.radix import Node
from kvsched.sglang.req import Req
from kvsched.views.ordering_queue import RUNNING_KEYS, WAITING, Waiter

VICTIM = WAITING[0].id


def _vllm_fcfs(waiter: Waiter) -> str:
    return "thrown out, back in front" if waiter.id == VICTIM else f"arrival {waiter.arrival}"


def _vllm_priority(waiter: Waiter) -> str:
    key = (waiter.priority, waiter.arrival)
    before = [w.id for w in WAITING if (w.priority, w.arrival) == key and w.id < waiter.id]
    told = f"priority {waiter.priority}, arrival {waiter.arrival}"
    return f"{told}, its id after {' and '.join(before)}" if before else told


def _fcfs(r: Req, scheduler: Scheduler) -> str:
    return "thrown out, back at the end" if r.id == VICTIM else "as it came"


def _lpm(r: Req, scheduler: Scheduler) -> str:
    if r.id in scheduler.policy.deprioritized:
        before = [q for q in scheduler.waiting if q.entry_order < r.entry_order]
        tokens, other = max((_alike(q, r), q.id) for q in before)
        return f"shares {tokens:,} uncached tokens with {other}"
    counted = f"{r.num_matched_prefix_tokens:,} tokens"
    whole = r.prefix_len == r.num_tokens
    return f"all cached, counts as {counted}" if whole else f"{counted} cached"


def _dfs_weight(r: Req, scheduler: Scheduler) -> str:
    branch = _branch(r)
    if branch is None:
        return "no cached prefix"
    return f"{sum(_branch(q) is branch for q in scheduler.waiting)} of the queue below its prefix"


def _lof(r: Req, scheduler: Scheduler) -> str:
    return f"up to {r.max_new_tokens:,} outputs"


def _random(r: Req, scheduler: Scheduler) -> str:
    return "drawn"


def _routing_key(r: Req, scheduler: Scheduler) -> str:
    if not r.routing_key:
        return "no key"
    return f"key {r.routing_key}, {RUNNING_KEYS.count(r.routing_key)} running"


VLLM: Mapping[str, Callable[[Waiter], str]] = {"fcfs": _vllm_fcfs, "priority": _vllm_priority}
SGLANG: Mapping[str, Callable[[Req, Scheduler], str]] = {
    "fcfs": _fcfs,
    "lpm": _lpm,
    "dfs-weight": _dfs_weight,
    "lof": _lof,
    "random": _random,
    "routing-key": _routing_key,
}


def _alike(a: Req, b: Req) -> int:
    """How many tokens two prompts begin with alike."""
    return shared(a.tokens(a.num_tokens), b.tokens(b.num_tokens))


def _branch(r: Req) -> Node | None:
    """The root's child that its cached prefix leads through; None without one."""
    node, below = r.last_node, None
    while node is not None and node.parent is not None:
        node, below = node.parent, node
    return below
