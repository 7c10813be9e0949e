"""Many values, summed up. A percentile is a value that occurred."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from itertools import accumulate
from math import ceil, fsum

from kvsched.errors import InputError


def nearest_rank(p: float, count: int) -> int:
    """The rank, from 1, of the smallest of ``count`` values that ``p`` % of them do not exceed.

    Raises InputError: ``p`` is not in (0, 100], or there are no values.
    """
    if not 0 < p <= 100:
        raise InputError("percentile", f"{p} is not in (0, 100]", "use 50, 99, 99.9")
    if not count:
        raise InputError("percentile", "there are no values", "run until requests get tokens")
    return ceil(Fraction(str(p)) * count / 100)


class Distribution:
    """Values with how often each occurred: given one by one, or counted already."""

    __slots__ = ("_cumulated", "_values", "count", "mean")

    def __init__(self, values: Iterable[float] | Counter[int]) -> None:
        counts: Counter[float] = Counter(values)
        self._values = sorted(counts)
        self._cumulated = list(accumulate(counts[value] for value in self._values))
        self.count = self._cumulated[-1] if self._cumulated else 0
        total = fsum(value * counts[value] for value in self._values)
        self.mean = total / self.count if self.count else 0.0

    def percentile(self, p: float) -> float:
        """The nearest rank: the smallest value that at least ``p`` % of all do not exceed.

        Raises InputError as ``nearest_rank`` does.
        """
        return self._values[bisect_left(self._cumulated, nearest_rank(p, self.count))]

    @property
    def max(self) -> float:
        return self.percentile(100)
