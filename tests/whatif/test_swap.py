"""Swap, which no vLLM V1 does: what is copied, what that costs, and what it saves."""

from __future__ import annotations

from functools import partial

import pytest

from kvsched import cases, profiles
from kvsched.clock import CostClock
from kvsched.contract import Match, Plan
from kvsched.costs import Smooth
from kvsched.costs.units import GB, KiB, MiB
from kvsched.engine import run
from kvsched.errors import InputError
from kvsched.log import Load, Log, Preempt, Resume
from kvsched.metrics import Metrics, measure
from kvsched.request import Request
from kvsched.vllm import Config
from kvsched.whatif import Host, Swap, SwapClock
from kvsched.workload import Arrival

H100 = profiles.load("h100-sxm")
OUT, BACK = H100.copy("dma", "d2h").link, H100.copy("dma", "h2d").link


def two(host: Host, caching: bool = False) -> Log:
    """Case 42's prompts in ten blocks: B is thrown out at step 31 with 64 tokens, A goes on."""
    log = Log()
    arrivals = [
        Arrival(0, Request(name, ((100 * i, 34),), 85 - 50 * i)) for i, name in enumerate("AB")
    ]
    config = Config(10, enable_prefix_caching=caching)
    assert run(Swap(config, log, host), arrivals, log).verdict == "all_done"
    return log


class TestWhatIsCopied:
    """Out when thrown out, back when admitted again."""

    def test_a_victim_comes_back_with_all_it_had(self) -> None:
        log = two(Host(64))
        (out,), (back,) = log.of(Preempt), log.of(Resume)
        assert (out.event.id, out.event.tokens_lost) == ("B", 64)
        assert (back.event.computed, back.event.tokens) == (64, 1)
        assert measure(log).tokens_recomputed == 0

    def test_what_the_cache_still_has_is_not_copied_back(self) -> None:
        log = two(Host(64), caching=True)
        (back,), (load,) = log.of(Resume), log.of(Load)
        assert 0 < back.event.own_hits < 64
        assert load.event.tokens == 64 - back.event.own_hits

    def test_a_host_that_is_too_small_leaves_it_to_recomputation(self) -> None:
        log = two(Host(63))
        (back,) = log.of(Resume)
        assert (back.event.computed, back.event.tokens) == (0, 65)

    def test_the_host_is_empty_in_the_end(self) -> None:
        host = Host(64)
        two(host)
        assert host.copies == {}

    def test_an_aborted_victim_leaves_the_host(self) -> None:
        host = Host(64)
        host.store("B", 64)
        assert host.match("B", 65, 16) == Match(48, asynchronous=False)
        assert host.keeps_blocks("B", 0) is False
        assert host.match("B", 65, 16) is None


class Fixed(CostClock):
    """Every pass takes 5 ms."""

    def duration(self, plan: Plan) -> int:
        return 5_000_000


class TestWhatItCosts:
    """1,024 tokens are 128 MiB: 64 fragments of 2 MiB, at 1 ms (out) and 2 ms (back) for 64 MiB."""

    def clock(self, overlap: str, tokens_out: int = 1024, tokens_back: int = 1024) -> SwapClock:
        host = Host(10_000)
        host.store("B", tokens_back)
        host.moved()
        host.store("A", tokens_out)
        host.load("B", tokens_back, asynchronous=False, blocks=[])
        rate = 128 * MiB / 1e-3
        return SwapClock(Fixed(H100), host, Smooth(rate), Smooth(rate / 2), 2 * MiB, overlap)

    @pytest.mark.parametrize(("overlap", "ms"), [("none", 8), ("out", 7), ("both", 5)])
    def test_what_is_hidden_is_not_waited_for(self, overlap: str, ms: int) -> None:
        assert self.clock(overlap).duration(Plan()) == ms * 1_000_000

    def test_a_copy_longer_than_the_pass_shows(self) -> None:
        clock = self.clock("out", tokens_out=8192)
        assert clock.duration(Plan()) == (8 + 2) * 1_000_000

    def test_a_copy_is_paid_for_once(self) -> None:
        clock = self.clock("none")
        clock.duration(Plan())
        assert clock.duration(Plan()) == 5_000_000

    def test_fragments_add_their_latency(self) -> None:
        host = Host(10_000)
        host.store("A", 1024)
        link = Smooth(51 * GB, 4e-6)
        small = SwapClock(Fixed(H100), host, link, link, 32 * KiB)
        assert small.duration(Plan()) - 5_000_000 == round(4096 * (4e-6 + 32 * KiB / 51e9) * 1e9)

    def test_an_unknown_overlap_is_named(self) -> None:
        with pytest.raises(InputError, match="unknown overlap 'in'; use none, out, both"):
            self.clock("in")


def under_load(fragment: int | None, caching: bool) -> Metrics:
    """Recompute, or swap in fragments of this size."""
    case, clock = cases.under_pressure(caching=caching), CostClock(H100)
    if fragment is None:
        return measure(case.run(clock=clock)[0])
    host = Host(1_000_000)
    timed = SwapClock(clock, host, OUT, BACK, fragment)
    return measure(case.run(partial(Swap, host=host), timed)[0])


class TestAgainstRecomputation:
    """One workload, the copies at the rates published for an H100."""

    def test_with_the_prefix_cache_off_any_swap_is_better(self) -> None:
        recompute = under_load(None, caching=False)
        for fragment in (32 * KiB, 2 * MiB):
            swap = under_load(fragment, caching=False)
            assert swap.output_throughput > 1.1 * recompute.output_throughput
            assert swap.tokens_recomputed == 0 < recompute.tokens_recomputed

    def test_with_the_cache_on_swap_in_small_fragments_loses(self) -> None:
        recompute, small, large = (
            under_load(fragment, caching=True).time_to_first_token.percentile(99)
            for fragment in (None, 32 * KiB, 2 * MiB)
        )
        assert small > recompute
        assert large < small
