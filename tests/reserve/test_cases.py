"""Public cases about promises: the boundary, what safety costs, and what it buys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import pytest

from kvsched import profiles, sglang
from kvsched.clock import CostClock
from kvsched.contract import Denial
from kvsched.engine import Engine
from kvsched.log import Log, Refuse
from kvsched.metrics import Metrics, measure
from kvsched.replay import replay_reserve
from kvsched.request import EOS, Request, Stop
from kvsched.reserve import Config
from kvsched.reserve.as_log import as_log
from kvsched.reserve.records import Preempted, Record, Truncated
from kvsched.workload import Arrival, Door
from kvsched.workload.trace import Line

CLOCK = CostClock(profiles.load("h100-sxm"))
MS = 10**6


@dataclass(frozen=True, slots=True)
class Played:
    """A run: its metrics, and how many were cut short or thrown out."""

    metrics: Metrics
    truncated: int
    preempted: int

    @property
    def tokens_per_second(self) -> float:
        return self.metrics.output_throughput


@cache
def played(
    reserve: str, blocks: int, count: int, prompt: int, output: int, cap: int, gap: int = 0
) -> Played:
    """``count`` equal requests, ``gap`` ns apart, on the published H100 profile."""
    stop = Stop(eos_token_id=EOS) if output < cap else None
    lines = []
    for i in range(count):
        request = Request(f"r{i}", ((i << 32, prompt),), cap, gap * i, stop=stop)
        lines.append(Line(Arrival(gap * i, request), output))
    config = Config(blocks=blocks, reserve=reserve)
    kept: list[Record] = []
    replay_reserve(iter(lines), config, CLOCK, kept.append)
    kinds = [type(record) for record in kept]
    metrics = measure(as_log(kept, config))
    return Played(metrics, kinds.count(Truncated), kinds.count(Preempted))


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

    @staticmethod
    def run(reserve: str, blocks: int) -> Played:
        return played(reserve, blocks, 8, 200, 300, 1024)

    def test_case_34_reserving_everything_loses_throughput_as_the_pool_shrinks(self) -> None:
        whole = [self.run("whole", blocks).tokens_per_second for blocks in (6571, 300, 150)]
        assert whole[0] > 2 * whole[1] > 4 * whole[2]
        assert all(self.run("whole", blocks).truncated == 0 for blocks in (6571, 300, 150))

    def test_case_34_the_prompt_alone_truncates_at_150_blocks_only(self) -> None:
        assert [self.run("truncate", b).truncated for b in (6571, 300, 150)] == [0, 0, 4]

    def test_case_34_preemption_neither_truncates_nor_loses_as_much(self) -> None:
        preempt, whole = self.run("preempt", 150), self.run("whole", 150)
        assert (preempt.truncated, preempt.preempted) == (0, 4)
        assert len(preempt.metrics.finished) == 8
        assert preempt.tokens_per_second > 2 * whole.tokens_per_second


class TestCase35:
    """TensorRT-LLM issue 16827: never evict, or use all memory; 128 requests of 512 tokens out.

    Chosen: prompts of 2000 tokens, one each 100 ms, a pool for 40 % of the requests; an H100 and
    Llama 3.1 8B for the report's H200 and 70B.
    """

    WHOLE_REQUEST = -(-(2000 + 512 - 1) // 16)
    PRESSED = 128 * WHOLE_REQUEST * 2 // 5
    ROOMY = 128 * WHOLE_REQUEST

    def run(self, reserve: str, blocks: int, gap: int = 100 * MS) -> Played:
        return played(reserve, blocks, 128, 2000, 512, 512, gap)

    @pytest.mark.parametrize(
        ("read", "no_evict_wins"),
        [
            (lambda m: -m.output_throughput, True),
            (lambda m: m.time_per_output_token.percentile(99), True),
            (lambda m: m.e2e_latency.percentile(99), True),
            (lambda m: m.time_to_first_token.percentile(50), False),
        ],
        ids=["throughput", "tpot_p99", "e2e_p99", "ttft_p50"],
    )
    def test_case_35_the_sign_of_all_four_under_pressure(
        self, read: Callable[[Metrics], float], no_evict_wins: bool
    ) -> None:
        whole = read(self.run("whole", self.PRESSED).metrics)
        preempt = read(self.run("preempt", self.PRESSED).metrics)
        assert (whole < preempt) == no_evict_wins
        assert whole != preempt

    def test_case_35_off_pressure_they_tie_within_two_per_cent(self) -> None:
        whole, preempt = (self.run(r, self.ROOMY) for r in ("whole", "preempt"))
        assert preempt.preempted == 0
        assert whole.tokens_per_second == pytest.approx(preempt.tokens_per_second, rel=0.02)

    def test_case_35_the_four_signs_hold_near_one_rate_only(self) -> None:
        """What does not carry over.

        80 ms apart the first token is no sooner with preemption; 120 ms apart, where the pool is
        only just too small, preemption wins throughput too.
        """
        dense = [self.run(r, self.PRESSED, 80 * MS).metrics for r in ("whole", "preempt")]
        whole, preempt = (m.time_to_first_token.percentile(50) for m in dense)
        assert whole < preempt
        sparse = [self.run(r, self.PRESSED, 120 * MS) for r in ("whole", "preempt")]
        whole, preempt = (run.tokens_per_second for run in sparse)
        assert whole < preempt
