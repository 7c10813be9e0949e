"""Whom the two engines throw out of the same workload: where they agree, and where not and why.

Recorded from both real schedulers on the same four workloads: pages and blocks of one token, no
sharing, eight slots; SGLang with nothing reserved for outputs, vLLM without prefix cache.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from kvsched import sglang, vllm
from kvsched.engine import run
from kvsched.log import Log, Preempt
from kvsched.request import Request
from kvsched.workload import Arrival


class Workload(NamedTuple):
    """Requests as (arrival, prompt, outputs); the victims of either engine with their steps."""

    pool: int
    requests: dict[str, tuple[int, int, int]]
    sglang: list[tuple[int, str]]
    vllm: list[tuple[int, str]]
    chunk: int | None = None


WORKLOADS = {
    "agree": Workload(
        25,
        {"A": (0, 4, 9), "B": (2, 4, 6), "C": (5, 4, 6)},
        [(8, "C")],
        [(7, "C")],
    ),
    "differ_chunk": Workload(
        41,
        {"A": (0, 4, 19), "L": (5, 10, 6), "B": (6, 4, 6), "C": (6, 4, 6)},
        [(10, "L")],
        [(14, "C")],
        chunk=12,
    ),
    "differ_tie": Workload(
        49,
        {"A": (0, 4, 11), "L": (1, 7, 10), "B": (1, 2, 10), "C": (1, 2, 10)},
        [(10, "L")],
        [(10, "C")],
    ),
    "differ_late": Workload(
        140,
        {"A": (0, 10, 120), "X": (4, 10, 90), "Y": (35, 10, 20), "Z": (35, 10, 40)},
        [(51, "Y"), (64, "X"), (157, "Z")],
        [(44, "Z"), (50, "Y"), (63, "X"), (147, "Z")],
    ),
}


def victims(scheduler: Any, workload: Workload, log: Log) -> list[tuple[int, str]]:
    arrivals = [
        Arrival(at, Request(name, ((10_000 * ord(name), prompt),), out))
        for name, (at, prompt, out) in workload.requests.items()
    ]
    assert run(scheduler, arrivals, log).verdict == "all_done"
    return [(e.step, e.event.id) for e in log.entries if isinstance(e.event, Preempt)]


@pytest.mark.parametrize("name", WORKLOADS)
def test_sglang_takes_the_one_with_the_fewest_outputs(name: str) -> None:
    workload = WORKLOADS[name]
    log = Log()
    config = sglang.Config(
        workload.pool,
        max_running_requests=8,
        schedule_conservativeness=0.0,
        chunked_prefill_size=workload.chunk,
    )
    found = victims(sglang.Scheduler(config, log), workload, log)
    assert found[: len(workload.sglang)] == workload.sglang


@pytest.mark.parametrize("name", WORKLOADS)
def test_vllm_takes_the_last_admitted(name: str) -> None:
    workload = WORKLOADS[name]
    log = Log()
    config = vllm.Config(
        num_gpu_blocks=workload.pool + 1,
        block_size=1,
        max_num_seqs=8,
        max_num_batched_tokens=workload.chunk or 8192,
        long_prefill_token_threshold=1 if workload.chunk else 0,
        enable_prefix_caching=False,
    )
    found = victims(vllm.Scheduler(config, log), workload, log)
    assert found[: len(workload.vllm)] == workload.vllm
