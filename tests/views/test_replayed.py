"""The player's view of a replay against the records it is drawn from."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pytest

from kvsched.errors import InputError
from kvsched.explain.short import plain
from kvsched.reserve import Config
from kvsched.reserve.as_pages import as_pages
from kvsched.reserve.records import DispatchDone, Snapshot
from kvsched.steps import rebuild
from kvsched.views import find
from kvsched.views.replayed import replay

VIEW = find("replayed")
EACH = pytest.mark.parametrize("params", list(VIEW.samples()), ids=str)


def said(data: dict[str, Any]) -> list[str]:
    says = accumulate(data["trace"]["says"], lambda last, now: now or last)
    return [" ".join(map(plain, clauses)) for clauses in says]


@EACH
def test_every_page_lies_where_the_snapshots_count_it(params: dict[str, Any]) -> None:
    records, config = replay(**params)
    log, moments = as_pages(records, config)
    steps = {record.now: record for record in rebuild(log)}
    at = {moment.t: moment for moment in moments}
    for snapshot in (record for record in records if isinstance(record, Snapshot)):
        moment, step = at[snapshot.t], steps[snapshot.t]
        assert (moment.credits, moment.draining) == (snapshot.credits, snapshot.draining)
        assert moment.active == snapshot.active
        assert step.free == config.blocks - moment.taken - moment.draining
        assert len(step.waiting) == snapshot.queued
        assert sum(step.holders.values()) == moment.draining
    assert [len(steps)] == [len(moments)]
    assert not steps[max(steps)].live_end


@EACH
def test_who_computes_and_who_gets_a_token_is_as_recorded(params: dict[str, Any]) -> None:
    records, config = replay(**params)
    log, moments = as_pages(records, config)
    emitted = {r.t: set(r.emitted) for r in records if isinstance(r, DispatchDone)}
    for step, moment in zip(rebuild(log), moments, strict=True):
        rows = {} if moment.dispatch is None else {i: n for i, _, n in moment.dispatch.rows}
        assert step.scheduled == rows
        if rows:
            assert set(step.emitted) == emitted[step.now + 1]


@EACH
def test_the_panel_says_both_sides_of_what_binds(params: dict[str, Any]) -> None:
    data = VIEW(**params)
    panels = accumulate(data["trace"]["panels"], lambda last, now: now or last)
    for panel, words in zip(panels, said(data), strict=True):
        assert sum(panel["pool"]) == params["blocks"]
        assert min(panel["pool"]) >= 0
        binding = [row for row in panel["rows"] if row[1] == "binds"]
        assert bool(binding) == (panel["kind"] == "denied")
        for _, _, used, asked, cached, headroom, limit in binding:
            assert used + asked + cached + headroom > limit
            assert f"{panel['id']} must wait" in words or f"{panel['id']} still waits" in words


def test_the_reason_to_wait_changes_from_promises_to_drains() -> None:
    told = said(VIEW())
    assert told[1].startswith("C must wait, and all behind it: 4 + 5 promised > 8, though 5 blocks")
    assert "4 + 4 promised + 1 draining > 8. This points to cleanup" in told[2]
    assert told[3].startswith("C still waits for pages to drain.")
    assert told[-1].endswith("Tick 14. Nobody computes.")
    assert VIEW()["trace"]["stops"] == [1, 2, 5]


def test_a_draining_request_keeps_its_lane_and_its_height() -> None:
    trace = VIEW()["trace"]
    draining = trace["phases"].index("draining")
    assert trace["lanes"]["B"]["segments"][-1] == [draining, 2, 3, 4]


@pytest.mark.parametrize("knobs", [{"reserve": "preempt"}, {"prefix_cache": True}])
def test_what_cannot_be_numbered_is_refused(knobs: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="reserve whole, without prefix_cache"):
        as_pages([], Config(**knobs))
