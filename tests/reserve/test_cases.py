"""Public cases about promises: the boundary, what safety costs, and what it buys."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from kvsched import cases
from kvsched.contract import Denial
from kvsched.request import Request
from kvsched.reserve import Config
from kvsched.views import reservations_cases as promised
from kvsched.views.view import Data
from kvsched.workload import Door

capped = cache(cases.capped_at_1024)


class TestCase29:
    """sglang PR 33814: a context of 4096 and 16 new tokens, at the very end of the context."""

    EXPECTED: Mapping[int, int | None] = {4078: 16, 4079: 15, 4080: 14, 4081: None}

    @pytest.mark.parametrize(("prompt", "output"), EXPECTED.items())
    def test_case_29_inputs_yield_16_15_14_and_a_refusal(
        self, prompt: int, output: int | None
    ) -> None:
        found = cases.end_of_context(prompt)
        if output is None:
            assert found == Denial("a", "policy", 4097, free=cases.CONTEXT)
        else:
            assert found == output

    def test_case_29_sixteen_would_have_fitted_by_what_enters_the_cache(self) -> None:
        """The last token never enters KV: 4081 + 16 - 1 tokens are exactly the context."""
        assert Config(block_size=1).blocks_for(4081 + 16 - 1) == 4096
        assert Door(4096, 1).check(Request("a", ((0, 4081),), 16)) is None
        assert Door(4096, 1).check(Request("a", ((0, 4082),), 16)) is not None


class TestCase34:
    """kekzl/imp issue 1635: eight requests with a cap of 1024 that answer in 300 tokens."""

    POOLS = (6571, 300, 150)

    def test_case_34_reserving_everything_loses_throughput_as_the_pool_shrinks(self) -> None:
        runs = [capped("whole", blocks) for blocks in self.POOLS]
        roomy, tight, tightest = (run.metrics.output_throughput for run in runs)
        assert roomy > 2 * tight > 4 * tightest
        assert [run.truncated for run in runs] == [0, 0, 0]

    def test_case_34_the_prompt_alone_truncates_at_150_blocks_only(self) -> None:
        assert [capped("truncate", blocks).truncated for blocks in self.POOLS] == [0, 0, 4]

    def test_case_34_preemption_neither_truncates_nor_loses_as_much(self) -> None:
        preempt, whole = capped("preempt", 150), capped("whole", 150)
        assert (preempt.truncated, preempt.preempted) == (0, 4)
        assert len(preempt.metrics.finished) == 8
        assert preempt.metrics.output_throughput > 2 * whole.metrics.output_throughput


@pytest.fixture(scope="module")
def rows() -> list[Data]:
    """Case 35 at four rates of arrival, the few first."""
    return promised.rates((150, 115, 100, 80))


class TestCase35:
    """TensorRT-LLM issue 16827: never evict, or use all memory; an H100 and 8B for H200 and 70B."""

    @pytest.mark.parametrize("name", promised.READ)
    def test_case_35_the_sign_of_all_four_under_pressure(self, rows: Any, name: str) -> None:
        wins = rows[2]["better"][name]
        assert wins == promised.better(name, *promised.REPORT_35[name])
        assert wins == ("preempt" if name == "ttft_p50" else "whole")

    def test_case_35_off_pressure_they_tie_within_two_per_cent(self) -> None:
        whole, preempt = (cases.evict_or_not(reserve, 1.0) for reserve in ("whole", "preempt"))
        assert preempt.preempted == 0
        assert whole.metrics.output_throughput == pytest.approx(
            preempt.metrics.output_throughput, rel=0.02
        )

    def test_case_35_the_four_signs_hold_at_some_rates_only(self, rows: Any) -> None:
        """What does not carry over.

        Ten requests a second have all four. More of them, and the first token is no sooner with
        preemption; fewer, where the pool is only just too small, and preemption wins throughput
        too; at the fewest the pool is large enough, and the two runs are one.
        """
        slow, fewer, _, more = rows
        assert [promised.signs_of_report(row) for row in rows] == [False, False, True, False]
        assert set(slow["better"].values()) == {"tie"}
        assert fewer["better"]["tokens_s"] == "preempt"
        assert more["better"]["ttft_p50"] == "whole"
        for row in (fewer, rows[2], more):
            assert row["better"]["tpot_p99"] == row["better"]["e2e_p99"] == "whole"

    def test_case_35_the_size_of_the_difference_does_not_carry_over(self, rows: Any) -> None:
        """The report loses two fifths of its throughput, the simulation less than a twentieth."""
        whole, preempt = promised.REPORT_35["tokens_s"]
        assert preempt / whole < 0.6
        ours = rows[2]["tokens_s"]
        assert 0.95 < ours[1] / ours[0] < 1
