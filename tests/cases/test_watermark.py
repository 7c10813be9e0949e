"""Cases 1 and 3: what a watermark does to a pool that is nearly full, and for whom it is kept.

``slow`` tests are the case at its published size, over five seeds; the others are the same
comparisons on the small pool of the watermark's widget, a sixteenth of the work.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import fsum
from typing import Any

import pytest

from kvsched.metrics import Metrics, measure
from kvsched.views import watermark
from kvsched.views.watermark_report import REPORT, WATERMARKS
from kvsched.vllm import Scheduler
from kvsched.whatif import TaxRunning

SEEDS = range(5)
PUBLISHED = dict(zip(WATERMARKS, (row["preemptions"] for row in REPORT), strict=True))

Runs = dict[tuple[float, int], Metrics]


def falling(counts: list[int]) -> bool:
    return counts == sorted(counts, reverse=True)


def ttft_p50(m: Metrics) -> float:
    return m.time_to_first_token.percentile(50)


def itl_p99(m: Metrics) -> float:
    return m.inter_token_latency.percentile(99)


@pytest.mark.slow
class TestCase1:
    """vllm PR 44594, with the lengths ``vllm bench serve --random-range-ratio 0.2`` draws.

    The report says 0.2; its benchmark draws uniformly from 0.8 to 1.2 times the mean. [chosen]: a
    budget of 8,192 tokens, an H100.
    """

    @pytest.mark.parametrize("seed", SEEDS)
    def test_case_1_preemptions_fall_and_level_off(self, sweeps: Runs, seed: int) -> None:
        counts = [sweeps[share, seed].num_preemptions for share in WATERMARKS]
        assert falling(counts)
        assert counts[0] > 2 * counts[1]
        assert counts[-1] > 0

    @pytest.mark.parametrize("seed", SEEDS)
    @pytest.mark.parametrize("share", [0.0, 0.02, 0.1])
    def test_case_1_preemptions_are_within_35_percent_of_the_report(
        self, sweeps: Runs, share: float, seed: int
    ) -> None:
        ours = sweeps[share, seed].num_preemptions
        assert abs(ours / PUBLISHED[share] - 1) <= 0.35

    def test_case_1_throughput_is_best_at_02_or_05(self, sweeps: Runs) -> None:
        """By the mean of the seeds."""
        mean = {
            share: fsum(sweeps[share, seed].output_throughput for seed in SEEDS) / len(SEEDS)
            for share in WATERMARKS
        }
        assert max(mean, key=mean.__getitem__) in (0.02, 0.05)
        assert max(mean.values()) > 1.03 * mean[0.0]

    @pytest.mark.parametrize("seed", SEEDS)
    def test_case_1_no_seed_is_better_off_by_a_percent_elsewhere(
        self, sweeps: Runs, seed: int
    ) -> None:
        rate = {share: sweeps[share, seed].output_throughput for share in WATERMARKS}
        assert max(rate[0.02], rate[0.05]) > 0.99 * max(rate.values())

    @pytest.mark.xfail(
        reason="in two of five seeds 0.10 is best, by 0.05 % and 0.7 %: the run's tail, in which "
        "the pool is no longer full, weighs more than the watermark"
    )
    def test_case_1_throughput_is_best_at_02_or_05_with_every_seed(self, sweeps: Runs) -> None:
        for seed in SEEDS:
            best = max(WATERMARKS, key=lambda share: sweeps[share, seed].output_throughput)
            assert best in (0.02, 0.05)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_case_1_the_first_token_comes_later_the_others_more_evenly(
        self, sweeps: Runs, seed: int
    ) -> None:
        """TTFT p99 is not compared: it rises in the report and falls here."""
        assert ttft_p50(sweeps[0.1, seed]) > ttft_p50(sweeps[0.0, seed])
        assert itl_p99(sweeps[0.02, seed]) < 0.6 * itl_p99(sweeps[0.0, seed])


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_case_3_taxing_running_requests_preempts_more(
    sweeps: Runs, taxed_sweeps: Runs, seed: int
) -> None:
    """The question of vllm issue 255: why do running requests not keep the watermark too?"""
    asked, all_taxed = sweeps[0.02, seed], taxed_sweeps[0.02, seed]
    assert all_taxed.num_preemptions > asked.num_preemptions
    assert all_taxed.output_throughput < asked.output_throughput


@pytest.fixture(scope="module")
def small() -> Callable[..., Metrics]:
    """A run of the widget's pool: 1,170 blocks, 32 clients."""

    @cache
    def made(share: float, scheduler: type[Scheduler] = Scheduler) -> Metrics:
        return measure(watermark.simulate(share, scheduler=scheduler))

    return made


def test_case_1_small(small: Any) -> None:
    """The same directions."""
    off, *_ = runs = [small(share) for share in WATERMARKS]
    assert falling([m.num_preemptions for m in runs])
    best = max(range(len(runs)), key=lambda k: runs[k].output_throughput)
    assert WATERMARKS[best] in (0.02, 0.05)
    assert ttft_p50(runs[3]) > ttft_p50(off)
    assert itl_p99(runs[3]) < 0.6 * itl_p99(off)


@pytest.mark.parametrize("share", [0.02, 0.1])
def test_case_3_small(small: Any, share: float) -> None:
    assert small(share, TaxRunning).num_preemptions > small(share).num_preemptions
