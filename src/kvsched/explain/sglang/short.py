"""An iteration in at most three clauses, for the player; marks as in ``explain/short.py``."""

from __future__ import annotations

from typing import Any

from kvsched.contract import RESERVATION, SLOT, TOKEN, Denial
from kvsched.explain.short import MOST, count, is_or_are, names, number
from kvsched.log import Admit, Cache, Chunk, Evict, Finish, Free, Preempt, Resume
from kvsched.sglang import Config
from kvsched.sglang.core import ABORT
from kvsched.sglang.events import Grow, Lose, Retract
from kvsched.sglang.retract import OUT_OF_MEMORY
from kvsched.sglang.scheduler import TIMEOUT
from kvsched.sglang.steps import Iteration

RULES = {
    "length": "the fewest outputs",
    "priority": "the worst priority",
}
ENDINGS = {OUT_OF_MEMORY: "is aborted: even alone it does not fit", TIMEOUT: "waited too long"}


class Short:
    """Tells one iteration after the other; of a return it must know what was lost."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = Config(**config)
        self.lost: dict[str, int] = {}

    def tell(self, it: Iteration) -> list[str]:
        """The clauses of the iteration that follows the one told last, the weightiest first."""
        clauses = [
            *self._retraction(it),
            *self._places(it),
            *self._returns(it),
            *self._admissions(it),
            *_chunks(it),
            *self._denial(it),
            *_endings(it),
        ]
        clauses = clauses or self._decodes(it)
        clauses += self._finishes(it)
        self.lost |= {e.id: e.tokens_lost for e in it.preempted}
        return clauses[:MOST] or ["Nothing runs."]

    # -- out --------------------------------------------------------------------------------

    def _retraction(self, it: Iteration) -> list[str]:
        told = []
        for event in it.of(Retract):
            victims = [e for e in it.preempted if e.id in event.victims]
            if victims:
                told.append(self._shortage(victims))
            told.append(
                f"new_token_ratio is set to the estimate over those kept: "
                f"{it.ratio_before:.4f} → {event.ratio:.4f}."
            )
        return told

    def _shortage(self, victims: list[Preempt]) -> str:
        denial = victims[0].denial
        assert denial is not None
        there = "none is free" if denial.free == 0 else f"{_are(denial.free)} free"
        ids = names(e.id for e in victims)
        has = "has" if len(victims) == 1 else "have"
        freed = sum(e.free_after - e.free_before for e in victims)
        lost = sum(e.tokens_lost for e in victims)
        return (
            f"The next tokens need {count(denial.need, 'page')} and {there}. {ids} {has} "
            f"{RULES[self.config.retraction_policy]}: !!{count(lost, 'token')} lost!!, "
            f"{count(freed, 'page')} given back."
        )

    def _places(self, it: Iteration) -> list[str]:
        """Who gave a running place to somebody of better priority, and who was lost by it."""
        victims = [e for e in it.preempted if e.denial is not None and e.denial.test == SLOT]
        told = [
            f"**{e.denial.id}** outranks **{e.id}** and takes its place: "
            f"!!{count(e.tokens_lost, 'token')} lost!!."
            for e in victims
            if e.denial is not None
        ]
        for event in it.of(Lose):
            told.append(
                f"Nobody is admitted, and {names(event.ids)} !!is forgotten!!: a known bug."
            )
        return told

    # -- in ---------------------------------------------------------------------------------

    def _returns(self, it: Iteration) -> list[str]:
        back = it.of(Resume)
        if not back:
            return []
        lost = sum(self.lost.get(e.id, 0) for e in back)
        found, computes = sum(e.computed for e in back), sum(e.tokens for e in back)
        one = len(back) == 1
        text = f"{names(e.id for e in back)} {'fits' if one else 'fit'} again and "
        text += f"{'computes' if one else 'compute'} {count(computes, 'token')}"
        if found == 0:
            return [f"{text}: nothing of the {count(lost, 'lost token')} is left in the tree."]
        return [f"{text}, after {number(found)} found in the tree."]

    def _admissions(self, it: Iteration) -> list[str]:
        new = [e for e in it.of(Admit) if not isinstance(e, Resume)]
        told = []
        if new:
            one = len(new) == 1
            text = f"{names(e.id for e in new)} {'is' if one else 'are'} admitted and "
            text += (
                f"{'prefills' if one else 'prefill'} {count(sum(e.tokens for e in new), 'token')}"
            )
            if found := sum(e.computed for e in new):
                text += f", after {number(found)} found in the tree"
            told.append(f"{text}.")
        if it.kind == "extend" and it.running:
            told.append(
                f"{names(it.running)} {_wait(len(it.running))}: such a pass decodes nobody."
            )
        return told

    # -- refused ----------------------------------------------------------------------------

    def _denial(self, it: Iteration) -> list[str]:
        denial = it.denial
        if denial is None or denial.test not in (RESERVATION, SLOT, TOKEN):
            return []
        text = f"**{denial.id}** {self._why(denial)}"
        behind = len(it.waiting) - 1
        if behind > 0:
            text += f" Behind it {number(behind)} more {_wait(behind)}, untried."
        return [text]

    def _why(self, denial: Denial) -> str:
        if denial.test == SLOT:
            return f"waits: {_are(denial.free)} left of {self.config.max_running_requests} slots."
        if denial.test == TOKEN:
            needs = f"it needs {count(denial.need, 'token')} of the pass"
            return f"waits: {needs} and {_are(denial.free)} left."
        pool = self.config.num_pages * self.config.page_size
        if denial.need >= pool:
            return (
                f"can never come in: it asks for {number(denial.need)} of {count(pool, 'token')}."
            )
        asks = f"stays out: it asks for {count(denial.need, 'token')}, outputs to come included; "
        if not denial.reserved:
            return f"{asks}{_are(denial.free)} left."
        return f"{asks}{_are(denial.free)} there, and {number(denial.reserved)} spoken for."

    # -- the rest ---------------------------------------------------------------------------

    def _decodes(self, it: Iteration) -> list[str]:
        ids = [request_id for request_id, _, _ in it.rows]
        if not ids:
            return []
        text = f"{names(ids)} {'decodes' if len(ids) == 1 else 'each decode'} one token."
        takers = [request_id for event in it.of(Grow) for request_id in event.ids]
        if self.config.page_size > 1 and takers:
            text += f" {names(takers)} {'starts' if len(takers) == 1 else 'start'} a new page."
        erased = sum(len(event.blocks) for event in it.of(Evict))
        if erased:
            owners = dict.fromkeys(owner for counts in it.erased for owner in counts)
            text += f" The tree gives up {count(erased, 'page')} of {names(owners)}."
        return [text]

    def _finishes(self, it: Iteration) -> list[str]:
        ids = [event.id for event in it.finished if event.status != ABORT]
        if not ids:
            return []
        kept = sum(len(e.blocks) for e in it.of(Cache) if e.id in ids)
        free = sum(len(e.back) for e in it.of(Free) if e.id in ids)
        last = "has its last token" if len(ids) == 1 else "have their last tokens"
        return [
            f"{names(ids)} {last}: {count(free, 'page')} come free, the tree keeps "
            f"{number(kept)} more."
        ]


def _chunks(it: Iteration) -> list[str]:
    told = []
    for event in it.of(Chunk):
        _, computed, num_tokens, _ = it.live[event.id]
        done = f"{number(computed)} of {number(num_tokens)} done"
        told.append(f"**{event.id}** prefills {count(event.tokens, 'token')}, {done}.")
    return told


def _endings(it: Iteration) -> list[str]:
    """Endings that nobody hoped for."""
    bad: list[Finish] = [event for event in it.finished if event.status == ABORT]
    return [f"**{event.id}** {ENDINGS.get(event.reason, 'is aborted')}." for event in bad]


def _are(value: int) -> str:
    return f"{number(value)} {is_or_are(value)}"


def _wait(value: int) -> str:
    return "waits" if value == 1 else "wait"
