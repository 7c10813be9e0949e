"""The loop's two halves: decide an iteration, and take in what a pass returned.

Normal loop and overlap loop differ only in which pass ``update`` is given: this iteration's, or
the one before (``lag=1``). SGLang 0.5.18 managers/scheduler.py (C below),
managers/scheduler_components/batch_result_processor.py (B).
"""

from __future__ import annotations

from math import floor

from kvsched.contract import Control, Denial, Plan, Result, Row
from kvsched.errors import InputError
from kvsched.invariants import Snapshot
from kvsched.log import Abort, Arrive, Deny, Finish, Phase, Undeny
from kvsched.request import Request
from kvsched.sglang.core import ABORT, Batch, BatchPlan, ids
from kvsched.sglang.events import Landed, Merge, write
from kvsched.sglang.prefill import Prefill
from kvsched.sglang.req import Req
from kvsched.sglang.snapshot import snapshot
from kvsched.sglang.state import State, derived_state

TIMEOUT = "Request waiting timeout reached."
BY_CLIENT = "Aborted"


class Scheduler(Prefill):
    """SGLang's scheduler."""

    idles = True
    """An iteration with nobody here resets the ratio."""

    standing: Denial | None = None
    pending_chunked_abort = False

    # -- requests come and go ---------------------------------------------------------------

    def add(self, request: Request) -> Denial | None:
        """Queue a request, behind everybody. One that can never fit waits for ever."""
        if request.id in self.requests:
            raise InputError(f"request {request.id}", "the id is in use", "give each its own id")
        if request.num_prompt_tokens < 1:
            raise InputError(f"request {request.id}", "the prompt is empty", "give >= 1 token")
        r = Req(request, self.config)
        self.enter(r)
        self.requests[r.id] = r
        self.waiting.append(r)
        fields = (r.id, r.num_prompt_tokens, r.max_new_tokens, r.priority, request.arrival_time)
        self.log.add(Arrive(*fields, State.WAITING.value, "waiting"))
        return None

    def abort(self, request_id: str) -> None:
        """Forget a request; an unknown or finished id has no effect.

        A running one ends with its next token, the chunked one before the next pass (C:4443).
        """
        r = self.requests.get(request_id)
        self.log.add(Abort(request_id, derived_state(r, self).value if r is not None else None))
        if r is None:
            return
        if r in self.waiting:
            self.waiting.remove(r)
            self.tell_abort(r, BY_CLIENT)
        elif r is self.chunked_req:
            self.pending_chunked_abort = True
        elif r.has_slot:
            r.to_finish = BY_CLIENT
        else:  # it was lost
            self.tell_abort(r, BY_CLIENT)

    def has_work(self) -> bool:
        """Is any request unfinished? A lost one is, for ever."""
        return bool(self.requests)

    def control(self, op: Control) -> None:
        """Refuse an order: none is modelled for this engine."""
        name = type(op).__name__
        raise InputError(f"order {name}", "SGLang's scheduler has none here", "give it to vLLM's")

    # -- one iteration ----------------------------------------------------------------------

    def schedule(self, now: int) -> Plan:
        """Decide one pass: a prefill if anybody can be admitted, else a decode."""
        self.log.phase = Phase.SCHEDULE
        self.now = now
        self.plan = plan = BatchPlan(kind="idle", read_rows=_rows, step=self.log.step)
        for r in reversed(self.waiting):
            if r.wait_queue_entry_time is not None:
                break
            r.wait_queue_entry_time = now
        self.abort_timed_out()
        self.stash_chunked()
        self.merge_last_batch()
        batch = self.new_prefill_batch()
        if batch is None and self.running:
            batch = self.update_running()
        self.last_batch = batch
        if batch is not None:
            self._tell(batch, plan)
        self.log_flags()
        self._log_denial()
        return plan

    def update(self, plan: Plan, result: Result) -> None:
        """Take in the tokens of a pass; or, if nothing ran, see whether all is done."""
        self.log.phase = Phase.UPDATE
        assert isinstance(plan, BatchPlan)
        batch = plan.batch
        if batch is None:
            if self.last_batch is None:
                self.on_idle()
        else:
            write(self.log, Landed(plan.step))
            self._process(batch, result)
        self.log_flags()
        self.log.free_blocks.append(self.kv.free_pages)

    # -- the engine's decisions -------------------------------------------------------------

    def timed_out(self, r: Req) -> bool:
        """Has it waited longer than allowed? Off unless the limit is positive (C:2816)."""
        limit, since = self.config.req_waiting_timeout, r.wait_queue_entry_time
        return limit > 0 and since is not None and since < self.now - limit

    def next_wake(self) -> int | None:
        """When the next of those who wait has waited too long; None without a limit."""
        limit = self.config.req_waiting_timeout
        since = [r.wait_queue_entry_time for r in self.waiting]
        times = [floor(entry + limit) + 1 for entry in since if entry is not None and limit > 0]
        return min(times, default=None)

    def end_reason(self, r: Req, token: int) -> tuple[str, str] | None:
        """Status and reason with which ``r`` ends at the token just appended, or None."""
        if r.to_finish is not None:
            return ABORT, r.to_finish
        if r.num_output_tokens >= r.max_new_tokens:
            return "FINISH_LENGTH", "length"
        if token in r.stop_token_ids and not r.ignore_eos:
            return "FINISH_MATCHED_TOKEN", "stop"
        return None

    def on_idle(self) -> None:
        """Nothing ran: if nobody is here at all, the ratio starts afresh (C:4041-4075).

        With anybody waiting it does not.
        """
        if not (self.waiting or self.running or self.chunked_req):
            self.ratio.reset()

    # -- the steps before the passes --------------------------------------------------------

    def abort_timed_out(self) -> None:
        """Turn away who has waited too long, at the start of every iteration (C:3022)."""
        late = [r for r in self.waiting if self.timed_out(r)]
        if late:
            self.waiting = [r for r in self.waiting if r not in late]
        for r in late:
            self.tell_abort(r, TIMEOUT)

    def stash_chunked(self) -> None:
        """Put the chunk that was computed last into the tree (C:2925)."""
        r = self.chunked_req
        if r is None:
            return
        if self.pending_chunked_abort:
            self.pending_chunked_abort = False
            self.free(r, insert=False)
            self.set_chunked(None)
            self.tell_abort(r, BY_CLIENT)
        elif r.extend_range[1] > r.prefix_len:
            self.kv.cache_unfinished(r)

    def merge_last_batch(self) -> None:
        """Requests whose prefill ran in the last iteration start to decode (C:3067-3092).

        Until here they are in no container but that batch. If nobody runs, their batch becomes
        the running one, with its own flag.
        """
        last = self.last_batch
        if last is None or not last.prefills:
            return
        joining = [r for r in last.reqs if not r.over and r is not self.chunked_req]
        if len(joining) < len(last.reqs):
            self.set_full(False)
        if joining:
            if not self.running:
                self.set_full(False)
            self.running += joining
            write(self.log, Merge(ids(joining)))

    # -- what a pass returned ---------------------------------------------------------------

    def _process(self, batch: Batch, result: Result) -> None:
        """Append each row's token; who is done gives its memory back (B:193, B:805).

        Rows that finished or were retracted while the pass ran are skipped: their token is lost.
        """
        tokens = result.tokens
        for i, r in enumerate(batch.reqs):
            if r.over or r.is_retracted:
                continue
            prefill = i < batch.prefills
            if prefill and r.inflight_middle_chunks > 0:
                r.inflight_middle_chunks -= 1
                continue
            token = tokens[r.id][0]
            r.append(token)
            self.log.delivered += 1
            end = self.end_reason(r, token)
            if end is not None:
                self._finish(r, *end)
            elif prefill:
                self.kv.cache_unfinished(r)

    def _finish(self, r: Req, status: str, reason: str) -> None:
        r.finished = status
        self.log.add(Finish(r.id, status, reason))
        self.free(r, insert=True)
        del self.requests[r.id]

    # -- what is said about it --------------------------------------------------------------

    def _tell(self, batch: Batch, plan: BatchPlan) -> None:
        plan.batch = batch
        plan.kind = batch.kind
        for r, (start, end) in zip(batch.reqs, batch.extents, strict=True):
            plan.scheduled[r.id] = end - start
        middle = self.chunked_req
        plan.sampling = [r.id for r in batch.reqs if r is not middle]

    def _log_denial(self) -> None:
        """Write the head's denial when it is new or a number in it changed."""
        denial = self.plan.denials[-1] if self.plan.denials else None
        if denial == self.standing:
            return
        if denial is not None:
            self.log.add(Deny(denial))
        elif self.standing is not None:
            self.log.add(Undeny(self.standing.id))
        self.standing = denial

    def snapshot(self, plan: Plan) -> Snapshot:
        """The state between two calls, for the numbered invariants."""
        return snapshot(self, plan)

    def holdings(self) -> dict[str, int]:
        """Pages in the table of each unfinished request; a lost one has none."""
        return {r.id: len(r.pages) for r in self.requests.values()}


def _rows(plan: Plan) -> list[Row]:
    batch = plan.batch if isinstance(plan, BatchPlan) else None
    if batch is None:
        return []
    return [
        Row(r.id, start, end - start, r.pages)
        for r, (start, end) in zip(batch.reqs, batch.extents, strict=True)
    ]
