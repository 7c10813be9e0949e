"""The prefill pass: in queue order, everyone the adder takes, until its first "no more".

SGLang 0.5.18 managers/scheduler.py:3184-3451 (C below).
"""

from __future__ import annotations

from kvsched.contract import POLICY, SLOT, Denial
from kvsched.log import Admit, Chunk, Resume
from kvsched.sglang.adder import PrefillAdder, Verdict
from kvsched.sglang.core import Batch, ids
from kvsched.sglang.events import Continued, Lose, Offer, Opening, Ride, Sorted, write
from kvsched.sglang.ignore_eos import Adder
from kvsched.sglang.preempt import Preemption
from kvsched.sglang.req import Req


class Prefill(Preemption):
    """Admission. A pass that admits anybody decodes nobody, unless mixed chunks are on.

    ``adder_class`` holds the admission test's own decisions; a what-if may put another there.
    """

    adder_class: type[PrefillAdder] = Adder

    # -- the engine's decisions -------------------------------------------------------------

    def make_adder(self) -> PrefillAdder:
        """Budgets for this pass, over the running batch as it stands, finished ones included."""
        mixed = len(self.running) if self.config.enable_mixed_chunk else 0
        return self.adder_class(self.config, self.kv, self.running, self.ratio.current, mixed)

    def order(self) -> None:
        """Put the queue in the policy's order."""
        before = self.waiting.copy()
        self.policy.sort(self.waiting, self.running)
        if before != self.waiting:
            write(self.log, Sorted(ids(self.waiting)))

    def slots_left(self, running: int) -> int:
        """Requests that may still be admitted beside ``running`` ones (C:3152)."""
        slots = self.config.max_running_requests
        return min(slots - running, slots - self.slots_taken)

    def after_preempting_for_nobody(self, preempted: list[Req]) -> None:
        """Preempted requests whose place nobody took.

        0.5.18 forgets them: they are in no container, and their clients wait for ever (C:3368).
        0.5.22 puts them back.
        """
        if self.config.fix22:
            self.requeue(preempted)
        elif preempted:
            self.lost.update(ids(preempted))
            write(self.log, Lose(ids(preempted)))

    # -- the pass ---------------------------------------------------------------------------

    def new_prefill_batch(self) -> Batch | None:
        """Admit whom the budgets allow; None if nobody."""
        if self.config.priority_preemption:
            self.set_full(False)
        if (self.full or not self.waiting) and self.chunked_req is None:
            self._repeat_denial()
            return None
        running = len(self.running)
        preempting = self.config.priority_preemption
        if self.slots_left(running) <= 0 and self.chunked_req is None and not preempting:
            self._deny_slot(self.waiting[0], 1, running)
            return None
        self.order()
        adder = self.make_adder()
        write(self.log, Opening(adder.budgets))
        if self.chunked_req is not None:
            self._continue(self.chunked_req, adder)
        self._admit_waiting(adder, running)
        return self._batch(adder)

    def _continue(self, r: Req, adder: PrefillAdder) -> None:
        """The chunked request goes first, whatever the policy says of it (C:3277)."""
        r.fill_len = r.num_tokens
        truncated = adder.add_chunked(r)
        write(self.log, Continued(r.id, r.extend_range, truncated, adder.budgets))
        if not truncated:
            self.set_chunked(None)

    def _admit_waiting(self, adder: PrefillAdder, running: int) -> None:
        """Try everyone in order; the first verdict that is not CONTINUE ends it (C:3337).

        The chunked request counts among the admitted although it has its slot. Once the slots
        were found taken, each further one must preempt for itself.
        """
        stopped = False
        for r in self.waiting:
            if stopped:
                self._stand(adder.exhausted(r))
                self.full_because = self.plan.denials[0] if self.full else None
                return
            if len(adder.can_run) >= self.slots_left(running):
                self.set_full(True)
            if self.full and not self._takes_a_place(r, adder, running):
                return
            r.fill_len = r.num_tokens
            self.kv.match(r, r.fill_len - 1)
            verdict = adder.add(r)
            added = bool(adder.can_run) and adder.can_run[-1] is r
            extent = r.extend_range if added else None
            asked, left = adder.tested or (None, None)
            write(self.log, Offer(r.id, extent, verdict.value, adder.budgets, asked, left))
            if verdict is Verdict.NO_TOKEN:
                self.set_full(True, adder.denial)
            if verdict is not Verdict.CONTINUE and not added:
                self._stand(adder.denial)
                return
            stopped = verdict is not Verdict.CONTINUE

    def _takes_a_place(self, r: Req, adder: PrefillAdder, running: int) -> bool:
        """The slots are taken; may ``r`` preempt?"""
        if self.config.priority_preemption and self.preempt_for(r, adder):
            return True
        self._deny_slot(r, len(adder.can_run) + 1, running)
        return False

    def _batch(self, adder: PrefillAdder) -> Batch | None:
        """Move the admitted out of the queue and give them memory."""
        admitted = adder.can_run
        if not admitted:
            self.after_preempting_for_nobody(adder.preempted)
            return None
        chosen = set(ids(admitted))
        self.waiting = [r for r in self.waiting if r.id not in chosen]
        for r in admitted:
            self._log_row(r)
        self.requeue(adder.preempted)
        if adder.new_chunked is not None:
            self.set_chunked(adder.new_chunked)
        if self.chunked_req is not None:
            self.chunked_req.inflight_middle_chunks += 1
        self.slots_taken += sum(1 for r in admitted if not r.has_slot)
        self.kv.extend(admitted)
        for r in admitted:
            r.is_retracted = False
        riders = self._riders() if self.config.enable_mixed_chunk else []
        return Batch([*admitted, *riders], prefills=len(admitted))

    def _riders(self) -> list[Req]:
        """The running batch joins the pass, without a memory check, and is empty now (C:3431)."""
        self.drop_finished()
        riders, self.running = self.running, []
        if riders:
            self.kv.grow(riders)
            write(self.log, Ride(ids(riders)))
        return riders

    # -- what is said about it --------------------------------------------------------------

    def _log_row(self, r: Req) -> None:
        start, end = r.extend_range
        if r.has_slot:
            self.log.add(Chunk(r.id, end - start))
            return
        own = self.kv.own_hits(r)
        (self.plan.resumed if r.is_retracted else self.plan.admitted).append(r.id)
        kind = Resume if r.is_retracted else Admit
        self.log.add(kind(r.id, end - start, start, own, start - own))

    def _deny_slot(self, r: Req, need: int, running: int) -> None:
        denial = Denial(r.id, SLOT, need, free=max(0, self.slots_left(running)))
        self.set_full(True, denial)
        self._stand(denial)

    def _repeat_denial(self) -> None:
        """While the batch is full, the test that made it so stands; or the flag, for another."""
        if self.waiting and self.full:
            head, because = self.waiting[0].id, self.full_because
            same = because is not None and because.id == head
            self._stand(because if same else Denial(head, POLICY, 1))

    def _stand(self, denial: Denial | None) -> None:
        if denial is not None:
            self.plan.denials = [denial]
