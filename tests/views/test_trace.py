"""A run stored for the player: small enough for a page, and exact in what it tells."""

from __future__ import annotations

import json
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsched.conform.recording import load
from kvsched.conform.replay import replay
from kvsched.engine import run
from kvsched.explain.short import plain
from kvsched.log import Log, Resume
from kvsched.request import Request
from kvsched.steps import rebuild
from kvsched.views import find
from kvsched.views.follow import follow
from kvsched.views.trace import encode, runs
from kvsched.vllm import Config, Scheduler
from kvsched.workload import Arrival

GOLDEN = Path(__file__).parents[1] / "golden"
LARGEST = 150_000
"""Bytes of a stored run."""


def trace_of(folder: str, name: str) -> dict[str, Any]:
    return encode(replay(load(GOLDEN / folder / f"{name}.json.gz")).log)


def in_full(values: list[Any]) -> list[Any]:
    return list(accumulate(values, lambda last, now: now or last))


def said(trace: dict[str, Any], step: int) -> str:
    return " ".join(map(plain, in_full(trace["says"])[step]))


def blocks_of(coded: list[int]) -> list[int]:
    pairs = zip(coded[::2], coded[1::2], strict=True)
    return [first + i * (1 if n > 0 else -1) for first, n in pairs for i in range(abs(n))]


@given(st.lists(st.integers(1, 12), max_size=30))
def test_runs_give_the_blocks_back(blocks: list[int]) -> None:
    assert blocks_of(runs(blocks)) == blocks


def test_a_run_up_or_down_is_two_numbers() -> None:
    assert runs(range(5, 500)) == [5, 495]
    assert runs(range(500, 5, -1)) == [500, -495]
    assert runs([7, 7]) == [7, 1, 7, 1]


def test_a_busy_run_of_2049_blocks_and_100_steps_is_small_enough() -> None:
    config = Config(
        num_gpu_blocks=2050, max_num_seqs=64, max_num_batched_tokens=4096, max_model_len=16_384
    )
    arrivals = [
        Arrival(i, Request(f"r{i}", ((100_000 * i, 700 + 97 * (i % 13)),), 40 + 7 * i, i))
        for i in range(40)
    ]
    log = Log()
    run(Scheduler(config, log), arrivals, log, max_steps=100)
    trace = encode(log)
    assert len(trace["says"]) == 100
    assert len(trace["stops"]) > 3
    assert len(json.dumps(trace, separators=(",", ":"), ensure_ascii=False)) < LARGEST


@pytest.mark.parametrize("params", [*find("preemption").samples()])
def test_every_corner_of_the_chapters_view_is_small_enough(params: dict[str, Any]) -> None:
    data = find("preemption")(**params)
    assert len(json.dumps(data, separators=(",", ":"), ensure_ascii=False)) < LARGEST


def test_the_view_at_its_defaults_is_the_recorded_example() -> None:
    assert find("preemption")()["trace"] == trace_of("vllm", "seed_a_finish6")


def test_the_sentences_of_the_example() -> None:
    trace = trace_of("vllm", "seed_a_finish6")
    assert said(trace, 1) == (
        "B needs 1 more block and none is free. D was admitted last, so D is thrown out: 8,192 "
        "tokens lost, 512 blocks given back. A step that preempts admits no one."
    )
    assert said(trace, 2) == (
        "D stays out: its whole sequence takes 513 blocks, 3 new and 510 that it would find again "
        "in the free queue, and 510 are free."
    )
    assert said(trace, 6) == (
        "A finished and gave back 513 blocks, so D fits again. It finds 8,160 of its 8,192 lost "
        "tokens still in the cache and computes 33: 32 again, 1 for the first time."
    )


def test_the_tests_of_the_example_as_bars() -> None:
    panels = in_full(trace_of("vllm", "seed_a_finish6")["panels"])
    rows = {row[0]: row[1:] for row in panels[2]["rows"]}
    assert rows["whole"] == ["binds", 0, 3, 510, 0, 510]
    assert [rows[name][0] for name in ("tokens", "slots", "chunk", "watermark")] == [
        "passes", "passes", "unreached", "off",
    ]  # fmt: skip
    assert panels[1]["rows"][0] == ["growth", "binds", 0, 1, 0, 0, 0, "B", "D"]
    assert panels[1]["rows"][-1] == ["relief", "passes", 1537, 512, 0, 0, 2049]
    assert panels[6]["kind"] == "admitted"


@pytest.mark.parametrize("name", ["cascade_fcfs", "cascade_priority", "watermark_churn_0.02"])
def test_a_denial_binds_by_the_numbers_of_its_bar(name: str) -> None:
    log = replay(load(GOLDEN / "vllm" / f"{name}.json.gz")).log
    for record, panel in zip(rebuild(log), in_full(encode(log)["panels"]), strict=False):
        if panel["kind"] != "denied" or record.denial is None:
            continue
        (row,) = [row for row in panel["rows"] if row[1] == "binds"]
        _, _, used, asked, cached, headroom, limit = row
        assert used + asked + cached + headroom > limit, record.step
        if record.denial.of_allocator:
            assert (asked, cached) == (record.denial.need, record.denial.cached)
            assert headroom == (record.denial.headroom if row[0] == "watermark" else 0)
            assert limit == record.denial.limit


def test_what_a_resume_finds_is_what_the_hatch_had_shown() -> None:
    log = replay(load(GOLDEN / "vllm" / "seed_a_finish6.json.gz")).log
    before: dict[str, int] = {}
    for moment in follow(log):
        for event in moment.record.of(Resume):
            assert event.own_hits == before[event.id] == 8160
        before = moment.found


def test_a_waiting_request_that_holds_blocks_keeps_its_area() -> None:
    trace = trace_of("vllm2", "kv_deadlock_fcfs")
    segment = trace["lanes"]["k"]["segments"][-1]
    assert trace["phases"][segment[0]] == "blocked-outside"
    assert segment[3] == 40


def test_an_ending_other_than_done_is_marked() -> None:
    marks = trace_of("vllm2", "st_basic_fcfs")["lanes"]["s"]["marks"]
    assert marks[-1][1:] == ["end", "aborted", 8]


def test_who_sends_its_blocks_elsewhere_drains() -> None:
    trace = trace_of("vllm2", "kv_send_delay_fcfs")
    phases = [trace["phases"][segment[0]] for segment in trace["lanes"]["a"]["segments"]]
    assert phases[-1] == "draining"
    assert "once its KV is sent" in said(trace, 4)


def test_a_run_that_stands_still_is_cut_soon_after_it_stopped() -> None:
    trace = find("preemption")(blocks=400)["trace"]
    assert len(trace["says"]) < 10
    assert "it can never come in" in said(trace, 0)
