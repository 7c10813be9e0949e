"""The ratio's view and the two log lines: what is drawn is what the log says."""

from __future__ import annotations

import functools
from itertools import pairwise
from typing import Any

import pytest

from kvsched.cases.feedback import CONSERVATIVENESS, RUN_TO_MAX, SMALL, steady
from kvsched.sglang.events import Retract
from kvsched.views import find
from kvsched.views.feedback import point
from kvsched.views.feedback_laws import laws

two_lines = functools.cache(find("two_lines"))


@functools.cache
def default() -> dict[str, Any]:
    return find("feedback")()


def test_every_retraction_is_marked_with_the_value_it_assigns() -> None:
    each = default()["points"][3]
    events = steady(1.0, RUN_TO_MAX).of(Retract)
    assigned = [after for _, _, after in each["timeline"]["jumps"]]
    assert assigned == [round(entry.event.ratio, 4) for entry in events]
    assert each["retractions"] == len(events) == 3


def test_between_retractions_the_line_is_straight_and_never_below_the_floor() -> None:
    """Assignment up, one slope down: neither a fixed step up nor a factor down."""
    for each in default()["points"]:
        line = each["timeline"]
        marked = {step for step, _, _ in line["jumps"]}
        decay = (each["init"] - each["min"]) / 600
        for (step, ratio), (later, lower) in pairwise(line["path"]):
            if later not in marked and lower > each["min"] + 1e-4:
                assert ratio - lower == pytest.approx(decay * (later - step), abs=2e-4)
            assert lower >= round(each["min"], 4) - 1e-9


def test_the_jumps_differ() -> None:
    rises = [
        round(after - before, 3)
        for each in default()["points"]
        for _, before, after in each["timeline"]["jumps"]
    ]
    assert all(rise > 0 for rise in rises)
    assert len(set(rises)) > 5


def test_from_where_init_is_one_a_higher_conservativeness_is_the_same_run() -> None:
    one, other = (point(value, 100, 6_000, 20) for value in (1.5, 2.0))
    assert {**one, "value": 0} == {**other, "value": 0}


def test_the_pool_is_never_overdrawn() -> None:
    for each in default()["points"]:
        assert 0 < max(each["timeline"]["used"]) <= SMALL.pool


def test_case_21_two_lines_in_words() -> None:
    data = two_lines()
    assert data["points"][3]["steps"] == [72, 72]
    assert "69 to 97 ms" in data["sentence"]
    assert "prefills in between included" in data["says"][3]


def test_which_server_printed_them() -> None:
    """A whole number of decays, and a floor: two values leave few settings."""
    assert [each["ms"] is not None for each in two_lines()["points"]] == [
        False, True, False, True, False,
    ]  # fmt: skip


def test_on_the_floor_only_an_upper_bound_is_left() -> None:
    data = two_lines(assigned=0.1845, found=0.098, apart=12)
    assert data["points"][3]["steps"] == [88, None]
    assert "at least 87 decays" in data["says"][3]


def test_an_estimate_below_the_floor_is_lifted_to_it_by_one_decay() -> None:
    data = two_lines(assigned=0.05, found=0.098, apart=6)
    assert data["points"][3]["steps"] == [2, None]
    assert "at least 1 decay, so 2 decode steps" in data["says"][3]


def test_no_step_takes_less_than_nothing() -> None:
    said = two_lines(assigned=1.0, found=0.098, apart=0)["says"]
    assert "2,997 decays, so 2,998 decode steps in less than 1 s: below 0.3 ms a step" in said[0]
    assert "0 decays, so 1 decode step in" in two_lines(assigned=0.5, found=0.5)["says"][0]


def test_bounds_that_differ_do_not_look_equal() -> None:
    said = two_lines(assigned=1.0, found=0.098, apart=60)["says"]
    assert "19.7 to 20.3 ms" in said[0]


def test_settings_that_make_no_difference_are_not_ranked() -> None:
    data = find("feedback")(pool=18_000, clients=20, share=10)
    assert "At every setting 1,870 output tokens a second." in data["sentence"]
    assert all("No setting gives more." in said for said in data["says"])


def test_opposite_optima_are_those_of_the_widget() -> None:
    early, full = laws()["laws"]
    rates = [each["tokens_s"] for each in default()["points"]]
    assert full["tokens_s"] == rates
    assert early["best"] == 0.1 < full["best"] == CONSERVATIVENESS[rates.index(max(rates))]


def test_a_ratio_that_rose_is_nobodys() -> None:
    data = two_lines(assigned=0.1, found=0.5, apart=1)
    assert [each["ms"] for each in data["points"]] == [None] * 5
    assert len(set(data["says"])) == 5
