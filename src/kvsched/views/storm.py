"""The storm: equal requests at one rate, whole-sequence gate and prefix cache on or off.

Only with both off does recomputing take over. Llama-3-8B on an H100, vLLM's scheduler. The prompts
share nothing, so the prefix cache can only give a preempted request its own blocks back. Every
knob not named here is at its default, the watermark off.
"""

from __future__ import annotations

from math import ceil
from random import Random
from typing import Any, NamedTuple

from kvsched import courses, profiles
from kvsched.clock import CostClock
from kvsched.engine import run_fast
from kvsched.enginetime import step_parts
from kvsched.log import Level, Log
from kvsched.metrics import measure
from kvsched.ttft import at_percentile, split_ttft
from kvsched.views.params import Number
from kvsched.views.storm_figure import draw, table
from kvsched.views.view import Data, View
from kvsched.vllm import Config, Scheduler
from kvsched.workload import SECOND, Exactly, Traffic, poisson

BLOCKS = 11_697
"""Usable KV blocks of 16 tokens."""
SLOTS, BUDGET = 128, 2048
PROMPT, OUTPUT = 6000, 1000
"""Tokens."""
REQUESTS = 200
RATE = 2.0
"""Poisson arrivals a second."""
BINS = 110
"""Points of the longest timeline, at most."""


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


def simulate(
    cell: Cell,
    rate: float,
    seed: int,
    requests: int = REQUESTS,
    blocks: int = BLOCKS,
    slots: int = SLOTS,
) -> tuple[Log, CostClock]:
    """One run, its log of level METRICS and the clock that timed it."""
    rng = Random(seed)
    script = Traffic(Exactly(PROMPT), Exactly(OUTPUT)).draw(requests, rng)
    config = Config(
        num_gpu_blocks=blocks + 1,
        max_num_seqs=slots,
        max_num_batched_tokens=BUDGET,
        scheduler_reserve_full_isl=cell.gate,
        enable_prefix_caching=cell.cache,
    )
    log, clock = Log(Level.METRICS), CostClock(profiles.load("h100-sxm"))
    run_fast(Scheduler(config, log), script.at(poisson(rate, requests, rng)), log, clock)
    return log, clock


def square(rate: float, seed: int = 0, blocks: int = BLOCKS, slots: int = SLOTS) -> Data:
    """The four cells at one rate: what each delivers, and what its engine's time went into.

    Times in seconds. ``recompute``: share of the whole run's time. ``timeline``: shares by bin of
    ``bin`` whole seconds, ``recompute`` and ``prefill``; the rest decodes.
    """
    runs = [simulate(cell, rate, seed, blocks=blocks, slots=slots) for cell in CELLS]
    width = ceil(max(log.ends[-1] for log, _ in runs) / BINS / SECOND)
    cells = [
        {"name": cell.name, **_figures(*found), "timeline": _timeline(*found, width * SECOND)}
        for cell, found in zip(CELLS, runs, strict=True)
    ]
    return {"rate": rate, "bin": width, "cells": cells}


def compute(rate: float, blocks: int, slots: int) -> Data:
    """The square for the widget, each cell told in a sentence."""
    data = square(rate, blocks=blocks, slots=slots)
    cells = data["cells"]
    default, both_off = cells[0], cells[-1]
    longest = max(cell["seconds"] for cell in cells)
    return data | {
        "picks": [cell["name"] for cell in cells],
        "says": [_says(cell, default) for cell in cells],
        "sentence": (
            f"{REQUESTS} requests at {rate:g} a second, {blocks:,} blocks, {slots} slots: the "
            f"default serves {default['tokens_s']:,} output tokens a second, "
            f"both off {both_off['tokens_s']:,}."
        ),
        "caption": (
            f"What the engine’s time went into until {REQUESTS} requests of {PROMPT:,} unshared "
            f"prompt and {OUTPUT:,} output tokens were done, in bins of {width(data['bin'])}, and "
            "the time to first token at the 99th percentile in its parts. "
            f"{BUDGET:,} tokens a step; Llama-3-8B on an H100 (published kernel times); Poisson "
            "arrivals, seed 0. Recompute is what the steps took longer for tokens computed "
            "before; queueing is the rest of the wait."
        ),
        "alt": (
            f"Four strips of engine time over {longest:.0f} s, one for gate and cache on or off, "
            "and four bars of TTFT p99. Recompute takes "
            + ", ".join(f"{cell['recompute']:.0%} with {cell['name']}" for cell in cells)
            + "."
        ),
    }


def waste(cell: dict[str, Any]) -> dict[str, str]:
    """What a counter of preemptions lets one fear, and what was computed again: in prompt tokens.

    The fear: each victim held its prompt and half its answer, and found nothing again.
    """
    prompts = REQUESTS * PROMPT
    ceiling = cell["preemptions"] * (PROMPT + OUTPUT // 2)
    return {
        "gate and cache": cell["name"],
        "preemptions": f"{cell['preemptions']:,}",
        "ceiling": f"{ceiling / prompts:.0%}",
        "computed again": f"{cell['tokens_recomputed'] / prompts:.1%}",
        "tokens/s": f"{cell['tokens_s']:,}",
    }


def width(seconds: int) -> str:
    """A bin's width in words."""
    return "one second" if seconds == 1 else f"{seconds} seconds"


def _says(cell: dict[str, Any], default: dict[str, Any]) -> str:
    """One cell in a sentence, against the default."""
    wait = cell["ttft_p99"]
    told = (
        f"{cell['name'].capitalize()}: {cell['tokens_s']:,} output tokens a second, "
        f"{cell['preemptions']:,} preemptions, {cell['recompute']:.1%} of the engine’s time spent "
        f"on tokens computed before. TTFT p99 {wait['total']:.1f} s, of it "
        f"{wait['queueing']:.1f} s queueing and {wait['recompute']:.1f} s recompute."
    )
    loss = 1 - cell["tokens_s"] / default["tokens_s"]
    if cell is default:
        return f"{told} This is the default."
    if round(loss, 3) <= 0:
        return f"{told} No slower than the default."
    return f"{told} {loss:.1%} fewer tokens a second than the default."


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


def _timeline(log: Log, clock: CostClock, width: int) -> dict[str, list[float]]:
    """Shares of the engine's time by bin of ``width`` ns. A step counts where it begins."""
    parts = step_parts(courses.read(log), clock)
    busy, recompute, prefill = ([0] * (log.ends[-1] // width + 1) for _ in range(3))
    for step, (start, end) in enumerate(zip(log.times, log.ends, strict=True)):
        busy[start // width] += end - start
        if step in parts:
            recompute[start // width] += parts[step].recompute
            prefill[start // width] += parts[step].prefill
    return {
        "recompute": [round(part / (of or 1), 3) for part, of in zip(recompute, busy, strict=True)],
        "prefill": [round(part / (of or 1), 3) for part, of in zip(prefill, busy, strict=True)],
    }


def _seconds(ns: float) -> float:
    return round(ns / SECOND, 3)


VIEW = View(
    name="storm",
    renderer="picks",
    label="The storm: gate and prefix cache",
    compute=compute,
    draw=draw,
    table=table,
    params=(
        Number("rate", "arrivals", RATE, 0.4, 3.0, 0.1, "/s"),
        Number("blocks", "KV blocks", BLOCKS, 2_697, 17_697, 500),
        Number("slots", "slots", SLOTS, 8, 128, 4),
    ),
    selection={"pick": 3},
)
