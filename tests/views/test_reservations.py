"""The view of promises against the simulator it shows."""

from __future__ import annotations

import pytest

from kvsched.reserve.budgets import budgets, waits
from kvsched.reserve.records import AdmissionBlocked, Dispatch, Snapshot
from kvsched.views import find
from kvsched.views.reservations import PICKS, replayed

VIEW = find("reservations")


@pytest.mark.parametrize("pick", PICKS)
@pytest.mark.parametrize("release_delay", [0, 3])
def test_the_stack_is_the_simulator_s_own_state(pick: str, release_delay: int) -> None:
    records, config = replayed(pick, 12, release_delay, 2)
    pool = {budget.t: budget for budget in budgets(records, config)}
    snapshots = [record for record in records if isinstance(record, Snapshot)]
    for snapshot in snapshots:
        budget = pool[snapshot.t]
        assert budget.draining == snapshot.draining
        promises = budget.allocated + budget.promised
        assert promises == snapshot.credits or (
            pick == "promise the prompt" and promises <= snapshot.credits
        )
    assert len(snapshots) > 5
    assert pool[max(pool)][1:] == (0, 0, 0, 12)


def test_every_block_is_in_one_place_and_slack_is_never_negative() -> None:
    for params in VIEW.samples():
        data = VIEW(**params)
        for point in data["points"]:
            assert all(sum(parts) == data["blocks"] for _, *parts in point["pool"])
            assert all(min(parts) >= 0 for _, *parts in point["pool"])


def test_promising_more_makes_the_last_request_wait_longer() -> None:
    ends = {point["pick"]: point["end"] for point in VIEW()["points"]}
    assert ends["serial"] > ends["promise all"] > ends["promise the prompt"]


def test_who_recomputes_is_who_was_thrown_out() -> None:
    for point in VIEW()["points"]:
        assert (point["preempted"] > 0) == (point["recomputed"] > 0)
        assert (point["pick"] == "promise the prompt") == (point["preempted"] > 0)


def test_what_the_head_waits_for_holds_at_every_boundary_in_between() -> None:
    records, config = replayed("promise all", 12, 2, 1)
    pool = {budget.t: budget for budget in budgets(records, config)}
    blocked = {r.id: r for r in records if isinstance(r, AdmissionBlocked)}
    for wait in waits(records):
        need = blocked[wait.id].need
        for t in range(wait.start, wait.end):
            if t in pool:
                draining = pool[t].draining if wait.binding == "credits" else 0
                assert pool[t].slack + draining < need, wait


def test_the_columns_are_the_dispatches() -> None:
    for point in VIEW()["points"]:
        records, config = replayed(point["pick"], 12, 2, 1)
        tokens = {r.t: r.tokens for r in records if isinstance(r, Dispatch)}
        assert {t: sum(parts) for t, *parts in point["work"]} == tokens
        assert max(tokens.values()) <= config.max_tokens


def test_who_is_larger_than_the_pool_is_told() -> None:
    data = VIEW(factor=4)
    assert [point["rejected"] for point in data["points"]] == [1, 1, 1]
    assert all("1 rejected: larger than the pool." in said for said in data["says"])


@pytest.mark.parametrize("promise", range(3))
def test_where_nobody_completes_no_tick_is_named(promise: int) -> None:
    data = find("reservations")(blocks=6, factor=4)
    assert data["sentence"].endswith(": all 8 requests are rejected, larger than the pool.")
    assert "completes" not in data["alt"]
    assert data["says"][promise].endswith(": 8 rejected: larger than the pool.")


def test_who_is_rejected_is_said_before_the_last_tick() -> None:
    data = find("reservations")(blocks=6, release_delay=0, factor=2)
    assert "2 of 8 rejected, larger than the pool; the last of the others" in data["sentence"]
