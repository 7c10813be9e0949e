"""The benchmark measures what its rows say; how fast that is, is no test's business."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import pytest

from kvsched.bench import rows


@pytest.fixture(scope="module")
def measured() -> list[dict[str, Any]]:
    """The decode rows; the preempting one takes longer than all tests of this room."""
    return list(islice(rows(quick=True), 4))


def test_a_row_has_a_name_a_size_and_two_times(measured: list[dict[str, Any]]) -> None:
    for row in measured:
        assert list(row) == ["name", "running", "us_per_step", "us_per_request_step"]
        assert json.loads(json.dumps(row)) == row


def test_decode_is_measured_at_four_sizes(measured: list[dict[str, Any]]) -> None:
    decode = [row["running"] for row in measured if row["name"] == "vllm decode"]
    assert decode == [16, 64, 256, 1024]


def test_the_time_of_a_request_is_its_share_of_the_step(measured: list[dict[str, Any]]) -> None:
    for row in measured:
        assert row["us_per_step"] > 0
        share = row["us_per_step"] / row["running"]
        assert row["us_per_request_step"] == pytest.approx(share, abs=0.01)
