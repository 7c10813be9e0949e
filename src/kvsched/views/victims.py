"""Whom each engine throws out of the same workload: four of them, recorded from both engines.

Pages and blocks of one token, no sharing, eight slots; SGLang with nothing reserved for outputs,
vLLM without prefix cache. `tests/sglang/test_victims.py` holds what the engines did.
"""

from __future__ import annotations

from typing import NamedTuple

from kvsched import sglang, vllm
from kvsched.engine import run
from kvsched.log import Log, Preempt
from kvsched.request import Request
from kvsched.workload import Arrival


class Workload(NamedTuple):
    """Tokens of the pool, requests as (arrival, prompt, outputs), tokens of a prefill chunk."""

    pool: int
    requests: dict[str, tuple[int, int, int]]
    chunk: int | None = None


WORKLOADS = {
    "agree": Workload(25, {"A": (0, 4, 9), "B": (2, 4, 6), "C": (5, 4, 6)}),
    "differ_chunk": Workload(
        41,
        {"A": (0, 4, 19), "L": (5, 10, 6), "B": (6, 4, 6), "C": (6, 4, 6)},
        chunk=12,
    ),
    "differ_tie": Workload(
        49,
        {"A": (0, 4, 11), "L": (1, 7, 10), "B": (1, 2, 10), "C": (1, 2, 10)},
    ),
    "differ_late": Workload(
        140,
        {"A": (0, 10, 120), "X": (4, 10, 90), "Y": (35, 10, 20), "Z": (35, 10, 40)},
    ),
}


def sglang_log(workload: Workload, scheduler: type[sglang.Scheduler] = sglang.Scheduler) -> Log:
    """The whole run of SGLang."""
    log = Log()
    config = sglang.Config(
        workload.pool,
        max_running_requests=8,
        schedule_conservativeness=0.0,
        chunked_prefill_size=workload.chunk,
    )
    run(scheduler(config, log), _arrivals(workload), log)
    return log


def vllm_log(workload: Workload) -> Log:
    """The whole run of vLLM."""
    log = Log()
    config = vllm.Config(
        num_gpu_blocks=workload.pool + 1,
        block_size=1,
        max_num_seqs=8,
        max_num_batched_tokens=workload.chunk or 8192,
        long_prefill_token_threshold=1 if workload.chunk else 0,
        enable_prefix_caching=False,
    )
    run(vllm.Scheduler(config, log), _arrivals(workload), log)
    return log


def sglang_victims(
    name: str, scheduler: type[sglang.Scheduler] = sglang.Scheduler
) -> list[tuple[int, str]]:
    """Step and id of everybody SGLang throws out."""
    return _victims(sglang_log(WORKLOADS[name], scheduler))


def vllm_victims(name: str) -> list[tuple[int, str]]:
    """Step and id of everybody vLLM throws out."""
    return _victims(vllm_log(WORKLOADS[name]))


def _arrivals(workload: Workload) -> list[Arrival]:
    return [
        Arrival(at, Request(name, ((10_000 * ord(name), prompt),), out))
        for name, (at, prompt, out) in workload.requests.items()
    ]


def _victims(log: Log) -> list[tuple[int, str]]:
    return [(e.step, e.event.id) for e in log.entries if isinstance(e.event, Preempt)]
