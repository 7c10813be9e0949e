"""Public cases about requests that wait while others go first, and one that is thrown out often."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from random import Random
from typing import NamedTuple

from kvsched import sglang, vllm
from kvsched.cases.vllm import Case
from kvsched.contract import Plan
from kvsched.engine import run
from kvsched.log import Log
from kvsched.metrics import measure
from kvsched.request import Request
from kvsched.workload import Arrival, ClosedLoop

MakeSglang = Callable[[sglang.Config, Log], sglang.Scheduler]

# -- case 13 ------------------------------------------------------------------------------------


def thrown_out_again(policy: str, seed: int = 0) -> Case:
    """Case 13, vllm issue 41951: 40 requests of four priorities outgrow 59 blocks of 4.

    All numbers chosen.
    """
    rng = Random(seed)
    arrivals = []
    for i in range(40):
        prompt, output = rng.randint(20, 60), rng.randint(20, 60)
        priority = rng.randint(0, 3)
        asked = Request(f"r{i:02}", ((10_000 * i, prompt),), output, 2 * i, priority)
        arrivals.append(Arrival(2 * i, asked))
    return Case(vllm.Config(60, 4, 16, 128, 256, policy), tuple(arrivals))


# -- case 17 ------------------------------------------------------------------------------------

COLD, BEFORE = "cold", 24
"""The request without a cached prefix, and how many of the others are sent before it."""
PROMPT, SHARED = 115_000, 110_400
"""Prompt tokens of each request, and how many of a hot one's are shared: 96 %."""


def cold_request(stream: int, policy: str, make: MakeSglang = sglang.Scheduler) -> Log:
    """Case 17, sglang issue 31954: one cold request among hot ones, ``stream`` of them after it.

    From the thread: the lengths, GLM-5.2's. Chosen: sixteen clients who send again when they are
    answered, eight slots, outputs of 50 tokens, a pool of a million in pages of 64, chunks of
    8,192. A step is a tick.
    """
    hot = [
        Request(f"hot {i}", ((0, SHARED), (10**7 + 10**6 * i, PROMPT - SHARED)), 50)
        for i in range(BEFORE + stream)
    ]
    cold = Request(COLD, ((5 * 10**6, PROMPT),), 50)
    config = sglang.Config(
        1_000_000,
        page_size=64,
        max_running_requests=8,
        chunked_prefill_size=8192,
        schedule_policy=policy,
    )
    log = Log()
    clients = ClosedLoop([*hot[:BEFORE], cold, *hot[BEFORE:]], 16, log)
    run(make(config, log), clients, log)
    return log


def cold_wait(log: Log) -> int:
    """Steps from the cold request's arrival to its admission."""
    wait = next(r.queued_time for r in measure(log, second=1).requests if r.id == COLD)
    assert wait is not None
    return wait


# -- case 18 ------------------------------------------------------------------------------------

LENGTHS = (128, 512, 2048, 8192)
"""Prompt tokens, in equal counts."""
_SHORTEST, _LONGEST = 23_000, 194_000
"""Microseconds of service that the thread gives for the first and the last length."""


class OneAtATime:
    """Service as in case 18: the line through the two times that the thread gives, in µs."""

    def duration(self, plan: Plan) -> int:
        """One prompt's service; an idle step is 1 µs."""
        tokens = sum(plan.scheduled.values())
        return service(tokens) if tokens else 1


def service(tokens: int) -> int:
    """Microseconds of one prompt: 20,286 and 21.2 a token."""
    slope = Fraction(_LONGEST - _SHORTEST, LENGTHS[-1] - LENGTHS[0])
    return round(_SHORTEST + slope * (tokens - LENGTHS[0]))


class Sizes(NamedTuple):
    """One length's requests: mean and longest wait in µs, and (wait + service) / service."""

    tokens: int
    wait: float
    longest: int
    slowdown: float


def sizes_at_saturation(
    policy: str, make: MakeSglang = sglang.Scheduler, count: int = 200, seed: int = 0
) -> list[Sizes]:
    """Case 18, sglang pull request 30806: four lengths in equal counts on one embedding server.

    Poisson arrivals at the rate that the server can just serve: load 1, so waits grow with the
    run. Chosen: ``count`` requests, served one at a time, where the server of the thread batches.
    """
    rng = Random(seed)
    lengths = list(LENGTHS) * (count // len(LENGTHS))
    rng.shuffle(lengths)
    mean = sum(map(service, LENGTHS)) / len(LENGTHS)
    arrivals, at = [], 0.0
    for i, tokens in enumerate(lengths):
        at += rng.expovariate(1 / mean)
        asked = Request(f"r{i}", ((10_000 * i, tokens),), 1, round(at))
        arrivals.append(Arrival(round(at), asked))
    log = Log()
    config = sglang.Config(100_000, schedule_policy=policy, prefill_max_requests=1)
    run(make(config, log), arrivals, log, OneAtATime())
    waits = {r.id: r.queued_time or 0 for r in measure(log, second=10**6).requests}
    return [
        _class(tokens, [waits[f"r{i}"] for i, n in enumerate(lengths) if n == tokens])
        for tokens in LENGTHS
    ]


def _class(tokens: int, waits: list[int]) -> Sizes:
    wait = sum(waits) / len(waits)
    return Sizes(tokens, wait, max(waits), 1 + wait / service(tokens))
