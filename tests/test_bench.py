"""The benchmark measures what its rows say; how fast that is, is no test's business."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvsched.bench import rows


@pytest.fixture(scope="module")
def measured() -> list[dict[str, Any]]:
    return list(rows(quick=True))


def sizes(measured: list[dict[str, Any]], name: str) -> list[int]:
    return [row["requests"] for row in measured if row["name"] == name]


def test_a_row_has_a_name_a_size_and_two_times(measured: list[dict[str, Any]]) -> None:
    for row in measured:
        assert list(row) == ["name", "requests", "us_per_step", "us_per_request_step"]
        assert json.loads(json.dumps(row)) == row


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_decode_is_measured_at_four_sizes(measured: list[dict[str, Any]], engine: str) -> None:
    assert sizes(measured, f"{engine} decode") == [16, 64, 256, 1024]


def test_the_preempting_pool_holds_fewer_than_there_are_slots(
    measured: list[dict[str, Any]],
) -> None:
    (running,) = sizes(measured, "vllm preemption-heavy")
    assert 20 < running < 64


def test_the_order_of_a_queue_of_129_costs_nothing(measured: list[dict[str, Any]]) -> None:
    """The cliff is a factor of a thousand: a hundred is safe on any machine."""
    queued = sizes(measured, "sglang queue order, lpm")
    assert queued == [16, 64, 128, 129, 1024]
    us = [row["us_per_step"] for row in measured if row["name"] == "sglang queue order, lpm"]
    assert us[2] > 100 * us[3]
    assert us[2] > 3 * us[0]


def test_the_time_of_a_request_is_its_share_of_the_step(measured: list[dict[str, Any]]) -> None:
    for row in measured:
        share = row["us_per_step"] / row["requests"]
        assert row["us_per_request_step"] == pytest.approx(share, abs=0.01)
