"""A pass as a budget: what is shown is what the engine's own adder compared, in its order."""

from __future__ import annotations

import functools
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvsched import sglang
from kvsched.engine import Engine
from kvsched.log import Log
from kvsched.palette import PREEMPTED
from kvsched.sglang.events import Offer
from kvsched.views import find
from kvsched.views.adder_pass import (
    PAGE,
    PASS,
    POOL,
    WAITING,
    Pass,
    arrivals,
    sglang_pass,
    until_the_pass,
)

CLIP, CHUNK = 4096, 8192


@functools.cache
def view(**params: Any) -> dict[str, Any]:
    return find("adder")(**params)


def admitted(**params: Any) -> list[int]:
    return [point["admitted"] for point in view(**params)["points"]]


def test_whole_outputs_admit_one_and_the_floor_nearly_as_many_as_vllm() -> None:
    assert admitted() == [1, 5, 11, 12]
    first = view()["points"][0]
    assert first["reserved"] > 0.85 * (first["free"] + first["evictable"])


def test_the_watched_adder_decides_as_the_engines() -> None:
    """The same pass by a scheduler that nobody watches."""
    log = Log()
    config = sglang.Config(POOL, page_size=PAGE, init_new_token_ratio=0)
    scheduler = sglang.Scheduler(config, log)
    engine = Engine(scheduler, arrivals(8), log)
    until_the_pass(engine)
    scheduler.config = replace(config, chunked_prefill_size=CHUNK)
    scheduler.ratio.current = 0.7
    plan = engine.step()
    seen = sglang_pass(8, 0.7, CLIP, CHUNK)
    assert [tried.id for tried in seen.tried if tried.added] == plan.admitted
    offers = [e.event for e in log.entries if e.step == PASS and isinstance(e.event, Offer)]
    assert [(o.id, o.asked, o.verdict) for o in offers] == [
        (tried.id, tried.asked, tried.verdict) for tried in seen.tried
    ]


@given(
    running=st.integers(0, 12),
    ratio=st.floats(0, 1),
    clip=st.integers(0, 4096),
    chunk=st.integers(16, CHUNK),
)
@settings(max_examples=25, deadline=None)
def test_each_begins_where_the_one_before_ended(
    running: int, ratio: float, clip: int, chunk: int
) -> None:
    seen: Pass = sglang_pass(running, ratio, clip, chunk)
    assert seen.tried[0].left == seen.free + seen.evictable - seen.reserved
    for one, other in pairwise(seen.tried):
        assert one.added
        assert one.verdict == "CONTINUE"
        assert other.left == one.left - one.found - one.computed - one.later
    last = seen.tried[-1]
    assert last.added or (last.asked >= last.limit)
    assert last.verdict != "CONTINUE" or len(seen.tried) == len(WAITING)
    assert seen.used <= chunk


def test_the_clip_bounds_what_is_reserved_for_each() -> None:
    reserved = [point["reserved"] for point in view(clip=256)["points"]]
    assert reserved == [8 * 256, 1433, 200, 0]
    assert admitted(clip=256)[0] == len(WAITING)


def test_with_nobody_running_the_ratio_changes_nothing() -> None:
    whole, start, floor, _ = view(running=0)["points"]
    assert whole["tried"] == start["tried"] == floor["tried"]


def test_a_prefix_that_was_evictable_counts_once_it_is_held() -> None:
    b = view()["points"][0]["tried"][1]
    assert (b["id"], b["added"], b["found"], b["verdict"]) == ("B", False, 2000, "NO_TOKEN")
    assert b["asked"] < b["left"]
    assert b["limit"] == b["left"] - b["found"] == 68
    assert "once the 2,000 it found are held, 68 are left: NO_TOKEN" in view()["says"][0]


def test_a_prompt_cut_at_the_chunk_is_charged_no_outputs() -> None:
    *_, cut = view(chunk=1024)["points"][2]["tried"]
    assert (cut["id"], cut["added"], cut["verdict"]) == ("C", True, "OTHER")
    assert (cut["computed"], cut["later"]) == (112, PAGE)


@pytest.mark.parametrize(
    ("conservativeness", "start", "floor"), [(0.3, "0.21", "0.0294"), (2, "1", "0.14")]
)
def test_start_and_floor_follow_the_conservativeness(
    conservativeness: float, start: str, floor: str
) -> None:
    names = [point["name"] for point in view(conservativeness=conservativeness)["points"]]
    assert names == ["ratio 1.0", f"start, {start}", f"floor, {floor}", "vLLM"]


def test_vermilion_is_what_was_refused_for_memory() -> None:
    figure = find("adder").draw
    legend = 1
    for params, refused in (({}, 3), ({"clip": 64}, 0), ({"running": 12}, 3)):
        assert figure(view(**params), {"pick": 0}).count(PREEMPTED.ink.light) == legend + refused


def test_vllm_takes_the_blocks_of_this_step() -> None:
    point = view()["points"][3]
    assert [t["computed"] for t in point["tried"][:3]] == [600, 300, 1100]
    assert all(t["asked"] % PAGE == 0 and t["asked"] <= t["limit"] for t in point["tried"])
    assert point["tried"][1]["found"] == 2000
    assert point["used"] == CHUNK


def test_the_table_has_every_request_of_every_pass() -> None:
    rows = find("adder").table(view()).rows
    assert len(rows) == 4 * len(WAITING)
    assert ("ratio 1.0", "C", *("–",) * 5, "no", "not tried") in rows
