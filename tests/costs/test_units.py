"""A GB is no GiB, and what is shown says which."""

from __future__ import annotations

import pytest

from kvsched.costs.units import GB, GiB, KiB, MiB, binary, decimal, time


def test_binary_and_decimal_differ_by_seven_percent() -> None:
    assert GiB - GB == 73_741_824
    assert (KiB, MiB, GiB) == (2**10, 2**20, 2**30)


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (binary(131_072, 0), "128 KiB"),
        (binary(1000), "1000.00 B"),
        (binary(-3 * GiB, 0), "-3 GiB"),
        (binary(0), "0.00 B"),
        (decimal(51.2e9, "B/s", 1), "51.2 GB/s"),
        (decimal(148.664e12, "FLOP", 1), "148.7 TFLOP"),
        (decimal(1_000, "tok/s", 0), "1 ktok/s"),
        (decimal(999, "B", 0), "999 B"),
        (time(0.033554432), "33.55 ms"),
        (time(12.0, 0), "12 s"),
        (time(4e-6), "4.00 µs"),
        (time(4.35e-10, 3), "0.435 ns"),
        (time(0), "0.00 ns"),
    ],
)
def test_what_is_shown(shown: str, text: str) -> None:
    assert shown == text
