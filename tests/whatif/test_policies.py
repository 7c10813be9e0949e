"""Each what-if against the engine's own rule on one workload, by public case where there is one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from kvsched import cases, invariants
from kvsched.engine import run
from kvsched.log import Admit, Log, Preempt, Resume
from kvsched.request import Request
from kvsched.vllm import Config, Scheduler
from kvsched.whatif import AdmitAfterPreempting, BoundedBoost, PassingOver, TaxRunning
from kvsched.workload import Arrival


def log_of(kind: type[Scheduler], config: Config, arrivals: Iterable[Arrival]) -> Log:
    log = Log()
    assert run(kind(config, log), arrivals, log).verdict == "all_done"
    return log


def worst(log: Log) -> int:
    """Preemptions of the request that had most."""
    return max(Counter(entry.event.id for entry in log.of(Preempt)).values())


def step_of(log: Log, request_id: str) -> int:
    """The step in which a request is first admitted."""
    return next(entry.step for entry in log.of(Admit) if entry.event.id == request_id)


class TestCase3:
    """Why is a running request allowed into the head-room?"""

    @pytest.mark.parametrize("watermark", [0.02, 0.05, 0.1])
    @pytest.mark.parametrize("caching", [True, False])
    def test_case_3_taxing_running_requests_too_preempts_more(
        self, watermark: float, caching: bool
    ) -> None:
        case = cases.growing_into_the_watermark(watermark, caching=caching)
        (admissions_only, _), (both, _) = case.run(), case.run(TaxRunning)
        assert len(both.of(Preempt)) > len(admissions_only.of(Preempt)) > 0
        assert len(both.times) > len(admissions_only.times)


class TestCase9:
    """Small requests wait behind a large one that does not fit."""

    def test_case_9_the_small_ones_come_in_at_once(self) -> None:
        case = cases.stream_behind_a_large_one(10)
        (behind, _), (past, _) = case.run(), case.run(PassingOver)
        assert step_of(behind, "small 0") == step_of(behind, "large") == 50
        assert [step_of(past, f"small {i}") for i in range(10)] == [2 + 10 * i for i in range(10)]
        assert invariants.waiting_never_preempts(past) is None

    @pytest.mark.parametrize("small", [10, 20, 40])
    def test_case_9_and_the_large_one_waits_as_long_as_they_keep_coming(self, small: int) -> None:
        log, _ = cases.stream_behind_a_large_one(small).run(PassingOver)
        assert step_of(log, "large") == step_of(log, f"small {small - 1}") + 40


class TestCase13:
    """vllm issue 41951: a victim goes back by its old key, and goes out again."""

    @pytest.mark.parametrize("seed", range(4))
    def test_case_13_a_bounded_boost_lowers_the_worst_count(self, seed: int) -> None:
        case = cases.thrown_out_again("priority", seed)
        (plain, _), (boosted, _) = case.run(), case.run(BoundedBoost)
        assert worst(boosted) < worst(plain)

    def test_case_14_equals_do_not_take_turns_in_throwing_each_other_out(self) -> None:
        arrivals = [Arrival(0, Request(name, ((0, 34),), 35)) for name in "AB"]
        config = Config(10, policy="priority", enable_prefix_caching=False)
        log = log_of(BoundedBoost, config, arrivals)
        assert worst(log) == 1


def test_a_step_that_preempts_may_admit_somebody() -> None:
    """Its own victim, first in the queue, in a first chunk: the gate is off."""
    arrivals = [Arrival(0, Request(name, ((100 * i, 30),), 20)) for i, name in enumerate("ABC")]
    config = Config(
        8,
        max_num_seqs=4,
        max_num_batched_tokens=18,
        enable_prefix_caching=False,
        scheduler_reserve_full_isl=False,
    )
    ours, plain = (log_of(kind, config, arrivals) for kind in (AdmitAfterPreempting, Scheduler))
    assert invariants.waiting_never_preempts(ours) is None
    out, back = ours.of(Preempt)[0], ours.of(Resume)[0]
    assert (out.event.id, out.step) == (back.event.id, back.step)
    assert plain.of(Resume)[0].step > plain.of(Preempt)[0].step
