"""Asynchronous scheduling: step k + 1 is decided before step k's tokens are known.

vLLM 0.28.0 v1/core/sched/async_scheduler.py (A) and scheduler.py (S). What a request has in
flight is counted in ``inflight.py``; blocks that must outlive a pass are kept in ``deferred.py``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from kvsched.contract import Plan, Result, World
from kvsched.invariants import Snapshot
from kvsched.log import Deliver, Leave, Log, TakeIn
from kvsched.vllm.config import Config
from kvsched.vllm.deferred import DeferringKVCacheManager
from kvsched.vllm.kv_cache import Found, KVCacheManager
from kvsched.vllm.scheduler import Scheduler
from kvsched.vllm.state import RequestState
from kvsched.vllm.status import RUNNING, RequestStatus
from kvsched.vllm.step import Step


class AsyncScheduler(Scheduler):
    """vLLM's default scheduler wherever nothing speaks against it.

    A token being sampled has a placeholder: the next pass is scheduled as if it were known. How
    many batches are in flight is the engine loop's: ``config.max_concurrent_batches`` less one.
    """

    rests = True
    """Without work the loop makes no batch (v1/engine/core.py:624)."""

    def __init__(self, config: Config, log: Log | None = None, world: World | None = None) -> None:
        super().__init__(config, log, world)
        self.calls = 0
        self.made: deque[int] = deque()
        self.unreported = False

    def make_kv(self) -> KVCacheManager:
        if self.config.defer_block_free:
            return DeferringKVCacheManager(self.config, self.log)
        return super().make_kv()

    def has_work(self) -> bool:
        """Does the engine make another batch (S:2470, 2494)?

        It asks the queues, less the slots of paused sessions, and not the requests. So a slot
        that was counted twice hides a request that runs.
        """
        queued = len(self.waiting) + len(self.skipped) + len(self.running)
        transfers = bool(self.config.kv_role) and len(self.requests) > queued
        return queued > self.sessions.paused or self.unreported or transfers

    # -- one step ---------------------------------------------------------------------------

    def schedule(self, now: int) -> Plan:
        self.calls += 1
        self.made.append(self.log.step)
        plan = super().schedule(now)
        self._depart(plan)
        self.unreported = False
        return plan

    def _depart(self, plan: Plan) -> None:
        """The pass leaves: placeholders for what it will sample (S:1379, A:19-49)."""
        for request_id, tokens in plan.scheduled.items():
            self.requests[request_id].num_in_flight_tokens += tokens
        for request_id in plan.sampling or ():
            r = self.requests[request_id]
            r.num_output_placeholders += 1 + plan.drafts.get(request_id, 0)
            r.num_spec_tokens = self.config.num_speculative_tokens
            r.sampled_call = self.calls
        if plan.scheduled and isinstance(self.kv, DeferringKVCacheManager):
            self.kv.depart(plan.scheduled)

    def update(self, plan: Plan, result: Result) -> None:
        self.log.add(TakeIn(self.made.popleft()))
        if plan.scheduled and isinstance(self.kv, DeferringKVCacheManager):
            self.kv.arrive()
        super().update(plan, result)

    def take_in(self, plan: Plan, result: Result, lost: list[RequestState]) -> None:
        """As in step; but whoever was preempted since may still get, or lose, its output."""
        stopped: list[tuple[RequestState, RequestStatus]] = []
        for request_id, computed in plan.scheduled.items():
            r = self.requests.get(request_id)
            if r is None:
                continue
            stale = r.land(computed)
            if r.status.is_finished or r in lost or request_id not in result.tokens:
                continue
            if stale and r.drop_stale_output:
                self.log.add(Deliver(r.id, 0))
                continue
            before = r.status
            status = self._append_in_flight(r, result.tokens[request_id], stale)
            if status is not None:
                self._stop(r, status)
                stopped.append((r, before))
        if stopped:
            self.running = [r for r in self.running if r.status is RUNNING]
            for r, before in stopped:
                if before is not RUNNING:
                    self._leave_queues(r)

    def _append_in_flight(
        self, r: RequestState, tokens: Sequence[int], stale: bool
    ) -> RequestStatus | None:
        """Tokens take the place of their placeholders; what they complete gets its hash (A:51)."""
        known = r.num_tokens
        status = self.append(r, tokens)
        delivered = r.num_tokens - known
        self.log.delivered += delivered
        if not stale:
            r.num_output_placeholders -= delivered
            if r.status is RUNNING:
                self.kv.cache_full_blocks(r, r.num_computed_tokens - r.num_output_placeholders)
        return status

    def _leave_queues(self, r: RequestState) -> None:
        """Who stopped while it did not run is in no queue any more (S:2031-2036).

        A session that pauses for its next chunk, too: it is lost, and its slot with it.
        """
        self.waiting.discard(r)
        self.skipped.discard(r)
        if not r.status.is_finished:
            self.log.add(Leave(r.id))

    def _release(self, r: RequestState, status: RequestStatus) -> bool:
        self.unreported = True
        return super()._release(r, status)

    # -- the engine's decisions -------------------------------------------------------------

    def running_tokens(self, r: RequestState, step: Step) -> int:
        """None if its last token is being sampled already, or its last pass is too young."""
        if self.last_token_in_flight(r) or self.too_soon(r):
            return 0
        return super().running_tokens(r, step)

    def last_token_in_flight(self, r: RequestState) -> bool:
        """Does a pass in flight reach max_tokens (S:530-544)?

        max_model_len is seen by ``running_tokens``. A stop token cannot be foreseen: the request
        is scheduled once more, and the surplus output ignored.
        """
        ahead = r.num_output_placeholders
        longest = r.num_prompt_tokens + r.max_tokens
        return ahead > 0 and r.num_computed_tokens + 2 - ahead >= longest

    def too_soon(self, r: RequestState) -> bool:
        """With pipeline parallelism its sampled token is ``pp`` calls away (S:546, A:46)."""
        pp = self.config.pipeline_parallel_size
        return pp > 1 and r.sampled_call is not None and self.calls < r.sampled_call + pp

    def find(self, r: RequestState) -> Found | None:
        """A victim whose output is still to be delivered is set aside (S:779-788).

        With two batches in flight that never happens: the update in the same step delivers it.
        """
        if r.num_stale_output_tokens > 0 and not r.drop_stale_output:
            return None
        return super().find(r)

    # -- what others may look at ------------------------------------------------------------

    def snapshot(self, plan: Plan) -> Snapshot:
        """As in step; blocks that are deferred are in use, as tables of nobody."""
        snapshot = super().snapshot(plan)
        if not isinstance(self.kv, DeferringKVCacheManager):
            return snapshot
        deferred = {f"deferred {i}": table for i, (_, _, table) in enumerate(self.kv.deferred)}
        return replace(snapshot, tables={**snapshot.tables, **deferred})
