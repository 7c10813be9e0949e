"""Where a step's time and the wait for a first token went, to the nanosecond."""

from __future__ import annotations

from typing import Any

import pytest

from kvsched import courses, profiles
from kvsched.clock import CostClock
from kvsched.enginetime import Part, step_parts
from kvsched.metrics import measure
from kvsched.ttft import Split, at_percentile, split_ttft

CLOCK = CostClock(profiles.load("h100-sxm"))
OFF = {"enable_prefix_caching": False}
BASE = 5_900_000
"""Nanoseconds of a pass that computes nothing."""


def prefill(start: int, end: int) -> int:
    """Nanoseconds of these tokens, by the published costs."""
    return round(18_800 * (end - start) + 0.435 * (end**2 - start**2))


class TestStepParts:
    """The run of ``conftest.pressed``: B's 25 tokens in step 3, of which it had held 24."""

    def test_what_was_lost_is_recompute_and_the_newest_token_a_decode(self, pressed: Any) -> None:
        log = pressed(clock=CLOCK, **OFF)
        parts = step_parts(courses.read(log), CLOCK)
        assert set(parts) == {0, 3}
        assert parts[0] == Part(0, prefill(0, 7) + prefill(0, 23))
        newest = 43 * 25  # it attends to 25 tokens
        assert parts[3].prefill == newest
        assert parts[3].recompute == pytest.approx(prefill(0, 25) - newest, abs=1)

    def test_parts_base_and_decodes_make_up_the_step(self, pressed: Any) -> None:
        log = pressed(clock=CLOCK, **OFF)
        for step, part in step_parts(courses.read(log), CLOCK).items():
            assert BASE + part.recompute + part.prefill == log.ends[step] - log.times[step]

    def test_found_tokens_cost_nothing(self, pressed: Any) -> None:
        parts = step_parts(courses.read(pressed(clock=CLOCK)), CLOCK)
        newest = 43 * 25
        assert parts[3] == Part(prefill(20, 25) - newest, newest)


class TestSplit:
    """A request's own wait in three parts."""

    def test_alone_it_is_all_prefill(self, simulate: Any) -> None:
        (split,) = split_ttft(simulate(("A", 20, 2, 0), clock=CLOCK), CLOCK)
        assert split == Split("A", 0, 0, BASE + prefill(0, 20))

    def test_the_rest_of_the_step_it_arrives_in_is_queueing(self, simulate: Any) -> None:
        log = simulate(("A", 20, 2, 0), ("B", 4, 1, 1_000_000), clock=CLOCK)
        split = split_ttft(log, CLOCK)[1]
        assert split.queueing == log.ends[0] - 1_000_000
        assert split.prefill == log.ends[1] - log.times[1]

    def test_who_waits_while_lost_tokens_are_computed_waits_for_recompute(
        self, simulate: Any
    ) -> None:
        """C arrives as B is out; B goes first and takes its 24 tokens again in step 3."""
        alone = simulate(("A", 7, 3, 0), ("B", 23, 4, 0), clock=CLOCK, **OFF)
        at = alone.times[3]
        log = simulate(("A", 7, 3, 0), ("B", 23, 4, 0), ("C", 20, 1, at), clock=CLOCK, **OFF)
        parts = step_parts(courses.read(log), CLOCK)
        split = split_ttft(log, CLOCK)[2]
        assert split.recompute == parts[3].recompute > 0
        assert split.queueing == log.ends[4] - at - parts[3].recompute
        assert split.prefill == log.ends[5] - log.times[5]

    @pytest.mark.parametrize("cache", [True, False])
    def test_the_parts_make_up_the_time_to_first_token(self, simulate: Any, cache: bool) -> None:
        requests = [(f"r{k}", 5 + 3 * k, 6, 4_000_000 * k) for k in range(7)]
        log = simulate(*requests, clock=CLOCK, enable_prefix_caching=cache)
        splits = split_ttft(log, CLOCK)
        totals = {r.id: r.time_to_first_token for r in measure(log).requests}
        assert {split.id: split.total for split in splits} == totals
        assert all(min(split[1:]) >= 0 for split in splits)
        assert any(split.recompute for split in splits)

    def test_at_a_percentile_it_is_a_requests_own(self) -> None:
        splits = [Split(f"r{k}", 10 - k, 0, 1) for k in range(10)]
        assert at_percentile(splits, 50) == splits[5]
        assert at_percentile(splits, 99) == splits[0]
