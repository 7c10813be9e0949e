"""Public cases of SGLang. What is not named is at SGLang 0.5.18's default."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kvsched.engine import Engine
from kvsched.log import Admit, Finish, Log
from kvsched.sglang import Config, Request, Scheduler
from kvsched.workload import Arrival, WorkloadEvent


class Case(NamedTuple):
    """A configuration and who arrives when."""

    config: Config
    arrivals: tuple[WorkloadEvent, ...]

    def engine(self, make: Callable[[Config, Log], Scheduler] = Scheduler) -> Engine:
        """The case with this scheduler, about to take its first step."""
        log = Log()
        return Engine(make(self.config, log), self.arrivals, log)


def ignoring_eos(clip: int, *, ignore_eos: bool = True) -> Case:
    """Case 22, sglang issue 7133: 1,024 requests of 2,048 + 8,192 tokens, radix cache off.

    ``clip`` is 512 in the report. Derived from it: the pool of 4,000,000 tokens, as 370 running
    requests used 0.19 of it, and that they ignore EOS. Chosen: 1,024 slots, all at once.
    """
    config = Config(
        4_000_000,
        max_running_requests=1024,
        disable_radix_cache=True,
        schedule_conservativeness=0.1,
        clip_max_new_tokens_estimation=clip,
    )
    return Case(config, _together(1024, 2048, 8192, ignore_eos))


def plateau(case: Case) -> int:
    """How many run when for the first time nobody is admitted."""
    engine = case.engine()
    while engine.step().admitted:
        pass
    return len(engine.log.of(Admit)) - len(engine.log.of(Finish))


def clip_of_outputs(clip: int) -> Case:
    """Case 23, sglang-omni pull request 2073: 64 requests of 128 + 4,096 tokens in 33,377."""
    config = Config(33_377, clip_max_new_tokens_estimation=clip)
    return Case(config, _together(64, 128, 4096))


def three_of_four(outputs: int = 1000) -> Case:
    """Case 32, sglang issue 1947: four requests of 1,000 tokens in a server of 8,000.

    Chosen: how many outputs each may give.
    """
    return Case(Config(8000), _together(4, 1000, outputs))


def _together(
    count: int, prompt: int, outputs: int, ignore_eos: bool = False
) -> tuple[Arrival, ...]:
    """Requests that arrive at once and share no token."""
    return tuple(
        Arrival(0, Request(f"r{i}", ((10**6 * i, prompt),), outputs, ignore_eos=ignore_eos))
        for i in range(count)
    )
