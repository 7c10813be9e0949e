"""Blocks that are given back while a pass in flight may still read them.

vLLM 0.28.0 v1/core/sched/scheduler.py (S:148-157, 2429-2466): under asynchronous scheduling with
a KV connector that receives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from kvsched.log import Defer, Log, Return
from kvsched.vllm.config import Config
from kvsched.vllm.kv_cache import KVCacheManager
from kvsched.vllm.state import RequestState


class DeferringKVCacheManager(KVCacheManager):
    """An allocator whose blocks come back once the passes that had left by then are back.

    ``left`` and ``back`` count passes that computed something. So a preemption for want of
    blocks yields none in the same step, unless the victim was in no pass in flight.
    """

    def __init__(self, config: Config, log: Log) -> None:
        super().__init__(config, log)
        self.left = self.back = 0
        self.last_pass: dict[str, int] = {}
        self.deferred: deque[tuple[int, str, list[int]]] = deque()

    def depart(self, ids: Iterable[str]) -> None:
        """A pass with these requests leaves."""
        self.left += 1
        self.last_pass.update(dict.fromkeys(ids, self.left))

    def arrive(self) -> None:
        """The oldest pass is back; so are all blocks that waited for it."""
        self.back += 1
        while self.deferred and self.deferred[0][0] <= self.back:
            _, request_id, table = self.deferred.popleft()
            front, back = self.pool.release(table)
            self.log.add(Return(request_id, tuple(front), tuple(back)))

    def free(self, r: RequestState) -> None:
        """At once if ``r`` is in no pass in flight, else when all that have left are back."""
        if self.last_pass.get(r.id, 0) <= self.back or not r.block_table:
            super().free(r)
            return
        self.deferred.append((self.left, r.id, r.block_table))
        self.log.add(Defer(r.id, tuple(r.block_table)))
        r.block_table = []
        r.num_cached_blocks = 0
