"""Time as the engine loop counts it. Integers only."""

from __future__ import annotations

from typing import Protocol

from kvsched.contract import Plan


class Clock(Protocol):
    """Says how long a step takes and whether an idle engine waits or jumps."""

    def duration(self, plan: Plan) -> int:
        """Time units the plan's pass takes, at least 1."""


class Ticks:
    """Every step takes one tick, whatever it does."""

    def duration(self, plan: Plan) -> int:
        return 1
