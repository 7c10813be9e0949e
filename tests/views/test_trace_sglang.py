"""A run of SGLang's stored for the player: what it tells, step by step."""

from __future__ import annotations

import json
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from kvsched.conform.sglang.replay import replay
from kvsched.contract import Result
from kvsched.engine import run
from kvsched.explain.short import plain
from kvsched.log import Log, Resume
from kvsched.sglang import Config, Request, Scheduler, rebuild
from kvsched.sglang.events import Lose, Retract
from kvsched.views.lanes import draw
from kvsched.views.sglang import follow
from kvsched.views.trace import encode
from kvsched.workload import Arrival

LOOPS = Path(__file__).parents[1] / "golden" / "sglang" / "loop.json"
LARGEST = 150_000
"""Bytes of a stored run."""


@pytest.fixture(scope="module")
def log() -> Log:
    """Four prompts of 430 tokens in 128 pages of 16, overlap loop: D, the last, is retracted."""
    config = Config(2048, page_size=16, schedule_conservativeness=0.3)
    arrivals = [
        Arrival(3 * i, Request(name, ((10_000 * i, 430),), 150)) for i, name in enumerate("ABCD")
    ]
    written = Log()
    run(Scheduler(config, written), arrivals, written, lag=1)
    return written


@pytest.fixture(scope="module")
def trace(log: Log) -> dict[str, Any]:
    return encode(log)


@pytest.fixture(scope="module")
def lost() -> Log:
    """The recorded loop that loses a request."""
    return replay(json.loads(LOOPS.read_text())["runs"][64]).log


def in_full(values: list[Any]) -> list[Any]:
    return list(accumulate(values, lambda last, now: now or last))


def said(trace: dict[str, Any], step: int) -> str:
    return " ".join(map(plain, in_full(trace["says"])[step]))


def test_it_is_small_enough(trace: dict[str, Any]) -> None:
    size = len(json.dumps(trace, separators=(",", ":")))
    assert len(trace["says"]) > 200
    assert size < LARGEST / 5, f"{size} bytes"


def test_the_pool_is_in_pages(trace: dict[str, Any]) -> None:
    assert trace["engine"] == "sglang"
    assert (trace["config"]["blocks"], trace["config"]["size"]) == (128, 16)
    assert trace["config"]["unit"] == "page"


def test_the_sentence_of_the_retraction(log: Log, trace: dict[str, Any]) -> None:
    (step,) = [it.step for it in rebuild(log) if it.of(Retract)]
    assert step in trace["stops"]
    assert said(trace, step) == (
        "The next tokens need 1 page and none is free. D has the fewest outputs: 506 tokens lost, "
        "6 pages given back. new_token_ratio is set to the estimate over those kept: "
        "0.1853 → 0.6652."
    )
    assert said(trace, step + 1).startswith(
        "D stays out: it asks for 180 tokens, outputs to come included; 80 are there, and 138"
    )
    assert said(trace, 0) == "A is admitted and prefills 430 tokens."


def test_its_panel_shows_the_check_and_the_pool(log: Log, trace: dict[str, Any]) -> None:
    (step,) = [it.step for it in rebuild(log) if it.of(Retract)]
    panel = in_full(trace["panels"])[step]
    assert panel["kind"] == "retraction"
    assert panel["rows"][:2] == [
        ["decode", "binds", 0, 1, 0, 0, 0, ["D"]],
        ["relief", "passes", 122, 6, 0, 0, 128],
    ]
    denied = in_full(trace["panels"])[step + 1]
    assert (denied["kind"], denied["id"], denied["full"]) == ("denied", "D", True)
    test, state, used, asked, _, _, limit = denied["rows"][1]
    assert (test, state) == ("memory", "binds")
    assert used + asked > limit


def test_a_denial_binds_by_the_numbers_of_its_bar(lost: Log) -> None:
    for panel in in_full(encode(lost)["panels"]):
        if panel["kind"] != "denied":
            continue
        ((_, _, used, asked, _, _, limit, *_),) = [r for r in panel["rows"] if r[1] == "binds"]
        assert used + asked > limit


def test_what_a_resume_finds_is_what_the_hatch_had_shown() -> None:
    """It finds more only where others had the same and kept it elsewhere."""
    found = []
    for recorded in json.loads(LOOPS.read_text())["runs"][:20]:
        before: dict[str, int] = {}
        for moment in follow(replay(recorded).log):
            for event in moment.record.of(Resume):
                assert event.own_hits <= before[event.id] <= event.computed
                found.append((before[event.id], event.computed))
            before = moment.found
    assert sum(shown == read for shown, read in found) > 0.8 * len(found)
    assert max(found)[0] > 0


def test_who_runs_while_another_prefills_stands_still(trace: dict[str, Any]) -> None:
    """A decodes in steps 1 and 2, and holds what it has in step 3, in which B prefills."""
    idle = trace["phases"].index("idle")
    segments = trace["lanes"]["A"]["segments"]
    assert [s[1] for s in segments if s[0] == idle] == [3, 6, 9]


def test_a_lost_request_ends_lost(lost: Log) -> None:
    (step,) = [it.step for it in rebuild(lost) if it.of(Lose)]
    trace = encode(lost)
    assert trace["lanes"]["0"]["marks"][-1][:3] == [step, "end", "lost"]
    assert "0 is forgotten" in said(trace, step)


def test_who_waited_too_long_ends_turned_away() -> None:
    overlap = json.loads(LOOPS.with_name("loop_overlap.json").read_text())["runs"]
    trace = encode(replay(next(r for r in overlap if r["kind"] == "timeout")).log)
    words = {i: lane["marks"][-1][2] for i, lane in trace["lanes"].items()}
    assert set(words.values()) == {"done", "turned away"}


def test_an_abort_counts_when_the_request_ends() -> None:
    written = Log()
    scheduler = Scheduler(Config(64), written)
    written.begin(0, 0)
    scheduler.add(Request("A", ((0, 8),), 8))
    scheduler.schedule(0)
    scheduler.abort("A")
    written.begin(1, 1)
    plan = scheduler.schedule(1)
    scheduler.update(plan, Result({"A": (5,)}))
    (mark,) = encode(written)["lanes"]["A"]["marks"]
    assert mark == [1, "end", "turned away", 1]


def test_the_picture_without_scripts_holds_every_lane(trace: dict[str, Any]) -> None:
    data = {"trace": trace, "alt": "four lanes"}
    picture = draw(data, {"step": 86})
    assert all(f">{name}</text>" in picture for name in "ABCD")
    assert "−506 tokens" in picture
