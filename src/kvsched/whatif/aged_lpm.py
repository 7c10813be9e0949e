"""What if waiting counted as cached tokens?

SGLang's lpm sorts by cached prefix alone, so a request without one is overtaken for as long as
others come (sglang issue 31954). Pull requests 31723 and 33210, open, propose this: each pass that
a request has waited counts as ``credit`` tokens of prefix.

**What it bounds.** Let M be the longest prefix that any request ever finds, and D = ceil(M /
credit). A request whose first pass comes D or more passes after c's never stands before c.

*Proof.* Let h come after c, first sorted d >= D passes after c's first. In every pass that sorts
both, c has credit for d passes more. So c's key minus h's is at least 0 - M + d * credit >= 0,
whatever either finds in that pass. And h enters the list behind c; a stable sort keeps c in front
where keys are equal, and a pass that sorts nothing moves nobody. Hence c stays in front.

So newcomers can pass c in D passes, c's first among them, and after that nobody new gets before
it. **What it does not bound:**

- *How many come in those passes.* At most 127 stand before c where the queue is sorted, as more
  than 128 are not. A pass that does not sort gives no credit and lets nobody pass.
- *Deprioritised requests.* Who shares an uncached prefix with one in front is put last, whatever
  its credit. The bound holds again in passes where it is not, without the ties: for d > M / credit.
- *Being admitted.* Standing first is not fitting. A pass ends at the first refusal, so those behind
  a first request wait for its memory; if it never fits, so do they.
- *Time.* Passes are those that try to admit: a full batch makes none, however long it stays full.
- *A victim, or a client that asks again.* It comes back as a newcomer: passes are counted by entry
  into the queue, not by id.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from kvsched.errors import InputError
from kvsched.log import Log
from kvsched.sglang import Config, Scheduler
from kvsched.sglang.req import Req


class AgedLPM(Scheduler):
    """SGLang's scheduler, except that lpm counts each pass waited as ``credit`` cached tokens.

    Raises InputError: a credit below 1, which bounds nothing.
    """

    def __init__(self, config: Config, log: Log | None = None, credit: int = 1000) -> None:
        if credit < 1:
            raise InputError("credit", f"{credit} tokens a pass bound nothing", "give 1 or more")
        super().__init__(config, log)
        self.credit = credit
        self.passes: dict[float, int] = {}
        self.policy.orders["lpm"] = self.aged

    def aged(self, waiting: list[Req], running: Sequence[Req]) -> None:
        """The largest cached prefix plus credit first, and the deprioritised last."""
        last = self.policy.deprioritized
        self.passes = {r.entry_order: self.passes.get(r.entry_order, -1) + 1 for r in waiting}

        def key(r: Req) -> float:
            credit = self.credit * self.passes[r.entry_order]
            return inf if r.id in last else -(r.num_matched_prefix_tokens + credit)

        waiting.sort(key=key)
