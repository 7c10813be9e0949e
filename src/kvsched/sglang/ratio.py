"""``new_token_ratio``: the share of its remaining outputs the adder reserves for a running request.

SGLang 0.5.18 managers/scheduler_components/new_token_ratio_tracker.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kvsched.sglang.config import Config


class Counted(Protocol):
    """What the estimate reads of a request."""

    @property
    def num_output_tokens(self) -> int: ...
    @property
    def max_new_tokens(self) -> int: ...


class NewTokenRatio:
    """Starts at ``init``, falls by ``decay`` to ``min``; a retraction sets it to an estimate.

    ``schedule_conservativeness`` scales all three, the slope too (:20).
    """

    __slots__ = ("current", "decay", "init", "min", "steps")

    def __init__(self, config: Config) -> None:
        self.init = min(config.init_new_token_ratio * config.schedule_conservativeness, 1.0)
        self.min = min(self.init * config.min_new_token_ratio_factor, 1.0)
        self.decay = (self.init - self.min) / config.new_token_ratio_decay_steps
        self.steps = config.retract_decode_steps
        self.current = self.init

    def decay_step(self) -> None:
        """One decode iteration passed its memory check (scheduler.py:3553)."""
        self.current = max(self.current - self.decay, self.min)

    def reset(self) -> None:
        """The engine is fully idle (scheduler.py:4075)."""
        self.current = self.init

    def assign(self, kept: Sequence[Counted]) -> None:
        """After a retraction: the estimate, whatever the value was before.

        An assignment, not an increase: it may exceed ``init`` and may fall below ``min``.
        """
        self.current = estimate(kept, self.steps)


def estimate(kept: Sequence[Counted], steps: int) -> float:
    """Outputs so far plus ``steps`` each, over all the outputs allowed (:40)."""
    outputs = sum(r.num_output_tokens for r in kept)
    allowed = sum(r.max_new_tokens for r in kept)
    return min(1.0, (outputs + steps * len(kept)) / (allowed + 1))
