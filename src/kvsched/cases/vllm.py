"""Public cases of vLLM. Block size is 16 tokens; what is not named is at vLLM 0.28.0's default."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import NamedTuple

from kvsched.clock import Clock
from kvsched.engine import Outcome, run
from kvsched.log import Log
from kvsched.request import Request
from kvsched.vllm import Config, Scheduler
from kvsched.workload import Arrival, Exactly, Traffic, WorkloadEvent, poisson


class Case(NamedTuple):
    """A configuration and who arrives when."""

    config: Config
    arrivals: tuple[WorkloadEvent, ...]

    def run(
        self, make: Callable[[Config, Log], Scheduler] = Scheduler, clock: Clock | None = None
    ) -> tuple[Log, Outcome]:
        """The case with this scheduler: everything that happened, and how it ended."""
        log = Log()
        return log, run(make(self.config, log), self.arrivals, log, clock)


def growing_into_the_watermark(watermark: float, *, caching: bool) -> Case:
    """Case 3, vllm issue 255: 40 requests outgrow 200 blocks. All numbers chosen."""
    rng = Random(0)
    sizes = [(rng.randint(100, 400), rng.randint(100, 300)) for _ in range(40)]
    config = Config(
        201,
        max_num_batched_tokens=512,
        max_model_len=1024,
        watermark=watermark,
        enable_prefix_caching=caching,
    )
    return Case(config, _apart(3, sizes))


def fifth_prompt(*, gate: bool, caching: bool, at: int = 60) -> Case:
    """Cases 4 and 6, vllm pull requests 28018 and 37307: 100,000 tokens beside four that hold 90 %.

    Chosen: the pool, the budget, and when the fifth arrives: in ticks, at step 60.
    """
    config = Config(
        27_801,
        max_num_batched_tokens=8192,
        max_model_len=131_072,
        enable_prefix_caching=caching,
        scheduler_reserve_full_isl=gate,
    )
    fifth = Arrival(at, _request("E", 4, 100_000, 1000))
    four = (Arrival(0, _request(name, i, 100_000, 1000)) for i, name in enumerate("ABCD"))
    return Case(config, (*four, fifth))


def small_pool(num_gpu_blocks: int) -> Case:
    """Case 11, tt-xla pull request 5874: 32 requests of at most 128 tokens, halves chosen."""
    config = Config(num_gpu_blocks, max_num_seqs=32, max_model_len=128)
    return Case(config, _apart(0, [(64, 64)] * 32))


def free_slots() -> Case:
    """Case 12, GLM-5.3-Flash-EXL3 issue 43: four slots, a pool of 1,526,178 tokens.

    Chosen: three requests of 600,000 tokens.
    """
    config = Config(1_526_178 // 16 + 1, max_num_seqs=4, max_model_len=1_000_000)
    return Case(config, _apart(0, [(600_000, 100)] * 3))


def stream_behind_a_large_one(small: int) -> Case:
    """Case 9, vllm issue 31731: a large request, then ``small`` small ones. All numbers chosen."""
    config = Config(201, max_num_batched_tokens=4096)
    here = [Arrival(0, _request(name, i, 100, 50)) for i, name in enumerate(("here 0", "here 1"))]
    large = Arrival(1, _request("large", 2, 3000, 20))
    stream = (Arrival(2 + 10 * i, _request(f"small {i}", 3 + i, 100, 50)) for i in range(small))
    return Case(config, (*here, large, *stream))


def under_pressure(*, caching: bool) -> Case:
    """Not a report: 60 requests of 6,000 + 1,000 tokens at two a second, gate off, time in ns.

    Their prompts need twice the pool. With the gate off and the cache on or off they are thrown
    out often enough to compare the ways back.
    """
    rng = Random(0)
    config = Config(
        11_698,
        max_num_seqs=128,
        max_num_batched_tokens=2048,
        enable_prefix_caching=caching,
        scheduler_reserve_full_isl=False,
    )
    script = Traffic(Exactly(6000), Exactly(1000)).draw(60, rng)
    return Case(config, tuple(script.at(poisson(2.0, 60, rng))))


def _apart(steps: int, sizes: Iterable[tuple[int, int]]) -> tuple[Arrival, ...]:
    """Requests of (prompt, output) tokens that arrive so many steps after each other."""
    return tuple(
        Arrival(steps * i, _request(f"r{i:02}", i, prompt, output))
        for i, (prompt, output) in enumerate(sizes)
    )


def _request(name: str, place: int, prompt: int, output: int) -> Request:
    """A request whose content is its place's alone."""
    return Request(name, ((2_000_000 * place, prompt),), output)
