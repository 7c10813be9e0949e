"""KV that comes from elsewhere: remote loads, the blocks promised to them, and their failures.

vLLM 0.28.0 v1/core/sched/scheduler.py (S); recorded with a scripted connector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvsched.contract import Result, World
from kvsched.log import Ask, Forget, Load, Log, Progress, Report, Reserve
from kvsched.vllm.kv_cache import Found, KVCacheManager
from kvsched.vllm.state import RequestState
from kvsched.vllm.status import PREEMPTED, REMOTE, WAITING


class Loads:
    """Loads in progress, and ``inflight``: admitted requests whose prefill is not done (S:362)."""

    def __init__(self, world: World, kv: KVCacheManager, log: Log) -> None:
        self.world = world
        self.kv = kv
        self.log = log
        self.inflight: dict[str, RequestState] = {}
        self.finished: set[str] = set()
        self.failed: set[str] = set()

    def find(self, r: RequestState) -> Found | None:
        """Local hits and what the connector adds; None if it cannot say yet (S:810-841).

        A request that holds progress already (after a load, or a continuing session) is not
        looked up again.
        """
        if r.num_computed_tokens > 0:
            return Found(r.num_computed_tokens)
        hits = self.kv.get_computed_blocks(r)
        local = len(hits) * self.kv.block_size
        match = self.world.match(r.id, r.num_tokens, local)
        if match is None:
            return Found(local, hits)
        self.log.add(Ask(r.id, local, match.tokens, match.asynchronous))
        if match.tokens is None:
            return None
        return Found(local + match.tokens, hits, match.tokens, match.asynchronous)

    def reserved(self, r: RequestState) -> int:
        """Blocks that prefills and loads in flight still lack, kept from a new load (S:1025).

        ``r`` itself counts if a failed load of it is being asked for again.
        """
        size, longest = self.kv.block_size, self.kv.config.max_model_len
        blocks = sum(
            max(0, -(-min(x.num_tokens, longest) // size) - len(x.block_table))
            for x in self.inflight.values()
        )
        self.log.add(Reserve(r.id, blocks))
        return blocks

    def begin(self, r: RequestState, found: Found) -> None:
        """Tell the connector; an asynchronous load makes the request wait for it (S:1086)."""
        self.log.add(
            Load(r.id, found.external, found.asynchronous, tuple(r.block_table), found.computed)
        )
        self.world.load(r.id, found.external, found.asynchronous, r.block_table)
        if found.asynchronous:
            r.move_to(REMOTE)
            r.num_computed_tokens = found.computed
            self.inflight[r.id] = r

    def settle(self, scheduled: Mapping[str, int]) -> None:
        """Forget prefills that this step completes (S:1405)."""
        for r in list(self.inflight.values()):
            known = r.num_tokens + r.num_output_placeholders
            if r.id in scheduled and r.num_computed_tokens >= known:
                del self.inflight[r.id]

    def promote(self, r: RequestState) -> bool:
        """A reported load lets its request be admitted like any other (S:2734-2780).

        Its blocks get their hashes only now. A load that failed from the first block on gives
        its table back, so the same pass looks it up and asks for it again.
        """
        if r.id not in self.finished:
            return False
        self.finished.discard(r.id)
        if r.id in self.failed and r.num_computed_tokens == 0:
            self.kv.free(r)
        else:
            self.kv.cache_full_blocks(r, r.num_computed_tokens)
            if r.id not in self.failed and r.num_computed_tokens == r.num_tokens:
                # The last token must be computed to give the next. A one-token prompt falls to
                # zero by this, looks fresh and is loaded again.
                r.num_computed_tokens -= 1
                self.log.add(Progress(r.id, r.num_computed_tokens))
        self.failed.discard(r.id)
        r.move_to(PREEMPTED if r.num_preemptions > 0 else WAITING)
        return True

    def holds(self, r: RequestState) -> bool:
        """Must an ending request's blocks stay for a transfer in progress (S:2376-2384)?"""
        self.inflight.pop(r.id, None)
        self.failed.discard(r.id)
        if r.status is REMOTE and r.id not in self.finished:
            return True
        self.finished.discard(r.id)
        return self.world.keeps_blocks(r.id, r.num_computed_tokens)

    def report(self, requests: dict[str, RequestState], result: Result) -> None:
        """Take in what the connector finished (S:2818-2825)."""
        recving, sending = result.finished_recving, result.finished_sending
        self.log.add(Report(tuple(recving), tuple(sending), tuple(result.invalid_blocks)))
        for request_id in recving:
            if requests[request_id].status is REMOTE:
                self.finished.add(request_id)
            else:
                self._forget(requests, request_id)
        for request_id in sending:
            self._forget(requests, request_id)

    def _forget(self, requests: dict[str, RequestState], request_id: str) -> None:
        self.kv.free(requests.pop(request_id))
        self.log.add(Forget(request_id))

    def invalidate(
        self,
        bad: Sequence[int],
        loading: list[RequestState],
        running: list[RequestState],
        scheduled: Mapping[str, int],
    ) -> tuple[list[RequestState], list[RequestState]]:
        """Throw progress back to the first block whose load failed (S:2934).

        Loading and running requests are two scans. A block shared by several is recomputed by
        the first of them. Returns the running requests that lose this step's output, and the
        requests that end with an error, by ``kv_load_failure_policy``.
        """
        waiting = self._affected(bad, loading, {})
        lost = self._affected(bad, running, scheduled)
        if self.kv.config.kv_load_failure_policy == "fail":
            for r, first in lost.items():
                if first is not None:
                    self.kv.drop_hashes(r, first)
            return [*lost], [*waiting, *lost]
        self.failed.update(r.id for r in waiting)
        return [*lost], []

    def _affected(
        self, bad: Sequence[int], requests: list[RequestState], scheduled: Mapping[str, int]
    ) -> dict[RequestState, int | None]:
        """Who is set back, and the table index of the first block that is its to recompute."""
        taken: set[int] = set()
        affected: dict[RequestState, int | None] = {}
        for r in requests:
            size = self.kv.block_size
            computed = r.num_computed_tokens - scheduled.get(r.id, 0)
            table = r.block_table[: -(-computed // size)]
            hit = [index for index, block in enumerate(table) if block in bad]
            if not hit:
                continue
            fresh = [index for index in hit if table[index] not in taken]
            affected[r] = fresh[0] if fresh else None
            r.num_computed_tokens = fresh[0] * size if fresh else computed
            taken.update(table[index] for index in hit)
            self.log.add(Progress(r.id, r.num_computed_tokens))
        return affected
