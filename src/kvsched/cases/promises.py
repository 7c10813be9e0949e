"""Public cases about promising memory at admission, under ``kvsched.reserve``."""

from __future__ import annotations

from typing import NamedTuple

from kvsched import profiles
from kvsched.clock import CostClock
from kvsched.metrics import Metrics, measure
from kvsched.replay import replay_reserve
from kvsched.request import EOS, Request, Stop
from kvsched.reserve import Config, Record
from kvsched.reserve.as_log import as_log
from kvsched.reserve.records import Preempted, Truncated
from kvsched.workload import Arrival
from kvsched.workload.trace import Line


class Promised(NamedTuple):
    """A run of the reservation simulator: its metrics, and who was cut short or thrown out."""

    metrics: Metrics
    truncated: int
    preempted: int


def capped_at_1024(reserve: str, blocks: int) -> Promised:
    """Case 34, kekzl/imp issue 1635: eight requests that answer in 300 tokens of 1024 allowed.

    ``reserve`` as in ``reserve.Config``. Chosen: prompts of 200 tokens, all at once.
    """
    return _promised(reserve, blocks, [0] * 8, 200, 300, 1024)


EVICT_BLOCKS = 128 * -(-(2000 + 512 - 1) // 16)
"""Blocks for all requests of case 35 at once."""


def evict_or_not(reserve: str, share: float = 0.4, apart_ms: int = 100) -> Promised:
    """Case 35, TensorRT-LLM issue 16827: 128 requests of 512 tokens out.

    Chosen: prompts of 2000 tokens, ``apart_ms`` apart; a pool for a ``share`` of the requests.
    """
    times = [i * apart_ms * 10**6 for i in range(128)]
    return _promised(reserve, int(EVICT_BLOCKS * share), times, 2000, 512, 512)


def _promised(
    reserve: str, blocks: int, times: list[int], prompt: int, output: int, max_tokens: int
) -> Promised:
    """Equal requests at these times, in ns, by the published kernel times of an H100."""
    stop = Stop(eos_token_id=EOS) if output < max_tokens else None
    lines = []
    for i, at in enumerate(times):
        request = Request(f"r{i}", ((i << 32, prompt),), max_tokens, at, stop=stop)
        lines.append(Line(Arrival(at, request), output))
    config = Config(blocks=blocks, reserve=reserve)
    kept: list[Record] = []
    replay_reserve(iter(lines), config, CostClock(profiles.load("h100-sxm")), kept.append)
    kinds = [type(record) for record in kept]
    metrics = measure(as_log(kept))
    return Promised(metrics, kinds.count(Truncated), kinds.count(Preempted))
