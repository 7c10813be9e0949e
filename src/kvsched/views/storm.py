"""The storm: equal requests at three rates, whole-sequence gate and prefix cache on or off.

Only with both off does recomputing take over. Llama-3-8B on an H100, vLLM's scheduler. The prompts
share nothing, so the prefix cache can only give a preempted request its own blocks back. Every
knob not named here is at its default, the watermark off.
"""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from kvsched import courses, profiles
from kvsched.clock import CostClock
from kvsched.engine import run
from kvsched.enginetime import step_parts
from kvsched.log import Level, Log
from kvsched.metrics import measure
from kvsched.ttft import at_percentile, split_ttft
from kvsched.views.view import Data, Table
from kvsched.vllm import Config, Scheduler
from kvsched.workload import SECOND, Exactly, Traffic, poisson

BLOCKS = 11_697
"""Usable KV blocks of 16 tokens."""
SLOTS, BUDGET = 128, 2048
PROMPT, OUTPUT = 6000, 1000
"""Tokens."""
REQUESTS = 200
RATES = (0.7, 1.4, 2.0)
"""Poisson arrivals a second."""
BIN = 2 * SECOND
"""Nanoseconds a point of the timeline stands for."""


class Cell(NamedTuple):
    """One corner of the square: is the whole-sequence gate on, is the prefix cache?"""

    gate: bool
    cache: bool

    @property
    def name(self) -> str:
        if self.gate:
            return "both on" if self.cache else "cache off"
        return "gate off" if self.cache else "both off"


CELLS = (Cell(True, True), Cell(True, False), Cell(False, True), Cell(False, False))
"""The default first."""


def simulate(cell: Cell, rate: float, seed: int, requests: int = REQUESTS) -> tuple[Log, CostClock]:
    """One run, its log of level METRICS and the clock that timed it."""
    rng = Random(seed)
    script = Traffic(Exactly(PROMPT), Exactly(OUTPUT)).draw(requests, rng)
    config = Config(
        num_gpu_blocks=BLOCKS + 1,
        max_num_seqs=SLOTS,
        max_num_batched_tokens=BUDGET,
        scheduler_reserve_full_isl=cell.gate,
        enable_prefix_caching=cell.cache,
    )
    log, clock = Log(Level.METRICS), CostClock(profiles.load("h100-sxm"))
    run(Scheduler(config, log), script.at(poisson(rate, requests, rng)), log, clock)
    return log, clock


def storm(seed: int = 0) -> Data:
    """All twelve runs: rates, delays and their parts, and what the engine did at the top rate."""
    cells = []
    for cell in CELLS:
        runs = [simulate(cell, rate, seed) for rate in RATES]
        cells.append(
            {
                "name": cell.name,
                **cell._asdict(),
                "runs": [
                    {"rate": rate, **_figures(log, clock)}
                    for rate, (log, clock) in zip(RATES, runs, strict=True)
                ],
                "timeline": _timeline(*runs[-1]),
            }
        )
    data: Data = {
        "seed": seed,
        "requests": REQUESTS,
        "output_tokens": OUTPUT,
        "rates": list(RATES),
        "cells": cells,
    }
    return data | _words(data)


def table(data: Data) -> Table:
    """Every run of the square in numbers."""
    rows: list[tuple[str | tuple[str, str], ...]] = [
        (
            cell["name"],
            f"{r['rate']}",
            f"{r['tokens_s']:,}",
            f"{r['preemptions']:,}",
            f"{r['recompute']:.1%}",
            f"{r['ttft_p50']:.2f} s",
            f"{r['ttft_p99']['total']:.2f} s",
            f"{r['ttft_p99']['recompute']:.2f} s",
        )
        for cell in data["cells"]
        for r in cell["runs"]
    ]
    head = (
        "gate and cache", "requests/s", "output tokens/s", "preemptions", "time recomputing",
        "TTFT p50", "TTFT p99", "of it recompute",
    )  # fmt: skip
    return Table("The twelve runs", head, rows)


def _figures(log: Log, clock: CostClock) -> dict[str, Any]:
    """One run in numbers. Times in seconds; ``recompute``: share of the whole run's time."""
    m = measure(log)
    parts = step_parts(courses.read(log), clock)
    p99 = at_percentile(split_ttft(log, clock), 99)
    return {
        "tokens_s": round(m.output_throughput),
        "seconds": _seconds(m.duration),
        "preemptions": m.num_preemptions,
        "tokens_recomputed": m.tokens_recomputed,
        "recompute": round(sum(part.recompute for part in parts.values()) / m.duration, 4),
        "ttft_p50": _seconds(m.time_to_first_token.percentile(50)),
        "ttft_p99": {
            "total": _seconds(p99.total),
            "queueing": _seconds(p99.queueing),
            "recompute": _seconds(p99.recompute),
            "prefill": _seconds(p99.prefill),
        },
        "itl_p99": _seconds(m.inter_token_latency.percentile(99)),
    }


def _timeline(log: Log, clock: CostClock) -> dict[str, Any]:
    """Shares of the engine's time by bin of BIN: ``recompute`` and ``prefill``, the rest decodes.

    A step counts where it begins. ``seconds``: where each bin begins.
    """
    parts = step_parts(courses.read(log), clock)
    busy, recompute, prefill = ([0] * (log.ends[-1] // BIN + 1) for _ in range(3))
    for step, (start, end) in enumerate(zip(log.times, log.ends, strict=True)):
        busy[start // BIN] += end - start
        if step in parts:
            recompute[start // BIN] += parts[step].recompute
            prefill[start // BIN] += parts[step].prefill
    return {
        "end": _seconds(log.ends[-1]),
        "seconds": [k * BIN // SECOND for k in range(len(busy))],
        "recompute": [round(part / (of or 1), 3) for part, of in zip(recompute, busy, strict=True)],
        "prefill": [round(part / (of or 1), 3) for part, of in zip(prefill, busy, strict=True)],
    }


def _words(data: Data) -> dict[str, str]:
    """What the figure shows, as text: drawn from the same numbers."""
    both_on, *others, both_off = (cell["runs"][-1] for cell in data["cells"])
    low = data["cells"][0]["runs"][0]
    rate, requests = RATES[-1], data["requests"]
    loss = 1 - both_off["tokens_s"] / both_on["tokens_s"]
    least = max(1 - other["tokens_s"] / both_on["tokens_s"] for other in others)
    wait = both_on["ttft_p99"]
    return {
        "sentence": (
            f"At {rate} requests a second the default serves {both_on['tokens_s']:,} output "
            f"tokens a second. With gate and cache both off it is {both_off['tokens_s']:,}, "
            f"{loss:.0%} less: {both_off['preemptions']:,} preemptions, and "
            f"{both_off['recompute']:.0%} of the engine's time goes into computing again what "
            f"they threw away. With either of the two on, the loss is at most {least:.1%}. TTFT "
            f"p99 rises with load in all four; in the default it is {wait['total']:.1f} s, of "
            f"which recomputing is {wait['recompute']:.1f} s: that wait is load, and no "
            "preemption knob shortens it."
        ),
        "caption": (
            f"{requests} requests of {PROMPT:,} unshared prompt and {OUTPUT:,} output tokens in "
            f"{BLOCKS:,} blocks, {SLOTS} slots, {BUDGET:,} tokens a step; Llama-3-8B on an H100 "
            f"(published kernel times), Poisson arrivals, seed {data['seed']}. Above: what the "
            f"engine's time went into at {rate} requests a second, in bins of "
            f"{BIN // SECOND} s, until all are done. Below: time to first token at the 99th "
            "percentile, and output tokens a second, by rate. Recompute is the time by which the "
            "steps are longer for tokens that had been computed before; queueing is the rest of "
            "the wait."
        ),
        "alt": (
            f"Four timelines of engine time at {rate} requests a second. With gate and cache on, "
            f"or either of them, prefill and decode fill {both_on['seconds']:.0f} s. With both "
            f"off, red recompute fills {both_off['recompute']:.0%} of {both_off['seconds']:.0f} s. "
            f"Bars below: TTFT p99 is {low['ttft_p99']['total']:.1f} s at {RATES[0]} requests a "
            f"second in all four, and at {rate} it is {wait['total']:.0f} s of queueing in the "
            f"default, {both_off['ttft_p99']['total']:.0f} s with both off, "
            f"{both_off['ttft_p99']['recompute']:.0f} s of it recompute."
        ),
    }


def _seconds(ns: float) -> float:
    return round(ns / SECOND, 3)
