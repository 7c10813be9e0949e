"""The decode pass, and who is thrown out when its next tokens do not fit.

SGLang 0.5.18 managers/scheduler.py:3481-3564, managers/schedule_batch.py:2816-2905.
"""

from __future__ import annotations

from typing import Any

from kvsched.contract import BLOCK, Denial
from kvsched.log import Finish, Preempt
from kvsched.sglang.core import ABORT, Batch, Core, ids
from kvsched.sglang.events import Retract, write
from kvsched.sglang.req import Req

OUT_OF_MEMORY = (
    "Out of memory even after retracting all other requests in the decode batch. "
    "Aborting the last request."
)


class Decoding(Core):
    """One more token for every running request."""

    # -- the engine's decisions -------------------------------------------------------------

    def keep_rank(self, r: Req) -> tuple[Any, ...]:
        """Larger is kept longer: most outputs, then the shortest prompt (schedule_batch.py:2866).

        With ``retraction_policy`` priority, the priority comes first.
        """
        rank = (r.num_output_tokens, -r.num_prompt_tokens)
        if self.config.retraction_policy == "priority":
            return (-r.priority * self.config.priority_sign, *rank)
        return rank

    def after_retraction(self, kept: list[Req]) -> None:
        """The ratio becomes the estimate over those who stay (scheduler.py:3526)."""
        self.ratio.assign(kept)

    def after_fit(self) -> None:
        """Every decode pass whose memory check holds lets the ratio decay (scheduler.py:3553)."""
        self.ratio.decay_step()

    def room_for(self, remaining: int) -> int:
        """Tokens that must be free after a request went, evicting others' cache if need be.

        So the victim's own prompt may vanish from the tree at once (schedule_batch.py:1936).
        """
        return self.config.retract_decode_steps * remaining

    # -- the pass ---------------------------------------------------------------------------

    def update_running(self) -> Batch | None:
        """Decode all who run, after retracting as many as it takes."""
        before = len(self.running)
        self.drop_finished()
        if not self.running:
            self.set_full(False)
            return None
        if self.kv.fits(self.running):
            self.after_fit()
        else:
            self.requeue(self.retract_decode())
        if len(self.running) < before:
            self.set_full(False)
        if not self.running:
            return None
        self.kv.grow(self.running)
        return Batch(self.running, prefills=0)

    def retract_decode(self) -> list[Req]:
        """Throw out the least kept, one at a time, until the others fit; return the victims.

        The batch stands in the order of keeping from now on; of equals the later in the batch
        goes first. One is always left: if even its next token does not fit, it is aborted, where
        vLLM would not schedule it (schedule_batch.py:2838).
        """
        free_before = self.kv.available
        denial = self._shortage()
        keep = sorted(self.running, key=self.keep_rank, reverse=True)
        victims: list[Req] = []
        while len(keep) > 1:
            victim = keep.pop()
            victims.append(victim)
            self.retract(victim, len(keep), denial)
            if self.kv.fits(keep):
                break
        aborted = []
        if len(keep) == 1 and not self.kv.fits(keep):
            aborted = [keep.pop()]
            self._abort_last(aborted[0])
        self.running = keep
        self.after_retraction(keep)
        gain = self.kv.available - free_before
        write(self.log, Retract(ids(victims), ids(keep), ids(aborted), self.ratio.current, gain))
        return victims

    def retract(self, r: Req, remaining: int, denial: Denial) -> None:
        """Take everything from a running request but its tokens (schedule_batch.py:1668, 1907).

        What the tree got of it stays findable; nothing new is given to the tree.
        """
        free_before, lost = len(self.kv.pool), r.kv_committed_len
        self.free(r, insert=False)
        self.kv.evict_for(self.room_for(remaining), r.id)
        r.prefix_len = 0
        r.inflight_middle_chunks = 0
        r.is_retracted = True
        r.retraction_count += 1
        self.plan.victims.append(r.id)
        free_after = len(self.kv.pool)
        self.log.add(Preempt(r.id, denial, lost, 0, free_before, free_after, r.retraction_count))

    def _abort_last(self, r: Req) -> None:
        """The last survivor: its memory goes, and it never finishes (schedule_batch.py:2846)."""
        self.free(r, insert=False)
        self.kv.evict_for(self.room_for(0), r.id)
        r.prefix_len = 0
        r.is_retracted = True
        r.retraction_count += 1
        r.to_finish = OUT_OF_MEMORY
        self.log.add(Finish(r.id, ABORT, OUT_OF_MEMORY))
        del self.requests[r.id]

    def _shortage(self) -> Denial:
        """The check that failed, in pages, in the name of the first row that needs one."""
        page = self.config.page_size
        first = next(r for r in self.running if r.kv_committed_len % page == 0)
        need = self.kv.decode_need(self.running) // page
        return Denial(first.id, BLOCK, need, free=len(self.kv.pool))
