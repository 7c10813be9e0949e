"""Links: what a table says between, above and below its points."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsched.costs import Smooth, Table, bandwidth, copy_seconds, round_trip_seconds
from kvsched.costs.units import GB, US, KiB, MiB
from kvsched.errors import InputError

SIZES = st.lists(st.integers(1, 10**9), min_size=1, max_size=8, unique=True).map(sorted)


@given(SIZES, st.floats(1e-7, 1e-4), st.floats(1e9, 1e11), st.data())
def test_a_law_of_latency_and_rate_is_met_between_its_points(
    sizes: list[int], latency: float, rate: float, data: st.DataObject
) -> None:
    law = Smooth(rate, latency)
    table = Table([(size, bandwidth(law, size)) for size in sizes])
    fragment = data.draw(st.integers(sizes[0], sizes[-1]))
    assert table.fragment_seconds(fragment) == pytest.approx(law.fragment_seconds(fragment))


def test_the_points_themselves_are_exact() -> None:
    table = Table([(4096, 0.9 * GB), (8192, 2.3 * GB)])
    assert table.fragment_seconds(4096) == 4096 / (0.9 * GB)
    assert table.fragment_seconds(8192) == 8192 / (2.3 * GB)


def test_above_the_last_point_its_rate_holds() -> None:
    table = Table([(4096, 1e9), (8192, 2e9)])
    assert bandwidth(table, 10**9) == pytest.approx(2e9)


def test_below_the_first_point_nothing_is_known() -> None:
    with pytest.raises(InputError, match=r"4095 B is below the smallest point, 4 KiB"):
        Table([(4096, 1e9)]).fragment_seconds(4095)


@pytest.mark.parametrize(
    ("points", "named"),
    [
        ([], "none"),
        ([(0, 1e9)], "fragment"),
        ([(1, 0.0)], r"bytes_s: 0.0 is not above 0"),
        ([(1, -1e9)], "bytes_s"),
        ([(1, float("inf"))], "bytes_s"),
        ([(2, 1e9), (1, 1e9)], "not increasing"),
        ([(1, 1e9), (1, 1e9)], "not increasing"),
    ],
)
def test_bad_tables(points: list[tuple[int, float]], named: str) -> None:
    with pytest.raises(InputError, match=named):
        Table(points)


@pytest.mark.parametrize("rate", [0, -64 * GB, float("nan")])
def test_zero_or_negative_bandwidth_is_refused(rate: float) -> None:
    with pytest.raises(InputError, match="bytes_s"):
        Smooth(rate)


def test_negative_latency_is_refused() -> None:
    with pytest.raises(InputError, match="latency"):
        Smooth(GB, -1e-6)


def test_a_copy_is_whole_fragments() -> None:
    link = Smooth(GB, 4 * US)
    each = link.fragment_seconds(64 * KiB)
    assert copy_seconds(link, MiB, 64 * KiB) == 16 * each
    assert copy_seconds(link, MiB + 1, 64 * KiB) == 17 * each
    assert round_trip_seconds(link, Smooth(2 * GB), MiB, MiB) == pytest.approx(
        MiB / GB * 1.5 + 4 * US
    )
    with pytest.raises(InputError, match="size"):
        copy_seconds(link, 0, 1)
    with pytest.raises(InputError, match="fragment"):
        copy_seconds(link, 1, 0)
