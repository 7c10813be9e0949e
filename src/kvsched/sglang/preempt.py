"""A waiting request of much better priority takes the place of running ones.

Only slots are fought over: a pass that runs short of memory stops before this is asked.
SGLang 0.5.18 managers/schedule_policy.py:1430-1500 (S below).
"""

from __future__ import annotations

from kvsched.contract import SLOT, Denial
from kvsched.sglang.adder import PrefillAdder
from kvsched.sglang.core import ids
from kvsched.sglang.events import Displace, write
from kvsched.sglang.req import Req
from kvsched.sglang.retract import Decoding


class Preemption(Decoding):
    """Proactive priority preemption, on where priority scheduling is."""

    def outranks(self, newcomer: Req, runner: Req) -> bool:
        """Strictly more than the threshold better (S:1474)."""
        better = (newcomer.priority - runner.priority) * -self.config.priority_sign
        return better > self.config.priority_scheduling_preemption_threshold

    def candidates(self) -> list[Req]:
        """Who may be thrown out: worst priority first, of equals the newest."""
        sign = self.config.priority_sign
        alive = [r for r in self.running if not r.over]
        return sorted(alive, key=lambda r: (-r.priority * sign, -r.entry_order))

    def shortfall(self, r: Req, adder: PrefillAdder) -> float:
        """Memory the newcomer lacks, by what its last attempt left behind (S:1459).

        One that was never tried counts no input, as its length is only looked at after this.
        """
        return r.fill_len - r.prefix_len + adder.charge(r) - adder.total_left

    def victims_for(self, r: Req, adder: PrefillAdder) -> list[Req]:
        """As many candidates as it takes, or none if all that ``r`` outranks are not enough."""
        need = self.shortfall(r, adder)
        chosen: list[Req] = []
        for q in self.candidates():
            if not self.outranks(r, q):
                break
            chosen.append(q)
            need -= adder.reserve(q)
            if need <= 0:
                return chosen
        return []

    def preempt_for(self, r: Req, adder: PrefillAdder) -> bool:
        """Throw out running requests for ``r``; False, and nothing done, if that does not help.

        They go in batch order. Each counts those of the batch not yet gone as remaining, so the
        first victim makes room for one fewer than the batch (S:1491).
        """
        chosen = self.victims_for(r, adder)
        victims = [q for q in self.running if q in chosen]
        denial = Denial(r.id, SLOT, self.slots_taken + 1, free=self.config.max_running_requests)
        remaining = len(self.running)
        for q in victims:
            adder.total_offset -= adder.reserve(q)
            remaining -= 1
            self.retract(q, remaining, denial)
        self.running = [q for q in self.running if q not in victims]
        adder.preempted += victims
        write(self.log, Displace(r.id, ids(victims), adder.budgets))
        return bool(victims)
