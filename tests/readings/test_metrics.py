"""Every number of a run worked by hand, and what must hold between the numbers of any run."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from kvsched import profiles
from kvsched.clock import CostClock
from kvsched.log import Level, Log
from kvsched.metrics import VLLM, Metrics, RequestMetrics, Slo, measure
from kvsched.workload import SECOND


def ticks(log: Log) -> Metrics:
    return measure(log, second=1)


def by_id(m: Metrics) -> dict[str, RequestMetrics]:
    return {r.id: r for r in m.requests}


class TestByHand:
    """The run of ``conftest.pressed``."""

    def test_times_count_from_the_arrival_to_the_end_of_a_step(self, pressed: Any) -> None:
        a, b = ticks(pressed()).requests
        assert (a.time_to_first_token, a.e2e_latency) == (1, 3)
        assert (b.time_to_first_token, b.e2e_latency) == (1, 5)
        assert (b.queued_time, b.prefill_time, b.decode_time, b.inference_time) == (0, 1, 4, 5)
        assert (a.time_per_output_token, b.time_per_output_token) == (1.0, 4 / 3)

    def test_the_gap_of_a_preemption_is_between_two_tokens(self, pressed: Any) -> None:
        """A: 1, 1; B: 1, 2 across its absence, 1."""
        gaps = ticks(pressed()).inter_token_latency
        assert (gaps.count, gaps.mean, gaps.max) == (5, 6 / 5, 2)
        assert gaps.percentile(80) == 1

    def test_tokens(self, pressed: Any) -> None:
        m = ticks(pressed(enable_prefix_caching=False))
        assert (m.prompt_tokens, m.generation_tokens) == (30, 7)
        assert (m.tokens_prefilled, m.tokens_recomputed) == (7 + 23 + 25, 24)
        assert (m.own_hits, m.shared_hits) == (0, 0)

    def test_with_the_cache_on_the_loss_turns_into_own_hits(self, pressed: Any) -> None:
        m = ticks(pressed())
        assert (m.tokens_prefilled, m.tokens_recomputed) == (7 + 23 + 5, 4)
        assert (m.own_hits, m.shared_hits) == (20, 0)
        assert (m.prefix_cache_queries, m.prefix_cache_hits) == (30, 0)

    def test_rates(self, pressed: Any) -> None:
        m = ticks(pressed())
        assert (m.duration, m.num_preemptions) == (5, 1)
        assert (m.output_throughput, m.request_throughput) == (7 / 5, 2 / 5)
        assert m.preemptions_per_request.mean == 0.5

    def test_usage_after_each_update_and_over_time(self, pressed: Any) -> None:
        m = ticks(pressed())
        assert m.kv_cache_usage == [1.0, 1.0, 0.0, 7 / 8, 0.0]
        assert m.kv_cache_usage_mean == (1 + 1 + 0 + 7 / 8) / 4

    def test_waiting_is_not_prefill(self, simulate: Any) -> None:
        m = ticks(simulate(("A", 4, 4, 0), ("B", 4, 2, 1), max_num_seqs=1))
        b = by_id(m)["B"]
        assert (b.queued_time, b.prefill_time, b.time_to_first_token) == (3, 1, 4)

    def test_the_duration_starts_with_the_first_arrival(self, simulate: Any) -> None:
        m = ticks(simulate(("A", 4, 2, 10)))
        assert (m.duration, m.output_throughput) == (2, 1.0)


class TestGoodput:
    """Finished requests a second that kept an objective."""

    @pytest.mark.parametrize(
        ("slo", "kept"),
        [
            (Slo(), 2),
            (Slo(ttft=1), 2),
            (Slo(ttft=0.5), 0),
            (Slo(tpot=1), 1),
            (Slo(e2el=5), 2),
            (Slo(e2el=4.9), 1),
            (Slo(ttft=1, tpot=1, e2el=2), 0),
        ],
    )
    def test_counts_requests_that_kept_every_limit(self, pressed: Any, slo: Slo, kept: int) -> None:
        assert ticks(pressed()).request_goodput(slo) == kept / 5


class TestUnfinished:
    """Runs that were cut off."""

    def test_what_has_not_happened_is_none_and_does_not_count(self, simulate: Any) -> None:
        m = ticks(simulate(("A", 7, 9, 0), ("B", 30, 9, 0), max_steps=2))
        a, b = m.requests
        assert (a.num_output_tokens, a.e2e_latency, a.decode_time, a.inference_time) == (
            2, None, None, None,
        )  # fmt: skip
        assert (b.queued_time, b.time_to_first_token) == (None, None)
        assert (m.time_to_first_token.count, m.e2e_latency.count, m.finished) == (1, 0, [])
        assert (m.prompt_tokens, m.request_throughput) == (7, 0.0)

    def test_an_empty_run(self) -> None:
        m = measure(Log())
        assert (m.duration, m.output_throughput, m.kv_cache_usage_mean) == (0, 0.0, None)


@pytest.mark.parametrize("cache", [True, False])
def test_milestones_are_enough(pressed: Any, cache: bool) -> None:
    clock = CostClock(profiles.load("h100-sxm"))
    every, some = (
        measure(pressed(level=level, clock=clock, enable_prefix_caching=cache))
        for level in (Level.EVENTS, Level.METRICS)
    )
    for field in fields(Metrics):
        if field.name != "inter_token_latency":
            assert getattr(some, field.name) == getattr(every, field.name)
    assert some.inter_token_latency.mean == every.inter_token_latency.mean


def test_seconds_are_the_clocks(pressed: Any) -> None:
    m = measure(pressed(clock=CostClock(profiles.load("h100-sxm"))))
    assert m.second == SECOND
    assert m.output_throughput == pytest.approx(7 * 1e9 / m.duration)


def test_every_name_of_vllm_belongs_to_a_number_here() -> None:
    names = {*dir(Metrics), *dir(RequestMetrics), *Metrics.__slots__, *RequestMetrics.__slots__}
    assert set(VLLM) <= names
