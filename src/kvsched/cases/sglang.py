"""Public cases of SGLang. What is not named is at SGLang 0.5.18's default."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from kvsched.clock import Clock
from kvsched.engine import Engine, Outcome, ScriptedExecutor, drive
from kvsched.log import Admit, Finish, Log
from kvsched.request import EOS, Stop
from kvsched.sglang import Config, Request, Scheduler
from kvsched.workload import Arrival

Make = Callable[[Config, Log], Scheduler]


class Case(NamedTuple):
    """A configuration and who arrives when.

    ``answer``: tokens after which each of them ends by itself; None: with all it may give.
    """

    config: Config
    arrivals: tuple[Arrival, ...]
    answer: int | None = None

    def engine(self, make: Make = Scheduler, clock: Clock | None = None) -> Engine:
        """The case with this scheduler, before its first step."""
        log, ids = Log(), [arrival.request.id for arrival in self.arrivals]
        outputs = dict.fromkeys(ids, self.answer) if self.answer is not None else None
        executor = ScriptedExecutor(outputs=outputs)
        return Engine(make(self.config, log), self.arrivals, log, clock, executor)

    def turned(self, **knobs: Any) -> Case:
        """The case with these fields of the configuration changed."""
        return self._replace(config=replace(self.config, **knobs))

    def run(self, make: Make = Scheduler, clock: Clock | None = None) -> tuple[Log, Outcome]:
        """The case to its end: everything that happened, and how it ended."""
        engine = self.engine(make, clock)
        return engine.log, drive(engine)


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


def clip_of_outputs(clip: int, answer: int = 4096) -> Case:
    """Case 23, sglang-omni pull request 2073: 64 requests of 128 + 4,096 tokens in 33,377.

    Chosen: how many of the 4,096 outputs each gives before it ends by itself.
    """
    config = Config(33_377, clip_max_new_tokens_estimation=clip)
    return Case(config, _together(64, 128, 4096), answer)


def three_of_four(outputs: int = 1000) -> Case:
    """Case 32, sglang issue 1947: four requests of 1,000 tokens in a server of 8,000.

    Chosen: how many outputs each may give.
    """
    return Case(Config(8000), _together(4, 1000, outputs))


def _together(
    count: int, prompt: int, outputs: int, ignore_eos: bool = False
) -> tuple[Arrival, ...]:
    """Requests that arrive at once and share no token."""
    stop = Stop(eos_token_id=EOS)
    return tuple(
        Arrival(
            0,
            Request(f"r{i}", ((10**6 * i, prompt),), outputs, stop=stop, ignore_eos=ignore_eos),
        )
        for i in range(count)
    )
