"""Cases about SGLang's ``new_token_ratio``: 24, which value is best, and 30, a pass in flight."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import NamedTuple

from kvsched import profiles
from kvsched.clock import CostClock
from kvsched.engine import ScriptedExecutor, run
from kvsched.log import Log
from kvsched.sglang import Config, Request, Scheduler
from kvsched.workload import Around, Arrival, ClosedLoop, Limit, Script, Traffic


class Size(NamedTuple):
    """How large case 24 is: mean prompt and ``max_new_tokens``, pool in tokens, clients, requests.

    Clients send their next request when the last is answered.
    """

    prompt: int
    max_new: int
    pool: int
    clients: int
    requests: int

    def script(self, share: int, seed: int) -> Script:
        """Requests that end after ``share`` % of their ``max_new_tokens``, which vary by 30 %."""
        outputs = Around(self.max_new * share // 100, 0.3)
        limit = Limit(factor=Fraction(100, share))
        traffic = Traffic(Around(self.prompt, 0.2), outputs, limit)
        return traffic.draw(self.requests, Random(seed))


SMALL = Size(100, 250, 9_000, 50, 150)
FULL = Size(500, 500, 40_000, 80, 240)

PROFILE = "h100-sxm"
STOP_EARLY, RUN_TO_MAX = 20, 100
"""Where outputs end, in percent of ``max_new_tokens``."""
CONSERVATIVENESS = (0.1, 0.3, 0.7, 1.0, 2.0)


def steady(
    conservativeness: float,
    share: int,
    size: Size = SMALL,
    seed: int = 0,
    make: type[Scheduler] = Scheduler,
) -> Log:
    """Case 24, SGLang's hyperparameter tuning guide: clients keep the queue filled.

    All numbers chosen; Llama-3-8B on an H100, by the published kernel times.
    """
    log = Log()
    script = size.script(share, seed)
    config = Config(
        size.pool, schedule_conservativeness=conservativeness, chunked_prefill_size=8192
    )
    source = ClosedLoop(script.requests, size.clients, log)
    clock = CostClock(profiles.load(PROFILE))
    run(make(config, log), source, log, clock, ScriptedExecutor(outputs=script.outputs))
    return log


def retracted_in_flight() -> Log:
    """Case 30, sglang issue 14972: a retraction in the overlap loop, time in ticks.

    Chosen: three requests of 8 + 20 tokens in a pool of 40, conservativeness 0.
    """
    log = Log()
    config = Config(40, max_running_requests=8, schedule_conservativeness=0.0)
    asked = (Arrival(0, Request(name, ((10**6 * i, 8),), 20)) for i, name in enumerate("ABC"))
    run(Scheduler(config, log), asked, log, lag=1)
    return log
