"""Percentiles are values that occurred, at the nearest rank."""

from __future__ import annotations

from collections import Counter
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsched.distribution import Distribution, nearest_rank
from kvsched.errors import InputError


@pytest.mark.parametrize(
    ("p", "count", "rank"),
    [(50, 4, 2), (50, 5, 3), (99, 100, 99), (99, 101, 100), (99.9, 1000, 999), (0.1, 7, 1)],
)
def test_the_nearest_rank(p: float, count: int, rank: int) -> None:
    assert nearest_rank(p, count) == rank


def test_a_decimal_is_taken_as_written() -> None:
    """29 % of 100 values is rank 29; in binary 0.29 · 100 lies above 29 and gives 30."""
    assert nearest_rank(29, 100) == 29
    assert nearest_rank(99.9, 10_000) == 9_990


def test_counted_values_are_the_values_one_by_one() -> None:
    counted = Distribution(Counter({1: 3, 5: 1}))
    assert [counted.percentile(p) for p in (25, 75, 76, 100)] == [1, 1, 5, 5]
    assert (counted.count, counted.mean, counted.max) == (4, 2.0, 5)


@given(st.lists(st.integers(0, 9), min_size=1), st.integers(1, 100))
def test_so_many_values_lie_at_or_below_and_no_smaller_one_will_do(
    values: list[int], p: int
) -> None:
    found = Distribution(values).percentile(p)
    assert 100 * sum(v <= found for v in values) >= p * len(values)
    assert 100 * sum(v < found for v in values) < p * len(values)
    assert Distribution(values).mean == pytest.approx(fmean(values))


@pytest.mark.parametrize("p", [0, -1, 100.5])
def test_no_such_percentile(p: float) -> None:
    with pytest.raises(InputError, match=r"percentile: .* is not in \(0, 100\]; use 50, 99, 99.9"):
        Distribution([1]).percentile(p)


def test_nothing_has_no_percentile() -> None:
    with pytest.raises(InputError, match="there are no values"):
        Distribution([]).percentile(50)
    assert (Distribution([]).count, Distribution([]).mean) == (0, 0.0)
