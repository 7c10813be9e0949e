"""What the rules in words claim of all recordings, counted over the committed ones."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

rule = partial(pytest.mark.rule, engine="vLLM", version="0.28.0")
SCHEDULER = "vllm/v1/core/sched/scheduler.py"


def test_the_pass_saw_every_recording_whole(survey: Any, golden: Any) -> None:
    index = json.loads((golden / "index.json").read_text())
    assert survey.counts["recordings"] == len(index) == 153
    for name, key in (
        ("steps", "steps"),
        ("preemptions", "preemptions"),
        ("preempting steps", "preempt_steps"),
    ):
        assert survey.counts[name] == sum(case[key] for case in index)


@rule(flag="", default=None, source=f"{SCHEDULER}:748")
def test_no_preempting_step_admits_anybody(survey: Any) -> None:
    """0 of 2,049 recorded steps that preempted also admitted a request."""
    assert survey.counts["preempting steps"] == 2049
    assert survey.counts["preempting steps that admit"] == 0


@rule(flag="scheduler_reserve_full_isl", default=True, source="vllm/config/scheduler.py:130")
def test_with_the_gate_a_victim_hardly_returns_next_step_by_itself(survey: Any) -> None:
    """With the gate on, 1 of 65 next-step returns needed nobody else to leave; off, 34 of 55."""
    counts = survey.counts
    assert counts["next-step resumes, gate on"] == 65
    assert counts["next-step resumes, gate on, unaided, caching on"] == 1
    assert counts["next-step resumes, gate on, unaided, caching off"] == 0
    assert counts["next-step resumes, gate off"] == 55
    assert counts["next-step resumes, gate off, unaided, caching off"] == 28
    assert counts["next-step resumes, gate off, unaided, caching on"] == 6


@rule(flag="policy", default="fcfs", source=f"{SCHEDULER}:686-692")
def test_a_self_victim_leaves_others_without_a_turn(survey: Any) -> None:
    """In 17 recorded steps a self-victim left others without a turn, in 8 the whole step empty."""
    assert survey.counts["self-victims with others behind"] == 17
    assert survey.counts["self-victims that leave the whole step empty"] == 8


@rule(flag="", default=None, source=f"{SCHEDULER}:608-625")
def test_no_running_request_is_passed_over_with_budget_left(survey: Any) -> None:
    """A running request with nothing to compute is passed over: no recorded step has one."""
    assert survey.counts["running requests passed over with budget left"] == 0


def test_whoever_ends_holds_the_blocks_of_all_tokens_but_the_last(survey: Any) -> None:
    """Ceil((P + N - 1) / block size), for every request of every recording."""
    assert [found for found in survey.wrong if "ends with" in found] == []


@rule(flag="enable_prefix_caching", default=True, source=f"{SCHEDULER}:659-666")
def test_hits_on_blocks_nobody_wrote_are_found_in_one_recording_only(golden: Any) -> None:
    """Phantom hits are rare: one recording of 153 has one, and it was made for it."""
    index = json.loads((golden / "index.json").read_text())
    phantoms = {case["name"]: case["phantom"] for case in index if case["phantom"]}
    assert phantoms == {"prio_phantom_hash": [[6, "L", 4, 24]]}
