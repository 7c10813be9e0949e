"""How long a copy between host and device takes, cut into fragments.

A link says how long one fragment takes when many of one size are copied back to back. Three kinds:
``Smooth``, a latency and a rate; a wire, which is a smooth link without latency; and ``Table``,
published or measured points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from kvsched.costs.units import at_least, binary, positive
from kvsched.errors import InputError


class Link(Protocol):
    """One direction of a copy route."""

    def fragment_seconds(self, fragment: int) -> float:
        """Time one fragment of this many bytes takes."""


@dataclass(frozen=True, slots=True)
class Smooth:
    """``latency + fragment / bytes_s`` seconds; a latency of 0 is the bare wire."""

    bytes_s: float
    latency: float = 0.0

    def __post_init__(self) -> None:
        positive("bytes_s", self.bytes_s)
        if self.latency < 0:
            raise InputError("latency", f"{self.latency} is below 0", "give seconds, or 0")

    def fragment_seconds(self, fragment: int) -> float:
        return self.latency + at_least("fragment", fragment, 1) / self.bytes_s


@dataclass(frozen=True, slots=True)
class Table:
    """Points (fragment bytes, bytes per second), in order of size, and what lies between them.

    Between two points the *time* of a fragment is linear in its bytes, so that a law of the form
    latency + bytes / rate is met exactly wherever it holds; interpolating the bandwidth, straight
    or on log scales, would bend it. Only + - * / are used, so the result is the same everywhere.
    Above the last point its rate holds, since longer copies only come closer to the wire. Below
    the first, nothing is known, and InputError says so.
    """

    points: Sequence[tuple[int, float]]

    def __post_init__(self) -> None:
        if not self.points:
            raise InputError("points", "none", "give at least one (bytes, bytes per second)")
        for size, rate in self.points:
            at_least("fragment", size, 1)
            positive("bytes_s", rate)
        if any(a >= b for (a, _), (b, _) in pairwise(self.points)):
            raise InputError("points", "fragment sizes not increasing", "sort them by size")

    def fragment_seconds(self, fragment: int) -> float:
        smallest = self.points[0][0]
        if fragment < smallest:
            raise InputError(
                "fragment",
                f"{fragment} B is below the smallest point, {binary(smallest, 0)}",
                "use a larger fragment, or the smooth model",
            )
        for (a, rate_a), (b, rate_b) in pairwise(self.points):
            if fragment < b:
                before, after = a / rate_a, b / rate_b
                return before + (after - before) * (fragment - a) / (b - a)
        return fragment / self.points[-1][1]


def bandwidth(link: Link, fragment: int) -> float:
    """Bytes per second that fragments of this size achieve."""
    return fragment / link.fragment_seconds(fragment)


def copy_seconds(link: Link, size: int, fragment: int) -> float:
    """Time to copy ``size`` bytes in fragments; a last, shorter one takes as long as the others."""
    each = link.fragment_seconds(fragment)
    return -(-at_least("size", size, 1) // fragment) * each


def round_trip_seconds(out: Link, back: Link, size: int, fragment: int) -> float:
    """Time to copy ``size`` bytes out and back, one after the other."""
    return copy_seconds(out, size, fragment) + copy_seconds(back, size, fragment)
