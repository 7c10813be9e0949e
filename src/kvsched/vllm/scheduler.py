"""The two-phase scheduler: running requests first, then, if nobody was evicted, the queues.

Mirrors vLLM 0.28.0 v1/core/sched/scheduler.py; line numbers below are that file's. Each decision
the engine makes is a method whose body is the engine's rule; a what-if overrides one of them.
What waits outside lives in ``waits.py`` and ``loads.py``, streaming sessions in ``sessions.py``,
pausing and resetting in ``orders.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from kvsched.contract import (
    POLICY,
    SLOT,
    TOKEN,
    Control,
    Denial,
    Plan,
    Result,
    Row,
    Script,
    World,
)
from kvsched.errors import InputError
from kvsched.invariants import Snapshot
from kvsched.log import (
    Abort,
    Admit,
    Arrive,
    Chunk,
    Deliver,
    Deny,
    Enqueue,
    Finish,
    Idle,
    Log,
    Phase,
    Preempt,
    Resume,
    SetAside,
    Undeny,
    Verify,
)
from kvsched.queues import Queue, make_queue
from kvsched.request import Request
from kvsched.vllm import orders
from kvsched.vllm.block_pool import HashChain
from kvsched.vllm.config import Config
from kvsched.vllm.drafts import Drafts
from kvsched.vllm.endings import check_stop
from kvsched.vllm.kv_cache import Found, KVCacheManager
from kvsched.vllm.loads import Loads
from kvsched.vllm.sessions import Sessions
from kvsched.vllm.state import RequestState
from kvsched.vllm.status import (
    ABORTED,
    BLOCKED,
    ERROR,
    FINISH_REASON,
    GRAMMAR,
    PREEMPTED,
    REMOTE,
    RUNNING,
    STREAM,
    RequestStatus,
)
from kvsched.vllm.step import Step
from kvsched.vllm.stretch import Stretch, ahead
from kvsched.vllm.waits import Waits


class Scheduler:
    """vLLM's V1 scheduler. ``running`` is in admission order, under either policy.

    ``waiting`` and ``skipped`` are its two queues: whoever waits for something outside, or was
    passed over, stands in ``skipped``. ``world`` answers for the outside; by default nothing
    waits.
    """

    def __init__(self, config: Config, log: Log | None = None, world: World | None = None) -> None:
        self.config = config
        self.log = log if log is not None else Log()
        self.log.head("vllm", "0.28.0", asdict(config))
        self.world = world if world is not None else World()
        self.threshold = config.long_prefill_token_threshold
        self.max_model_len = config.max_model_len
        self.kv = self.make_kv()
        self.chain = HashChain() if config.enable_prefix_caching else None
        self.loads = Loads(self.world, self.kv, self.log)
        self.waits = Waits(self.world, self.loads, self.log)
        self.sessions = Sessions(self.log)
        self.drafts = Drafts(config, self.log) if config.num_speculative_tokens else None
        self.requests: dict[str, RequestState] = {}
        self.waiting: Queue[RequestState] = make_queue(config.policy)
        self.skipped: Queue[RequestState] = make_queue(config.policy)
        self.running: list[RequestState] = []
        self.paused = "none"
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
        if request.grammar:
            r.move_to(GRAMMAR)
        queue = self._enqueue(r)
        self.log.add(
            Arrive(
                r.id,
                r.num_prompt_tokens,
                r.max_tokens,
                r.priority,
                r.arrival_time,
                r.status.name,
                queue,
            )
        )
        return None

    def abort(self, request_id: str) -> None:
        """Forget a request and free its blocks; an unknown or finished id has no effect."""
        r = self.requests.get(request_id)
        if r is None or r.status.is_finished:
            self.log.add(Abort(request_id, None))
            return
        before = r.status
        self.remove(r)
        held = self._release(r, ABORTED)
        self.log.add(Abort(request_id, before.name, held))

    def control(self, op: Control) -> None:
        """A session's next chunk or its close, a reset of the prefix cache, a pause."""
        orders.carry_out(self, op)

    def has_work(self) -> bool:
        """Is any request unfinished, or finished with a transfer in progress?"""
        return bool(self.requests)

    def make_kv(self) -> KVCacheManager:
        """The allocator."""
        return KVCacheManager(self.config, self.log)

    # -- one step ---------------------------------------------------------------------------

    def schedule(self, now: int) -> Plan:
        """Decide one step. ``now`` plays no part: vLLM's decisions do not read the clock."""
        self.log.phase = Phase.SCHEDULE
        budget = 0 if self.paused == "all" else self.config.max_num_batched_tokens
        step = Step(budget) if self.drafts is None else self.drafts.step(budget)
        self._running_pass(step)
        if len(step.scheduled) < len(self.running):
            self.log.add(Idle(tuple(r.id for r in self.running if r.id not in step.scheduled)))
        if self.may_admit(step):
            self._waiting_pass(step)
        elif step.plan.victims:
            head, victims = self.waiting.peek(), step.plan.victims
            step.plan.denials.append(Denial(head.id, POLICY, len(victims)))
        if self.loads.inflight:
            self.loads.settle(step.scheduled)
        if self.drafts is not None:
            self.drafts.depart(step.plan, self.requests)
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
                self.preempt(victim, denial, step)
                if victim is r:
                    # break, not continue (:686-692): the requests behind get nothing this step,
                    # more urgent ones included, although blocks were just freed.
                    return
            samples = step.give(r, tokens)
            if tokens > 1 or not samples:
                self.log.add(Verify(r.id, r.num_drafts) if r.num_drafts else Chunk(r.id, tokens))
            i += 1

    def _waiting_pass(self, step: Step) -> None:
        """Phase 2: admit from the head of the queues until a test refuses (:748-1161)."""
        held: Queue[RequestState] = make_queue(self.config.policy)
        while self.waiting or self.skipped:
            queue = self.next_queue()
            r = queue.peek()
            denial = self.no_room(r, step)
            if denial is None:
                found = self.find(r)
                if found is None:
                    self._set_aside(queue, held)
                    continue
                denial = self._admit(r, found, step, held)
            if denial is None:
                queue.pop()
                continue
            step.plan.denials.append(denial)
            if not self.passes_over(denial):
                break
            self._set_aside(queue, held)
        for r in held:
            self.skipped.requeue(r)

    def update(self, plan: Plan, result: Result) -> None:
        """Append what was sampled, in scheduling order; whoever ends gives blocks back at once."""
        self.log.phase = Phase.UPDATE
        lost, errors = self._lose(plan, result) if result.invalid_blocks else ([], [])
        if self.drafts is not None:
            self.drafts.settle(plan, result, self.requests)
        self.take_in(plan, result, lost)
        if errors or self.waits.failed_grammars:
            self._end_failed(errors)
        if result.finished_recving or result.finished_sending or result.invalid_blocks:
            self.loads.report(self.requests, result)
        if self.drafts is not None and not self.config.async_scheduling:
            self.drafts.keep(plan, result, self.requests)
        self.log.free_blocks.append(len(self.kv.pool.free))

    def take_in(self, plan: Plan, result: Result, lost: list[RequestState]) -> None:
        """Append each request's tokens; ``lost`` requests get none."""
        requests, sampled = self.requests, result.tokens
        stopped = False
        delivered = 0
        for request_id in plan.sampling or ():
            r = requests.get(request_id)
            if r is None or r.status is not RUNNING or r in lost:
                if r is not None and r.status is PREEMPTED:  # a reset since schedule()
                    self.log.add(Deliver(r.id, 0))
                continue
            known = r.num_tokens
            status = self.append(r, sampled[request_id])
            delivered += r.num_tokens - known
            if status is not None:
                self._stop(r, status)
                stopped = True
        self.log.delivered += delivered
        if stopped:
            self.running = [r for r in self.running if r.status is RUNNING]

    def append(self, r: RequestState, tokens: Sequence[int]) -> RequestStatus | None:
        """Append tokens until one ends the request: its status then, else None.

        A grammar that does not accept them ends it, too, whatever they ended (:1908-1919).
        """
        known = r.num_tokens
        status = None
        for token in tokens:
            r.append(token)
            status = check_stop(r)
            if status is not None:
                break
        if r.num_tokens < known + len(tokens):
            self.log.add(Deliver(r.id, r.num_tokens - known))
        if r.grammar and not self.world.accepts(r.id, tokens):
            return ERROR
        return status

    def stretch(self, script: Script) -> Stretch | None:
        """The steps ahead that decide nothing, if any; a what-if's are for it to know."""
        plain = type(self) is Scheduler and self.drafts is None
        return ahead(self, script) if plain else None

    # -- the engine's decisions -------------------------------------------------------------

    def running_tokens(self, r: RequestState, step: Step) -> int:
        """Tokens a running request asks for: all it lacks, cut by threshold, budget and length."""
        computed = r.num_computed_tokens
        tokens = r.num_tokens + r.num_output_placeholders + r.num_spec_tokens - computed
        if 0 < self.threshold < tokens:
            tokens = self.threshold
        if tokens > step.tokens:  # noqa: PLR1730  min() is a call, and this runs for each token
            tokens = step.tokens
        if computed + tokens >= self.max_model_len:
            tokens = max(0, self.max_model_len - computed - 1)
        return tokens

    def no_room(self, r: RequestState, step: Step) -> Denial | None:
        """The budget that ends admission: tokens (:751), or slots, paused sessions too (:756)."""
        if step.tokens <= 0:
            return Denial(r.id, TOKEN, 1, free=max(0, step.tokens))
        taken = len(self.running) + self.sessions.paused
        if taken >= self.config.max_num_seqs:
            return Denial(r.id, SLOT, taken + 1, free=self.config.max_num_seqs)
        return None

    def next_queue(self) -> Queue[RequestState]:
        """Which queue's head is next (:2152-2162).

        FCFS: ``skipped`` while it has anyone, so who was ever set aside goes before everybody in
        ``waiting``. Priority: the queue with the more urgent head, ``skipped`` on a tie.
        """
        if not self.waiting or not self.skipped:
            return self.skipped or self.waiting
        if self.config.policy == "fcfs" or not self.waiting.peek() < self.skipped.peek():
            return self.skipped
        return self.waiting

    def find(self, r: RequestState) -> Found | None:
        """What a waiting request need not compute; None sets it aside (:766-841)."""
        return self.loads.find(r) if self.waits.ready(r) else None

    def waiting_tokens(
        self, r: RequestState, found: Found, step: Step
    ) -> tuple[int, Denial | None]:
        """Tokens a waiting request would compute, or the budget that refuses it (:930-960)."""
        if found.asynchronous:
            return 0, None
        tokens = r.num_tokens - found.computed
        if tokens == 1 and self.drafts is not None and self.drafts.pads(step, self.running):
            tokens += self.config.num_speculative_tokens
            limit = min(step.tokens, self.max_model_len - found.computed)
            if tokens > limit:
                return 0, Denial(r.id, TOKEN, tokens, free=limit)
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

    def reserved(self, r: RequestState, found: Found) -> int:
        """Blocks kept from an asynchronous load for work in flight (:1025-1031)."""
        return self.loads.reserved(r) if found.asynchronous else 0

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

    def passes_over(self, denial: Denial) -> bool:
        """Is the next one tried after a refusal? No: ``break``, the head of line holds (:1047)."""
        return False

    def drops(self, denial: Denial | None) -> bool:
        """Is a victim's output in flight thrown away? If a reset did it, or a sender (:683)."""
        return denial is None or self.config.requires_kv_delivery

    def may_admit(self, step: Step) -> bool:
        """Nobody is admitted in a step that preempted, or while paused (:748)."""
        return not step.plan.victims and self.paused == "none"

    def on_preempt(self, v: RequestState) -> None:
        """What becomes of a victim's progress: nothing is kept, all is recomputed (:1356)."""
        v.num_computed_tokens = 0

    # -- what a decision does ---------------------------------------------------------------

    def preempt(self, v: RequestState, denial: Denial | None, step: Step | None = None) -> None:
        """Blocks back, progress given up, to the front of ``waiting`` (:1349)."""
        refunded = step.take_back(v) if step is not None else 0
        lost = v.num_computed_tokens
        free_before = len(self.kv.pool.free)
        v.num_preemptions += 1
        self.on_preempt(v)
        self.kv.free(v)
        self.loads.inflight.pop(v.id, None)
        v.throw_back(drop=self.drops(denial))
        v.move_to(PREEMPTED)
        self.waiting.requeue(v)
        if step is not None:
            step.plan.victims.append(v.id)
        free_after = len(self.kv.pool.free)
        self.log.add(
            Preempt(v.id, denial, lost, refunded, free_before, free_after, v.num_preemptions)
        )

    def _admit(
        self, r: RequestState, found: Found, step: Step, held: Queue[RequestState]
    ) -> Denial | None:
        """Allocate and start, or the denial of the test that binds; then nothing changed."""
        tokens, denial = self.waiting_tokens(r, found, step)
        if denial is None:
            reserved = self.reserved(r, found)
            denial = self.kv.admit(r, tokens, found, self.headroom(r), reserved)
        if denial is not None:
            return denial
        if found.external:
            self.loads.begin(r, found)
        if found.asynchronous:
            held.requeue(r)
        else:
            self._start(r, tokens, found, step)
        return None

    def _start(self, r: RequestState, tokens: int, found: Found, step: Step) -> None:
        """Move an admitted request to ``running``; its blocks are already its own."""
        size = self.config.block_size
        hits = found.hits
        own = self.kv.own(r, hits)
        kind, ids = (
            (Resume, step.plan.resumed) if r.status is PREEMPTED else (Admit, step.plan.admitted)
        )
        r.move_to(RUNNING)
        r.num_computed_tokens = found.computed
        self.running.append(r)
        step.give(r, tokens)
        if r.num_computed_tokens < r.num_tokens:
            self.loads.inflight[r.id] = r
        ids.append(r.id)
        self.log.add(kind(r.id, tokens, found.computed, own * size, (len(hits) - own) * size))

    def _set_aside(self, queue: Queue[RequestState], held: Queue[RequestState]) -> None:
        """Pass a request over in this walk; at its end it stands at the front of ``skipped``."""
        r = queue.pop()
        held.requeue(r)
        self.log.add(SetAside(r.id))

    def _enqueue(self, r: RequestState) -> str:
        """Blocked requests wait in ``skipped``, others in ``waiting`` (:2146)."""
        if r.status in BLOCKED:
            self.skipped.add(r)
            return "skipped"
        self.waiting.add(r)
        return "waiting"

    def _stop(self, r: RequestState, status: RequestStatus) -> None:
        """A running request reached its end; a session may only have ended a chunk (:2164)."""
        if status is not ERROR and self.sessions.stop(r, status):
            self.log.add(Enqueue(r.id, self._enqueue(r)))
        else:
            self.finish(r, status, r.stop_reason)

    def finish(
        self, r: RequestState, status: RequestStatus, stop_reason: int | str | None = None
    ) -> None:
        """End a request with a reason its client is told."""
        held = self._release(r, status)
        self.log.add(Finish(r.id, status.name, FINISH_REASON[status], stop_reason, held))

    def remove(self, r: RequestState) -> None:
        """Take a request out of the place where it stands."""
        if r.status is RUNNING:
            self.running.remove(r)
        else:
            self.waiting.discard(r)
            self.skipped.discard(r)
        if r.status is STREAM:
            self.sessions.paused -= 1

    def _release(self, r: RequestState, status: RequestStatus) -> bool:
        """Give blocks back, unless a transfer in progress holds them: True if so (:2362-2400)."""
        held = self.loads.holds(r)
        r.move_to(status)
        if not held:
            self.kv.free(r)
            del self.requests[r.id]
        return held

    def _lose(self, plan: Plan, result: Result) -> tuple[list[RequestState], list[RequestState]]:
        """Blocks could not be filled: who loses this step's output, and who ends for it."""
        loading = [r for r in self.skipped if r.status is REMOTE]
        lost, errors = self.loads.invalidate(
            result.invalid_blocks, loading, self.running, plan.scheduled
        )
        for r in lost:
            if r.id in (plan.sampling or ()):
                self.log.add(Deliver(r.id, 0))
        return lost, errors

    def _end_failed(self, errors: list[RequestState]) -> None:
        """After the outputs: failed grammars and, by policy, failed loads end with an error."""
        failed = self.waits.failed_grammars
        errors = errors + [self.requests[i] for i in failed if i in self.requests]
        failed.clear()
        for r in sorted(errors, key=lambda r: r.id):
            self.remove(r)
            self.finish(r, ERROR)

    def _log_denial(self, step: Step) -> None:
        """Write the first denial of the step when it is new or a number in it changed."""
        denial = step.plan.denials[0] if step.plan.denials else None
        if denial == self.standing:
            return
        if denial is not None:
            self.log.add(Deny(denial))
        elif self.standing is not None:
            self.log.add(Undeny(self.standing.id))
        self.standing = denial

    # -- what others may look at ------------------------------------------------------------

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
                "skipped": [r.id for r in self.skipped],
                "running": [r.id for r in self.running],
            },
            live=frozenset(r.id for r in self.requests.values() if not r.status.is_finished),
            tokens=self.config.max_num_batched_tokens,
            slots=self.config.max_num_seqs,
            scheduled=plan.scheduled,
        )

    def holdings(self) -> dict[str, int]:
        """Blocks held by each request, those that hold none included."""
        return {r.id: len(r.block_table) for r in self.requests.values()}

    def _rows(self, plan: Plan) -> list[Row]:
        """Who is gone, by an abort while the step was on the device, has no row any more."""
        find = self.requests.get
        return [
            Row(request_id, r.num_computed_tokens - tokens, tokens, r.block_table)
            for request_id, tokens in plan.scheduled.items()
            if (r := find(request_id)) is not None
        ]
