"""Who waits in the view of orders, and their order in the twins' own queues, sorts and tree."""

from __future__ import annotations

from typing import NamedTuple

from kvsched import sglang
from kvsched.log import Log
from kvsched.queues import Ranked, make_queue
from kvsched.request import Runs
from kvsched.sglang.kv_cache import KVCache
from kvsched.sglang.req import Req

SHORT, LONG, FRESH = 400, 1200, 200
"""Tokens of three prefixes: one in the cache, one in it as far as the reader says, one not."""
FIRST = {0: 0, SHORT: 1_000, LONG: 3_000, FRESH: 5_000}
"""Each prefix's first token."""
NONE, X, Y, Z = "", "x", "y", "z"
RUNNING_KEYS = (X, Y, Y)
"""Routing keys of the three requests that run."""


class Waiter(NamedTuple):
    """Who waits: ``own`` tokens after a ``prefix`` of the three, outputs allowed, vLLM's key."""

    id: str
    prefix: int
    own: int
    outputs: int
    priority: int
    arrival: int
    key: str


WAITING = (
    Waiter("A", SHORT, 300, 256, 1, 0, X),
    Waiter("B", FRESH, 700, 64, 0, 1, Y),
    Waiter("C", SHORT, 500, 512, 2, 2, NONE),
    Waiter("D", LONG, 200, 128, 1, 3, Z),
    Waiter("E", SHORT, 200, 1024, 2, 4, X),
    Waiter("F", FRESH, 300, 512, 2, 5, NONE),
    Waiter("G", 0, 1000, 32, 0, 6, Y),
    Waiter("H", LONG, 400, 256, 0, 6, Z),
)
"""In order of arrival. A has run, was thrown out, and its prompt is still in the cache."""
LATER = Waiter("+", 0, 300, 8, 3, 7, NONE)
"""Everybody behind them: no prefix that anybody shares."""


class Counting(KVCache):
    """A cache that counts how often it is asked for a prefix."""

    lookups = 0

    def match(self, r: Req, tokens: int) -> None:
        self.lookups += 1
        super().match(r, tokens)


class Waits(Ranked):
    """A waiter with a place in vLLM's queues."""

    def __init__(self, waiter: Waiter, request_id: str) -> None:
        self.id, self.priority, self.arrival_time = request_id, waiter.priority, waiter.arrival


def sglang_pass(policy: str, more: int, cached: int, seed: int) -> tuple[sglang.Scheduler, int]:
    """SGLang's queue after one sort, and the prefixes looked up for it."""
    config = sglang.Config(1_000_000, schedule_policy=policy, seed=seed)
    scheduler = sglang.Scheduler(config, Log())
    cache = Counting(config, Log())
    scheduler.kv = scheduler.policy.kv = cache
    assert cache.tree is not None
    for prompt in (_prompt(WAITING[0], 0), ((FIRST[LONG], cached),)):
        cache.tree.insert(prompt)
    for position, (request_id, waiter) in enumerate(_everybody(more)):
        prompt = _prompt(waiter, position)
        key = waiter.key or None
        scheduler.add(sglang.Request(request_id, prompt, waiter.outputs, routing_key=key))
    scheduler.requeue([scheduler.waiting.pop(0)])
    running = [
        Req(sglang.Request(f"run{i}", ((-1, 1),), 1, routing_key=key), config)
        for i, key in enumerate(RUNNING_KEYS)
    ]
    scheduler.policy.sort(scheduler.waiting, running)
    return scheduler, cache.lookups


def vllm_queue(policy: str, more: int) -> list[str]:
    """The ids in the order in which vLLM would take them."""
    first, *others = [Waits(waiter, request_id) for request_id, waiter in _everybody(more)]
    queue = make_queue(policy, others)
    queue.requeue(first)
    return [waiter.id for waiter in queue]


def _everybody(more: int) -> list[tuple[str, Waiter]]:
    return [*((w.id, w) for w in WAITING), *((f"+{i + 1}", LATER) for i in range(more))]


def _prompt(waiter: Waiter, position: int) -> Runs:
    """Its prefix, then tokens nobody else has."""
    return ((FIRST[waiter.prefix], waiter.prefix), (10_000 * (position + 1), waiter.own))
