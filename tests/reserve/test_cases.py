"""Public cases about promises: the boundary, what safety costs, and what it buys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import pytest

from kvsched import cases, sglang
from kvsched.contract import Denial
from kvsched.engine import Engine
from kvsched.log import Log, Refuse
from kvsched.metrics import Metrics
from kvsched.request import Request
from kvsched.reserve import Config
from kvsched.workload import Arrival, Door

capped = cache(cases.capped_at_1024)
evict_or_not = cache(cases.evict_or_not)


class TestCase29:
    """sglang PR 33814: a context of 4096 and 16 new tokens, at the very end of the context."""

    EXPECTED: Mapping[int, int | None] = {4078: 16, 4079: 15, 4080: 14, 4081: None}

    @pytest.mark.parametrize(("prompt", "output"), EXPECTED.items())
    def test_case_29_inputs_yield_16_15_14_and_a_refusal(
        self, prompt: int, output: int | None
    ) -> None:
        log = Log()
        config = sglang.Config(16_384, context_length=4096, chunked_prefill_size=8192)
        door = Door(16_384, 1, context_length=4096)
        events = [Arrival(0, Request("a", ((0, prompt),), 16))]
        engine = Engine(sglang.Scheduler(config, log), events, log, door=door)
        while not engine.done:
            engine.step()
        refused = [entry.event.denial for entry in log.of(Refuse)]
        if output is None:
            assert refused == [Denial("a", "policy", 4097, free=4096)]
        else:
            assert refused == []
            assert engine.sampled == output

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


READ: dict[str, Callable[[Metrics], float]] = {
    "throughput": lambda m: -m.output_throughput,
    "tpot_p99": lambda m: m.time_per_output_token.percentile(99),
    "e2e_p99": lambda m: m.e2e_latency.percentile(99),
    "ttft_p50": lambda m: m.time_to_first_token.percentile(50),
}
"""What is better the smaller it is."""


class TestCase35:
    """TensorRT-LLM issue 16827: never evict, or use all memory; an H100 and 8B for H200 and 70B."""

    @pytest.mark.parametrize("name", READ)
    def test_case_35_the_sign_of_all_four_under_pressure(self, name: str) -> None:
        whole, preempt = (READ[name](evict_or_not(r).metrics) for r in ("whole", "preempt"))
        assert (preempt if name == "ttft_p50" else whole) < max(whole, preempt)

    def test_case_35_off_pressure_they_tie_within_two_per_cent(self) -> None:
        whole, preempt = (evict_or_not(r, 1.0) for r in ("whole", "preempt"))
        assert preempt.preempted == 0
        assert whole.metrics.output_throughput == pytest.approx(
            preempt.metrics.output_throughput, rel=0.02
        )

    def test_case_35_the_four_signs_hold_near_one_rate_only(self) -> None:
        """What does not carry over.

        80 ms apart the first token is no sooner with preemption; 120 ms apart, where the pool is
        only just too small, preemption wins throughput too.
        """
        for apart, name in ((80, "ttft_p50"), (120, "throughput")):
            runs = [evict_or_not(r, apart_ms=apart).metrics for r in ("whole", "preempt")]
            whole, preempt = map(READ[name], runs)
            assert (whole < preempt) == (name == "ttft_p50")
