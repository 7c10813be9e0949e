"""Case 24: answers that stop early and answers that run to the maximum want opposite settings.

``slow`` tests are the larger pool over three seeds; the others are the widget's pool.
"""

from __future__ import annotations

from functools import cache

import pytest

from kvsched.cases.feedback import (
    CONSERVATIVENESS,
    FULL,
    RUN_TO_MAX,
    SMALL,
    STOP_EARLY,
    Size,
    steady,
)
from kvsched.metrics import Metrics, measure
from kvsched.sglang import Scheduler
from kvsched.sglang.events import Retract
from kvsched.whatif import KeepRatio

LOWEST = CONSERVATIVENESS[0]


@cache
def served(
    value: float, share: int, size: Size, seed: int, make: type[Scheduler] = Scheduler
) -> tuple[Metrics, int]:
    """A run's metrics and its retractions."""
    log = steady(value, share, size, seed, make)
    return measure(log), len(log.of(Retract))


def best(share: int, size: Size, seed: int) -> float:
    """The conservativeness with the most output tokens a second."""
    return max(CONSERVATIVENESS, key=lambda v: served(v, share, size, seed)[0].output_throughput)


def check(size: Size, seed: int) -> None:
    """Early ends want the lowest value, full lengths a higher one."""
    assert best(STOP_EARLY, size, seed) == LOWEST
    assert best(RUN_TO_MAX, size, seed) > LOWEST


def test_case_24_small() -> None:
    """With this seed the best is calmer too; the number of retractions is no monotone law."""
    check(SMALL, 0)
    low, high = (served(v, RUN_TO_MAX, SMALL, 0) for v in (LOWEST, best(RUN_TO_MAX, SMALL, 0)))
    assert high[1] < low[1]
    assert high[0].tokens_recomputed < low[0].tokens_recomputed


def test_case_24_nobody_who_stops_early_is_thrown_out_and_caution_costs_a_quarter() -> None:
    """Without a retraction at any setting, the higher settings only keep slots empty."""
    runs = [served(value, STOP_EARLY, SMALL, 0) for value in (LOWEST, CONSERVATIVENESS[-1])]
    assert [retractions for _, retractions in runs] == [0, 0]
    bold, cautious = (m for m, _ in runs)
    assert cautious.output_throughput < 0.75 * bold.output_throughput
    assert cautious.time_to_first_token.percentile(50) > bold.time_to_first_token.percentile(50)


def check_the_correction_costs(size: Size, seed: int) -> None:
    """Where the feedback is cut, the boldest server throws out most and gives most tokens."""
    cut, retractions = served(LOWEST, RUN_TO_MAX, size, seed, KeepRatio)
    for value in CONSERVATIVENESS:
        m, fewer = served(value, RUN_TO_MAX, size, seed)
        assert fewer < retractions
        assert m.output_throughput < cut.output_throughput


def test_case_24_what_costs_is_the_correction_and_not_the_retraction() -> None:
    check_the_correction_costs(SMALL, 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
def test_case_24_with_more_seeds(seed: int) -> None:
    check(SMALL, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_case_24(seed: int) -> None:
    check(FULL, seed)
    check_the_correction_costs(FULL, seed)
