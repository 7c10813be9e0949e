"""One step's budget, made fresh by each ``schedule()``."""

from __future__ import annotations

from kvsched.contract import Plan
from kvsched.vllm.state import RequestState


class Step:
    """The token budget left, and the plan so far."""

    __slots__ = ("plan", "sampling", "scheduled", "tokens")

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.scheduled: dict[str, int] = {}
        self.sampling: list[str] = []
        self.plan = Plan(self.scheduled, self.sampling)

    def give(self, r: RequestState, num_new_tokens: int) -> bool:
        """Schedule ``r``; True if it reaches its last token, known or not: then it samples."""
        self.tokens -= num_new_tokens
        self.scheduled[r.id] = num_new_tokens
        r.num_computed_tokens = computed = r.num_computed_tokens + num_new_tokens
        samples = computed >= r.num_tokens + r.num_output_placeholders
        if samples:
            self.sampling.append(r.id)
        return samples

    def take_back(self, r: RequestState) -> int:
        """Unschedule a victim and return its tokens to the budget (scheduler.py:659-666).

        What the request behind it asks for is not computed again with the larger budget.
        """
        tokens = self.scheduled.pop(r.id, 0)
        self.tokens += tokens
        r.num_computed_tokens -= tokens
        if r.id in self.sampling:
            self.sampling.remove(r.id)
        return tokens
