"""Two public cases in numbers: what promising everything costs, and what it buys.

Case 34 is kekzl/imp issue 1635 (Qwen3-8B-Q8), case 35 TensorRT-LLM issue 16827 (Llama-3.3-70B-FP8
on an H200). Ours run in the reservation simulator with the published kernel times of an H100 and
Llama-3-8B, so orderings can be compared, and neither rates nor how large a difference is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvsched import cases
from kvsched.metrics import Metrics
from kvsched.views.view import Data

POOLS = (6571, 300, 150)
"""Blocks of case 34's table."""
PROMISES = ("whole", "truncate", "preempt")
REPORT_34: Data = {
    "tokens_s": {"whole": [551, 350, 229], "truncate": [519, 517, 526]},
    "truncated": {"whole": [0, 0, 0], "truncate": [0, 0, 2]},
}
"""The report's table; it has no third row."""
REPORT_35: Data = {
    "tokens_s": [161.0, 95.7],
    "tpot_p99": [0.122, 1.111],
    "e2e_p99": [150.0, 563.0],
    "ttft_p50": [35.8, 27.1],
    "tokens_s off pressure": [574.7, 576.1],
}
"""Guaranteed no evict, then max utilization; all but the last under pressure. Seconds; tokens/s."""
APART_MS = (150, 130, 115, 100, 80)

READ: dict[str, Callable[[Metrics], float]] = {
    "tokens_s": lambda m: m.output_throughput,
    "tpot_p99": lambda m: m.time_per_output_token.percentile(99) / 1e9,
    "e2e_p99": lambda m: m.e2e_latency.percentile(99) / 1e9,
    "ttft_p50": lambda m: m.time_to_first_token.percentile(50) / 1e9,
}
"""The four measures of case 35, in tokens a second and seconds."""


def pools() -> Data:
    """Case 34 under each promise and pool: a list by ``POOLS`` for each promise."""
    found = {promise: [cases.capped_at_1024(promise, b) for b in POOLS] for promise in PROMISES}
    return {
        "tokens_s": {p: [round(r.metrics.output_throughput) for r in found[p]] for p in found},
        "truncated": {p: [run.truncated for run in found[p]] for p in found},
        "preempted": {p: [run.preempted for run in found[p]] for p in found},
    }


def rates(apart_ms: Sequence[int] = APART_MS) -> list[Data]:
    """Case 35 by arrival rate: the four measures with everything promised, and with preemption.

    ``better``: for each measure which of the two wins, or ``tie``.
    """
    rows: list[Data] = []
    for apart in apart_ms:
        whole, preempt = (cases.evict_or_not(r, apart_ms=apart) for r in ("whole", "preempt"))
        row: Data = {"rate": 1000 / apart, "preempted": preempt.preempted, "better": {}}
        for name, read in READ.items():
            pair = [read(whole.metrics), read(preempt.metrics)]
            row[name] = pair
            row["better"][name] = better(name, *pair)
        rows.append(row)
    return rows


def better(name: str, whole: float, preempt: float) -> str:
    """Which of the two wins by this measure."""
    if whole == preempt:
        return "tie"
    return "whole" if (whole > preempt) == (name == "tokens_s") else "preempt"


def signs_of_report(row: Data) -> bool:
    """Are all four as the report has them?"""
    return all(row["better"][name] == better(name, *REPORT_35[name]) for name in READ)
