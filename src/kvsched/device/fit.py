"""Two laws fitted to measured points, by least squares on relative errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Fit(NamedTuple):
    """``a · x + b · y`` with the residuals (fitted / measured - 1) of each point."""

    a: float
    b: float
    residuals: tuple[float, ...]

    @property
    def worst(self) -> float:
        """The largest residual's size."""
        return max(map(abs, self.residuals))


def latency_and_rate(points: Sequence[tuple[float, float]]) -> Fit | None:
    """Seconds = a + b · bytes, through (bytes, seconds): a is the latency, 1 / b the rate."""
    return _fit([(1.0, size, seconds) for size, seconds in points])


def linear_and_square(points: Sequence[tuple[float, float]]) -> Fit | None:
    """Seconds = a · S + b · S², through (S, seconds)."""
    return _fit([(tokens, tokens * tokens, seconds) for tokens, seconds in points])


def _fit(rows: Sequence[tuple[float, float, float]]) -> Fit | None:
    """Solve for both; None if the points do not tell them apart, or one is not above 0."""
    scaled = [(x / t, y / t) for x, y, t in rows]
    xx, xy, yy = (
        math.fsum(p * q for p, q in pairs)
        for pairs in (
            [(x, x) for x, _ in scaled],
            [(x, y) for x, y in scaled],
            [(y, y) for _, y in scaled],
        )
    )
    x1, y1 = math.fsum(x for x, _ in scaled), math.fsum(y for _, y in scaled)
    determinant = xx * yy - xy * xy
    if len(rows) < 2 or determinant <= 1e-9 * xx * yy:
        return None
    a = (x1 * yy - y1 * xy) / determinant
    b = (y1 * xx - x1 * xy) / determinant
    if a <= 0 or b <= 0:
        return None
    return Fit(a, b, tuple(a * x + b * y - 1 for x, y in scaled))
