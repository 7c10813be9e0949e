"""One large cold request and a stream of small ones: what the view says is what the runs did."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from kvsched import invariants
from kvsched.log import Admit, Log
from kvsched.views import find
from kvsched.views.starvation_runs import (
    BEFORE,
    LARGE,
    LENGTHS,
    PROMPT,
    passed_by,
    passes_behind,
    rules,
    simulate,
    waited,
    waits,
)

BOUNDED, UNBOUNDED = ("break", "fcfs", "aged lpm"), ("continue", "lpm")


@functools.cache
def runs(**params: int) -> dict[str, dict[str, Any]]:
    return {run["name"]: run for run in find("starvation")(**params)["runs"]}


@functools.cache
def log(name: str, stream: int) -> Log:
    return simulate(next(rule for rule in rules(100) if rule.name == name), stream, 960)


def test_case_9_and_17_the_wait_grows_with_the_stream_under_two_rules_of_five() -> None:
    for name in UNBOUNDED:
        waits = runs()[name]["waits"]
        grown = zip(waits, waits[1:], LENGTHS, LENGTHS[1:], strict=False)
        assert all(after - before >= 1.5 * (n - m) for before, after, m, n in grown)
    for name in BOUNDED:
        assert len(set(runs()[name]["waits"][1:])) == 1


def test_nobody_goes_first_where_the_head_of_line_holds() -> None:
    assert [runs()[name]["passing"] for name in ("break", "fcfs")] == [[], []]


def test_the_price_is_paid_by_the_others() -> None:
    found = runs()
    assert found["continue"]["worst"] == 0 < found["break"]["worst"]
    assert found["lpm"]["mean"] < found["aged lpm"]["mean"]


@pytest.mark.parametrize("credit", [50, 100, 350])
def test_under_aged_lpm_the_last_to_go_first_comes_within_the_bound(credit: int) -> None:
    seen = simulate(rules(credit)[-1], 120, 960, whole=False)
    behind = [passes_behind(seen, course) for course in passed_by(seen)]
    assert 0 < len(behind) < 120
    assert max(behind) < -(-960 // credit)


def test_at_the_default_the_bound_is_reached() -> None:
    assert runs()["aged lpm"]["behind"] == 9
    said = find("starvation")()["says"][-1]
    assert "first sorted 9 passes after V; from 10 on no newcomer could" in said


def test_with_nothing_shared_v_fits_at_once() -> None:
    assert {run["wait"] for run in runs(shared=0, stream=0).values()} == {0}


def test_a_stream_that_still_goes_on_says_the_same_as_a_longer_one() -> None:
    """What ``waits`` does not run again."""
    for rule in rules(100):
        found = [waited(simulate(rule, n, 960, whole=False))[LARGE] for n in LENGTHS]
        assert waits(rule, 960, {}) == found


def test_who_goes_first_came_later_and_was_admitted_earlier() -> None:
    seen = log("lpm", 60)
    admitted = [entry.event.id for entry in seen.of(Admit)]
    first = [course.id for course in passed_by(seen)]
    assert first == [f"s{i}" for i in range(BEFORE, BEFORE + 60)]
    assert all(admitted.index(name) < admitted.index(LARGE) for name in first)


def test_no_waiting_request_throws_anybody_out() -> None:
    for name in ("break", "continue"):
        assert invariants.waiting_never_preempts(log(name, 60)) is None


def test_v_holds_its_prompt_while_it_stays() -> None:
    """Also where it is thrown out and comes back."""
    for run in runs(shared=1120, stream=0).values():
        for first, end in run["stays"]:
            assert all(run["held"][step] >= PROMPT for step in range(first, end))
    assert len(runs(shared=1120, stream=0)["break"]["stays"]) == 2
