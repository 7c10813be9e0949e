"""The map of swap against recompute: its borders are the arithmetic's, its words the points'."""

from __future__ import annotations

import pytest

from kvsched.costs import carried
from kvsched.views import find

CROSSOVER = find("crossover")
WIRE = {"link": "bare wire"}


def test_the_plain_model_is_one_setting_of_it() -> None:
    """22,042 tokens a second on the bare wire: f* = 0.91 whatever the fragment."""
    data = CROSSOVER(rate=22_000, **WIRE)
    for point in data["points"]:
        assert point["threshold"] == pytest.approx(carried.F_STAR, abs=5e-4)


def test_the_tie_of_the_plain_model_is_where_the_border_reaches_the_bottom() -> None:
    assert CROSSOVER(rate=244_000, **WIRE)["points"][0]["threshold"] > 0
    assert CROSSOVER(rate=244_500, **WIRE)["points"][0]["threshold"] == 0


def test_the_published_points_give_the_published_thresholds() -> None:
    data = CROSSOVER()
    shown = {
        name: f"{p['swap_ms']:.0f} {p['threshold']:.2f}"
        for name, p in zip(data["picks"], data["points"], strict=True)
    }
    assert shown["32 KiB"] == "274 0.00"
    assert shown["64 KiB"] == "145 0.28"
    assert shown["2 MiB"] == "46 0.77"
    assert data["says"][3].endswith("recomputing wins even if nothing survives.")
    assert data["says"][9].endswith("recomputing wins if more than 77\N{NO-BREAK SPACE}% survives.")


def test_a_faster_device_and_a_hidden_copy_move_the_border_opposite_ways() -> None:
    border, faster, hidden = (
        [point["threshold"] for point in CROSSOVER(**params)["points"]]
        for params in ({}, {"rate": 81_000}, {"copies": "back only"})
    )
    assert all(a >= b for a, b in zip(border, faster, strict=True))
    assert all(a <= b for a, b in zip(border, hidden, strict=True))
    assert faster[9] < border[9] < hidden[9]


def test_every_number_read_off_a_plot_is_said_to_be() -> None:
    assert "read off plots" in CROSSOVER()["caption"]
    assert "read off plots" not in CROSSOVER(**WIRE)["caption"]
