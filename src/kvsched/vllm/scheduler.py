"""The two-phase scheduler: running requests first, then, if nobody was evicted, the queue.

Mirrors vLLM 0.28.0 v1/core/sched/scheduler.py; line numbers below are that file's. Each decision
the engine makes is a method whose body is the engine's rule; a what-if overrides one of them.
"""

from __future__ import annotations

from dataclasses import asdict

from kvsched.contract import POLICY, SLOT, TOKEN, Denial, Plan, Result, Row
from kvsched.errors import InputError
from kvsched.invariants import Snapshot
from kvsched.log import (
    Abort,
    Admit,
    Arrive,
    Chunk,
    Deny,
    Finish,
    Idle,
    Log,
    Phase,
    Preempt,
    Resume,
    Undeny,
)
from kvsched.queues import Queue, make_queue
from kvsched.request import Request
from kvsched.vllm.block_pool import HashChain
from kvsched.vllm.config import Config
from kvsched.vllm.endings import check_stop
from kvsched.vllm.kv_cache import KVCacheManager
from kvsched.vllm.state import RequestState
from kvsched.vllm.status import (
    ABORTED,
    FINISH_REASON,
    PREEMPTED,
    RUNNING,
    RequestStatus,
)
from kvsched.vllm.step import Step


class Scheduler:
    """vLLM's V1 scheduler. ``running`` is in admission order, under either policy."""

    def __init__(self, config: Config, log: Log | None = None) -> None:
        self.config = config
        self.log = log if log is not None else Log()
        self.log.head("vllm", "0.28.0", asdict(config))
        self.threshold = config.long_prefill_token_threshold
        self.max_model_len = config.max_model_len
        self.kv = KVCacheManager(config, self.log)
        self.chain = HashChain() if config.enable_prefix_caching else None
        self.requests: dict[str, RequestState] = {}
        self.waiting: Queue[RequestState] = make_queue(config.policy)
        self.running: list[RequestState] = []
        self.standing: Denial | None = None

    # -- requests come and go ---------------------------------------------------------------

    def add(self, request: Request) -> Denial | None:
        """Queue a request. One that can never fit is queued like any other: it waits for ever."""
        if request.id in self.requests:
            raise InputError(f"request {request.id}", "the id is in use", "give each its own id")
        if request.num_prompt_tokens < 1:
            raise InputError(f"request {request.id}", "the prompt is empty", "give >= 1 token")
        r = RequestState(request, self.config, self.chain)
        self.requests[r.id] = r
        self.waiting.add(r)
        self.log.add(
            Arrive(
                r.id,
                r.num_prompt_tokens,
                r.max_tokens,
                r.priority,
                r.arrival_time,
                r.status.name,
                "waiting",
            )
        )
        return None

    def abort(self, request_id: str) -> None:
        """Forget a request and free its blocks; an unknown or finished id has no effect."""
        r = self.requests.get(request_id)
        self.log.add(Abort(request_id, r.status.name if r is not None else None))
        if r is None:
            return
        if r.status is RUNNING:
            self.running.remove(r)
        else:
            self.waiting.remove(r)
        self._end(r, ABORTED)

    def has_work(self) -> bool:
        """Is any request unfinished?"""
        return bool(self.requests)

    # -- one step ---------------------------------------------------------------------------

    def schedule(self, now: int) -> Plan:
        """Decide one step. ``now`` plays no part: vLLM's decisions do not read the clock."""
        self.log.phase = Phase.SCHEDULE
        step = Step(self.config.max_num_batched_tokens)
        self._running_pass(step)
        if len(step.scheduled) < len(self.running):
            self.log.add(Idle(tuple(r.id for r in self.running if r.id not in step.scheduled)))
        if self.may_admit(step):
            self._waiting_pass(step)
        elif self.waiting:
            head, victims = self.waiting.peek(), step.plan.victims
            step.plan.denials.append(Denial(head.id, POLICY, len(victims)))
        self._log_denial(step)
        step.plan.read_rows = self._rows
        return step.plan

    def _running_pass(self, step: Step) -> None:
        """Phase 1: each running request grows, evicting others until it can (:505-700)."""
        running = self.running
        i = 0
        while i < len(running) and step.tokens > 0:
            r = running[i]
            tokens = self.running_tokens(r, step)
            if tokens == 0:
                i += 1
                continue
            while (denial := self.kv.grow(r, tokens, self.headroom)) is not None:
                position = self.victim()
                victim = running.pop(position)
                if position < i:
                    i -= 1
                self._preempt(victim, step, denial)
                if victim is r:
                    # break, not continue (:686-692): the requests behind get nothing this step,
                    # more urgent ones included, although blocks were just freed.
                    return
            step.give(r, tokens)
            if tokens > 1 or r.num_computed_tokens < r.num_tokens:
                self.log.add(Chunk(r.id, tokens))
            i += 1

    def _waiting_pass(self, step: Step) -> None:
        """Phase 2: admit from the head of the queue until a test refuses (:748-1161)."""
        while self.waiting:
            r = self.waiting.peek()
            hits = self.kv.get_computed_blocks(r)
            tokens, denial = self.waiting_tokens(r, len(hits) * self.config.block_size, step)
            if denial is None:
                denial = self.kv.admit(r, tokens, hits, self.headroom(r))
            if denial is not None:
                step.plan.denials.append(denial)
                break  # head of line (:1047): nobody behind is tried
            self.waiting.pop()
            self._start(r, tokens, hits, step)

    def update(self, plan: Plan, result: Result) -> None:
        """Append what was sampled, in scheduling order; whoever ends gives blocks back at once."""
        self.log.phase = Phase.UPDATE
        delivered = 0
        ended = False
        for request_id in plan.sampling or ():
            r = self.requests[request_id]
            for token in result.tokens[request_id]:
                r.append(token)
                delivered += 1
                status = check_stop(r)
                if status is not None:
                    self._end(r, status)
                    ended = True
                    break
        if ended:
            self.running = [r for r in self.running if not r.status.is_finished]
        self.log.delivered += delivered

    # -- the engine's decisions -------------------------------------------------------------

    def running_tokens(self, r: RequestState, step: Step) -> int:
        """Tokens a running request asks for: all it lacks, cut by threshold, budget and length."""
        computed = r.num_computed_tokens
        tokens = r.num_tokens - computed
        if 0 < self.threshold < tokens:
            tokens = self.threshold
        tokens = min(tokens, step.tokens)
        if computed + tokens >= self.max_model_len:
            tokens = self.max_model_len - computed - 1
        return tokens

    def waiting_tokens(
        self, r: RequestState, computed: int, step: Step
    ) -> tuple[int, Denial | None]:
        """Tokens a waiting request would compute, or the budget that refuses it (:751-960)."""
        if step.tokens <= 0:
            return 0, Denial(r.id, TOKEN, 1, free=step.tokens)
        slots = self.config.max_num_seqs
        if len(self.running) >= slots:
            return 0, Denial(r.id, SLOT, len(self.running) + 1, free=slots)
        tokens = r.num_tokens - computed
        if 0 < self.threshold < tokens:
            tokens = self.threshold
        if tokens > step.tokens and not self.config.enable_chunked_prefill:
            return 0, Denial(r.id, TOKEN, tokens, free=step.tokens)
        return min(tokens, step.tokens), None

    def headroom(self, r: RequestState) -> int:
        """Free blocks to leave: the watermark, for who comes in while others run (:1044).

        A tax on growing the batch, not on keeping it alive.
        """
        if r.status is RUNNING or not self.running:
            return 0
        return self.config.watermark_blocks

    def victim(self) -> int:
        """Index in ``running`` of who is thrown out (:644, :678).

        FCFS: the last admitted. Priority: the first with the largest (priority, arrival_time);
        the id plays no part, so a full tie falls on the longest-admitted one.
        """
        running = self.running
        if self.config.policy == "fcfs":
            return len(running) - 1
        return max(
            range(len(running)), key=lambda i: (running[i].priority, running[i].arrival_time)
        )

    def may_admit(self, step: Step) -> bool:
        """Nobody is admitted in a step that preempted (:748)."""
        return not step.plan.victims

    # -- what a decision does ---------------------------------------------------------------

    def _preempt(self, v: RequestState, step: Step, denial: Denial) -> None:
        """Blocks back, progress to zero, to the front of the queue: recompute (:1349)."""
        refunded = step.take_back(v)
        lost = v.num_computed_tokens
        free_before = len(self.kv.pool.free)
        v.former_blocks = v.block_table
        self.kv.free(v)
        v.num_computed_tokens = 0
        v.num_preemptions += 1
        v.move_to(PREEMPTED)
        self.waiting.requeue(v)
        step.plan.victims.append(v.id)
        free_after = len(self.kv.pool.free)
        self.log.add(
            Preempt(v.id, denial, lost, refunded, free_before, free_after, v.num_preemptions)
        )

    def _start(self, r: RequestState, tokens: int, hits: list[int], step: Step) -> None:
        """Move an admitted request to ``running``; its blocks are already its own."""
        size = self.config.block_size
        own = sum(1 for mine, hit in zip(r.former_blocks, hits, strict=False) if mine == hit)
        resumed = r.status is PREEMPTED
        r.move_to(RUNNING)
        r.num_computed_tokens = computed = len(hits) * size
        self.running.append(r)
        step.give(r, tokens)
        (step.plan.resumed if resumed else step.plan.admitted).append(r.id)
        kind = Resume if resumed else Admit
        self.log.add(kind(r.id, tokens, computed, own * size, (len(hits) - own) * size))

    def _end(self, r: RequestState, status: RequestStatus) -> None:
        r.move_to(status)
        if status is not ABORTED:
            self.log.add(Finish(r.id, status.name, FINISH_REASON[status]))
        self.kv.free(r)
        del self.requests[r.id]

    def _log_denial(self, step: Step) -> None:
        """Write the head's denial when it is new or a number in it changed."""
        denial = step.plan.denials[-1] if step.plan.denials else None
        if denial == self.standing:
            return
        if denial is not None:
            self.log.add(Deny(denial))
        elif self.standing is not None:
            self.log.add(Undeny(self.standing.id))
        self.standing = denial

    def snapshot(self, plan: Plan) -> Snapshot:
        """The state between two calls, for the numbered invariants."""
        pool = self.kv.pool
        return Snapshot(
            usable=range(1, self.config.num_gpu_blocks),
            free=list(pool.free),
            ref_cnt=pool.ref_cnt,
            tables={r.id: r.block_table for r in self.requests.values()},
            containers={
                "waiting": [r.id for r in self.waiting],
                "running": [r.id for r in self.running],
            },
            live=frozenset(self.requests),
            tokens=self.config.max_num_batched_tokens,
            slots=self.config.max_num_seqs,
            scheduled=plan.scheduled,
        )

    def holdings(self) -> dict[str, int]:
        """Blocks held, by request, for those that hold any."""
        return {r.id: len(r.block_table) for r in self.requests.values() if r.block_table}

    def _rows(self, plan: Plan) -> list[Row]:
        rows = []
        for request_id, count in plan.scheduled.items():
            r = self.requests[request_id]
            rows.append(Row(r.id, r.num_computed_tokens - count, count, tuple(r.block_table)))
        return rows
