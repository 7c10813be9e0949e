"""The tables say what the log, the rebuilt steps and the metrics say."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from kvsched import frames
from kvsched.errors import InputError
from kvsched.log import Admit, Level, Log, Preempt
from kvsched.metrics import RequestMetrics, measure


class TestSteps:
    """One row a step."""

    def test_the_run_worked_by_hand(self, pressed: Any) -> None:
        f = frames.steps(pressed(enable_prefix_caching=False))
        assert list(f.index) == [0, 1, 2, 3, 4]
        assert (list(f.start), list(f.end)) == ([0, 1, 2, 3, 4], [1, 2, 3, 4, 5])
        assert list(f.tokens) == [30, 2, 1, 25, 1]
        assert list(f.emitted) == [2, 2, 1, 1, 1]
        assert (list(f.running), list(f.waiting)) == ([2, 2, 1, 1, 1], [0, 0, 1, 0, 0])
        assert list(f.admitted) == [2, 0, 0, 0, 0]
        assert list(f.preempted) == [0, 0, 1, 0, 0]
        assert list(f.resumed) == [0, 0, 0, 1, 0]
        assert list(f.finished) == [0, 0, 1, 0, 1]
        assert list(f.free) == [0, 0, 8, 1, 8]

    def test_usage_is_that_of_the_metrics(self, pressed: Any) -> None:
        log = pressed()
        assert list(frames.steps(log).kv_cache_usage) == measure(log).kv_cache_usage

    def test_who_is_refused_and_by_which_test(self, simulate: Any) -> None:
        f = frames.steps(simulate(("A", 20, 2, 0), ("B", 20, 2, 0)))
        assert (f.denied[0], f.test[0]) == ("B", "whole-sequence")
        assert pd.isna(f.denied[2])

    def test_milestones_are_not_enough(self, pressed: Any) -> None:
        with pytest.raises(InputError, match="milestones alone"):
            frames.steps(pressed(level=Level.METRICS))


class TestRequests:
    """One row a request."""

    def test_every_number_of_the_metrics_is_a_column(self, pressed: Any) -> None:
        log = pressed()
        f = frames.requests(log)
        properties = {"inference_time", "time_per_output_token"}
        assert {"id", *f.columns} == {*RequestMetrics.__slots__, *properties}
        for r in measure(log).requests:
            assert all(f.loc[r.id, name] == getattr(r, name) for name in f.columns)

    def test_what_has_not_happened_is_missing(self, simulate: Any) -> None:
        f = frames.requests(simulate(("A", 7, 9, 0), ("B", 30, 9, 0), max_steps=2))
        assert f.time_to_first_token["A"] == 1
        assert pd.isna(f.time_to_first_token["B"])
        assert pd.isna(f.time_per_output_token["A"])
        assert f.time_to_first_token.dtype == "Int64"

    def test_of_a_log_without_requests(self) -> None:
        assert frames.requests(Log()).empty


class TestEvents:
    """One row an event."""

    def test_all_in_order(self, pressed: Any) -> None:
        log = pressed()
        f = frames.events(log)
        assert list(f.event) == [type(entry.event).__name__.lower() for entry in log.entries]
        assert list(f.step) == [entry.step for entry in log.entries]

    def test_one_kind_with_its_denial(self, pressed: Any) -> None:
        f = frames.events(pressed(), Preempt)
        assert f.to_dict("records") == [
            {
                "step": 2, "phase": "schedule", "event": "preempt", "id": "B", "tokens_lost": 24,
                "refunded": 0, "free_before": 0, "free_after": 6, "preemptions": 1,
                "denial.id": "A", "denial.test": "block", "denial.need": 1, "denial.cached": 0,
                "denial.headroom": 0, "denial.free": 0, "denial.reserved": 0, "denial.have": 2,
            }
        ]  # fmt: skip

    def test_a_kind_that_did_not_happen(self, simulate: Any) -> None:
        log = simulate(("A", 4, 2, 0))
        assert frames.events(log, Preempt).empty
        assert len(frames.events(log, Admit)) == 1
