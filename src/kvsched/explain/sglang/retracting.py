"""A retraction in sentences: whose tokens did not fit, who goes, what that frees, the new ratio."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvsched.contract import SLOT
from kvsched.explain.sglang.words import pages, who, whom
from kvsched.explain.words import are, n, share, tokens
from kvsched.log import Preempt
from kvsched.sglang import Config
from kvsched.sglang.events import Requeue, Retract
from kvsched.sglang.steps import Iteration

RULES = {
    "length": "the fewest outputs, of equals the longest prompt",
    "priority": "the worst priority, of equals the fewest outputs, then the longest prompt",
}
"""Who is kept least, by retraction_policy."""


class Retracting:
    """The sentences about who is thrown out."""

    def __init__(self, it: Iteration, config: Config) -> None:
        self.it = it
        self.config = config
        self.tellers: dict[type, Callable[[Any], str | None]] = {
            Preempt: self._victim,
            Retract: self._retraction,
            Requeue: self._requeued,
        }

    def _victim(self, event: Preempt) -> str:
        whole, freed = self.config.num_pages, event.free_after - event.free_before
        return (
            f"{self._cause(event)}: {pages(freed)} freed, {tokens(event.tokens_lost)} of KV lost, "
            f"retraction_count {n(event.preemptions)}; pages not free "
            f"{share(whole - event.free_before, whole)} before, "
            f"{share(whole - event.free_after, whole)} after."
        )

    def _cause(self, event: Preempt) -> str:
        denial, name = event.denial, who(event.id)
        if denial is None or denial.test == SLOT:
            return f"{name} is preempted"
        if event != self.it.preempted[0]:
            return f"That is not enough, so {name} is retracted too"
        return (
            f"The next tokens need {pages(denial.need)} and {n(denial.free)} {are(denial.free)} "
            f"free ({n(denial.asked)} > {n(denial.limit)}), so {name} is retracted, which has "
            f"{RULES[self.config.retraction_policy]}"
        )

    def _retraction(self, event: Retract) -> str:
        stay = f"{whom(event.kept)} {are(len(event.kept))} kept" if event.kept else "Nobody is kept"
        return (
            f"{stay}; {tokens(event.gain)} came free, and new_token_ratio is set to the estimate "
            f"over those kept: {self.it.ratio_before:.4f} -> {event.ratio:.4f}. SGLang logs: "
            f"“KV cache pool is full. Retract requests. #retracted_reqs: {len(event.victims)}, "
            f"#new_tokens_gained: {event.gain}, #new_token_ratio: {self.it.ratio_before:.4f} -> "
            f"{event.ratio:.4f}”."
        )

    def _requeued(self, event: Requeue) -> str:
        one = len(event.ids) == 1
        end = event.ids == tuple(self.it.waiting[-len(event.ids) :])
        place = "the end of the queue" if end else f"the queue at place {n(event.at + 1)}"
        return f"{whom(event.ids)} {'joins' if one else 'join'} {place} again."
