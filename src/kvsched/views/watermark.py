"""The watermark on a small pool: what keeping blocks back does to it, to clients and to output.

A quarter of the size of ``watermark_report.py``, in clients and in lengths, so that it runs while
the reader turns a knob. Qwen2.5-7B on an H100, vLLM's scheduler, prefix cache off.
"""

from __future__ import annotations

from random import Random
from typing import Any

from kvsched import profiles
from kvsched.clock import CostClock
from kvsched.costs import MODELS, drain, runway
from kvsched.engine import run_fast
from kvsched.log import Level, Log, Preempt
from kvsched.metrics import measure
from kvsched.views.params import Choice, Number
from kvsched.views.view import Data, View
from kvsched.views.watermark_figure import draw, table
from kvsched.vllm import Config, Scheduler
from kvsched.workload import SECOND, Around, ClosedLoop, Exactly, Script, Traffic

WATERMARKS = (0.0, 0.01, 0.02, 0.05, 0.10, 0.15, 0.20)
BLOCKS, BLOCK_SIZE = 1170, 16
CLIENTS, REQUESTS_EACH = 32, 3.5
"""Clients that each send their next request when the last is answered, and how many on average."""
PROMPT, OUTPUT, RATIO = 250, 1250, 0.2
"""Mean tokens, and how far lengths lie from them at most."""
STEADY, BURST = "steady", "burst"
LENGTHS = {STEADY: f"±{RATIO:.0%}", BURST: "all equal"}
BINS = 120
"""Points of a timeline."""


def simulate(
    watermark: float,
    blocks: int = BLOCKS,
    clients: int = CLIENTS,
    arrivals: str = STEADY,
    scheduler: type[Scheduler] = Scheduler,
) -> Log:
    """One run, its log of level METRICS."""
    log = Log(Level.METRICS)
    config = Config(blocks + 1, BLOCK_SIZE, watermark=watermark, enable_prefix_caching=False)
    source = ClosedLoop(_script(clients, arrivals).requests, clients, log)
    clock = CostClock(profiles.load("h100-sxm"), MODELS["Qwen2.5-7B"])
    run_fast(scheduler(config, log), source, log, clock)
    return log


def _script(clients: int, arrivals: str) -> Script:
    """Unequal requests that come one after the other, or one equal request a client at once."""
    if arrivals == BURST:
        return Traffic(Exactly(PROMPT), Exactly(OUTPUT)).draw(clients, Random())
    traffic = Traffic(Around(PROMPT, RATIO), Around(OUTPUT, RATIO))
    return traffic.draw(int(REQUESTS_EACH * clients), Random(0))


def compute(blocks: int, clients: int, arrivals: str) -> Data:
    """The same requests at every watermark."""
    points = [_point(share, blocks, clients, arrivals) for share in WATERMARKS]
    first, last = points[0], points[-1]
    best = max(points, key=lambda point: point["tokens_s"])
    how = "unequal requests, one after the other" if arrivals == STEADY else "equal, all at once"
    return {
        "blocks": blocks,
        "picks": [f"{point['watermark']:g}" for point in points],
        "points": points,
        "says": [_says(point, first, clients) for point in points],
        "sentence": (
            f"{clients} clients ({how}), {blocks:,} blocks: {first['preemptions']:,} preemptions "
            f"without a watermark, {last['preemptions']:,} at {last['watermark']:g}; most output "
            f"tokens a second at {best['watermark']:g}."
        ),
        "caption": (
            "Above: the fewest free blocks in each part of the run, and where requests were thrown "
            "out, at the watermark picked. Below: the same requests at every watermark. "
            f"{PROMPT:,} tokens in and {OUTPUT:,} out on average, {LENGTHS[arrivals]}; gate on, "
            "prefix cache off; Qwen2.5-7B on an H100 (published kernel times, scaled to the model)."
        ),
        "alt": (
            "Free blocks over time, and four curves over the watermark from 0 to "
            f"{last['watermark']:g}: preemptions go from {first['preemptions']:,} to "
            f"{last['preemptions']:,}, output tokens a second from {first['tokens_s']:,} to "
            f"{last['tokens_s']:,}, most at {best['watermark']:g}."
        ),
    }


def _point(share: float, blocks: int, clients: int, arrivals: str) -> dict[str, Any]:
    """One run in numbers, times in seconds; ``runway`` in steps, if all clients decode."""
    log = simulate(share, blocks, clients, arrivals)
    m = measure(log)
    kept = Config(blocks + 1, BLOCK_SIZE, watermark=share).watermark_blocks
    return {
        "watermark": share,
        "kept": kept,
        "runway": round(runway(kept, drain(clients, BLOCK_SIZE)), 1),
        "preemptions": m.num_preemptions,
        "tokens_s": round(m.output_throughput),
        "ttft_p50": round(m.time_to_first_token.percentile(50) / SECOND, 3),
        "itl_p99": round(m.inter_token_latency.percentile(99) / SECOND, 6),
        "seconds": round(m.duration / SECOND, 1),
        "timeline": _timeline(log, max(1, m.duration // BINS)),
    }


def _timeline(log: Log, width: int) -> dict[str, list[int]]:
    """By bin of ``width`` ns: the fewest free blocks after a step, and the preemptions."""
    bins = log.ends[-1] // width + 1
    free, out = [log.config["num_gpu_blocks"] - 1] * bins, [0] * bins
    for end, left in zip(log.ends, log.free_blocks, strict=True):
        free[end // width] = min(free[end // width], left)
    for entry in log.of(Preempt):
        out[log.times[entry.step] // width] += 1
    return {"free": free, "out": out}


def _says(point: dict[str, Any], first: dict[str, Any], clients: int) -> str:
    """One watermark in a sentence, against none."""
    told = (
        f"{point['preemptions']:,} preemptions, {point['tokens_s']:,} output tokens a second, TTFT "
        f"median {point['ttft_p50']:.2f} s, ITL p99 {1000 * point['itl_p99']:.1f} ms."
    )
    if point is first:
        return f"No watermark: {told}"
    return (
        f"Watermark {point['watermark']:g} keeps {point['kept']:,} blocks back, "
        f"{point['runway']:.0f} steps of runway if all {clients} decode: {told} Without it "
        f"{first['preemptions']:,}, {first['tokens_s']:,}, {first['ttft_p50']:.2f} s and "
        f"{1000 * first['itl_p99']:.1f} ms."
    )


VIEW = View(
    name="watermark",
    renderer="picks",
    label="The watermark on a small pool",
    compute=compute,
    draw=draw,
    table=table,
    params=(
        Number("blocks", "KV blocks", BLOCKS, 570, 3_170, 50),
        Number("clients", "clients", CLIENTS, 8, 48, 4),
        Choice("arrivals", "arrivals", STEADY, (STEADY, BURST)),
    ),
    selection={"pick": 0},
)
