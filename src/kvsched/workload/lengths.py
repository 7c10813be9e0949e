"""Laws of prompt and output length, in tokens. Each draws from a ``random.Random`` it is given."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import Protocol

from kvsched.errors import InputError


class Length(Protocol):
    """A law of length; as text it says what it is."""

    def draw(self, rng: Random) -> int:
        """One length, at least 1."""

    def __str__(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Exactly:
    """Every length is ``tokens``."""

    tokens: int

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise InputError("tokens", f"{self.tokens} is below 1", "use at least one token")

    def draw(self, rng: Random) -> int:
        return self.tokens

    def __str__(self) -> str:
        return f"{self.tokens:,} tokens"


@dataclass(frozen=True, slots=True)
class Around:
    """Uniform over the whole numbers from ``mean`` less ``ratio`` of it to ``mean`` plus as much.

    What ``vllm bench serve --random-range-ratio`` does: the low end rounded down, but at least 1,
    the high end rounded up, both included (vLLM 0.28.0 benchmarks/datasets/utils.py:74-81).
    """

    mean: int
    ratio: float

    def __post_init__(self) -> None:
        if self.mean < 1:
            raise InputError("mean", f"{self.mean} is below 1", "use at least one token")
        if not 0 <= self.ratio < 1:
            raise InputError("ratio", f"{self.ratio} is not in [0, 1)", "use a fraction: 0.2")

    @property
    def low(self) -> int:
        """The shortest length drawn."""
        return max(1, math.floor(self.mean * (1 - self.ratio)))

    @property
    def high(self) -> int:
        """The longest length drawn."""
        return math.ceil(self.mean * (1 + self.ratio))

    def draw(self, rng: Random) -> int:
        return rng.randint(self.low, self.high)

    def __str__(self) -> str:
        return f"{self.low:,} to {self.high:,} tokens"
