"""``new_token_ratio`` through a run: assigned by a retraction, falling in a straight line between.

The same requests at five values of ``schedule_conservativeness``, under SGLang's scheduler: what
the ratio did, and what it did to the pool, to output and to who waits. Read off each run's log.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean
from typing import Any

from kvsched import courses, profiles
from kvsched.cases.feedback import CONSERVATIVENESS, PROFILE, RUN_TO_MAX, SMALL, steady
from kvsched.clock import CostClock
from kvsched.enginetime import step_parts
from kvsched.metrics import measure
from kvsched.sglang import Config
from kvsched.sglang.decodes import DecodePass, decode_passes
from kvsched.sglang.events import Retract
from kvsched.sglang.ratio import NewTokenRatio
from kvsched.views.feedback_figure import draw, table
from kvsched.views.params import Number
from kvsched.views.view import Data, View
from kvsched.workload import SECOND

BINS = 110
"""Points of a timeline, at most."""


def compute(share: int, pool: int, clients: int) -> Data:
    """The same requests at every conservativeness."""
    points = [point(value, share, pool, clients) for value in CONSERVATIVENESS]
    first, last = points[0], points[-1]
    best = max(points, key=lambda each: each["tokens_s"])
    worst = min(points, key=lambda each: each["tokens_s"])
    return {
        "pool": pool,
        "picks": [f"{value:g}" for value in CONSERVATIVENESS],
        "points": points,
        "says": [_says(each, best) for each in points],
        "sentence": (
            f"{clients} clients, answers of {share} % of max_new_tokens, {pool:,} tokens of pool: "
            f"{_times(first['retractions'])} at conservativeness {first['value']:g}, "
            f"{last['retractions']} at {last['value']:g}. {_most_and_fewest(best, worst)}"
        ),
        "caption": (
            "Above: new_token_ratio over the decode steps of the run picked; red, where a "
            "retraction set it anew; dashed, where it starts and how far it may fall. Below it: "
            "the tokens of the pool that running requests hold, and how many run. At the bottom: "
            "the same requests at every conservativeness. Prompts of "
            f"{SMALL.prompt} tokens on average (±20 %), max_new_tokens of {SMALL.max_new} (±30 %), "
            f"{SMALL.requests} requests; SGLang 0.5.18’s rules; Llama-3-8B on an H100 (published "
            "kernel times)."
        ),
        "alt": (
            "The ratio over time as a sawtooth, the pool and the batch under it, and four curves "
            f"over conservativeness from {first['value']:g} to {last['value']:g}: retractions go "
            f"from {first['retractions']} to {last['retractions']}, output tokens a second from "
            f"{first['tokens_s']:,} to {last['tokens_s']:,}, no more than at {best['value']:g}."
        ),
    }


@lru_cache(maxsize=64)
def point(value: float, share: int, pool: int, clients: int, seed: int = 0) -> dict[str, Any]:
    """One run in numbers, times in seconds, with its timeline; kept, so not to be changed.

    ``recompute``: share of the run's time. ``silence``: the longest wait between two tokens.
    """
    log = steady(value, share, SMALL._replace(pool=pool, clients=clients), seed)
    m, ratio = measure(log), NewTokenRatio(Config(**log.config))
    passes = list(decode_passes(log))
    parts = step_parts(courses.read(log), CostClock(profiles.load(PROFILE)))
    return {
        "value": value,
        "init": ratio.init,
        "min": ratio.min,
        "tokens_s": round(m.output_throughput),
        "retractions": len(log.of(Retract)),
        "tokens_recomputed": m.tokens_recomputed,
        "recompute": round(sum(part.recompute for part in parts.values()) / m.duration, 4),
        "ratio_mean": round(fmean(each.ratio for each in passes), 3),
        "running_mean": round(fmean(each.running for each in passes), 1),
        "ttft_p50": round(m.time_to_first_token.percentile(50) / SECOND, 3),
        "silence": round(m.inter_token_latency.percentile(100) / SECOND, 3),
        "timeline": timeline(passes),
    }


def timeline(passes: Sequence[DecodePass]) -> dict[str, list[Any]]:
    """What the ratio did, by decode step.

    ``path``: the corners of its line, (step, ratio). ``jumps``: a retraction each, (step, ratio
    before, ratio after). ``used``: tokens held, the most of each bin, and ``running``.
    """
    jumps = [
        [place, round(each.found, 4), round(each.retraction.ratio, 4)]
        for place, each in enumerate(passes)
        if each.retraction is not None
    ]
    return {
        "path": _corners([each.ratio for each in passes]),
        "jumps": jumps,
        "used": _most([each.used for each in passes]),
        "running": _most([each.running for each in passes]),
    }


def _corners(values: Sequence[float]) -> list[list[float]]:
    """The points at which a line through these values turns."""
    last = len(values) - 1
    turns = [
        i
        for i, value in enumerate(values)
        if i in (0, last) or abs(2 * value - values[i - 1] - values[i + 1]) > 1e-9
    ]
    return [[i, round(values[i], 4)] for i in turns]


def _most(values: Sequence[int]) -> list[int]:
    """The largest of each of at most BINS parts of equal length, the last may be shorter."""
    width = -(-len(values) // BINS)
    return [max(values[i : i + width]) for i in range(0, len(values), width)]


def _most_and_fewest(best: dict[str, Any], worst: dict[str, Any]) -> str:
    if best["tokens_s"] == worst["tokens_s"]:
        return f"At every setting {best['tokens_s']:,} output tokens a second."
    return (
        f"Most output tokens a second at {best['value']:g}: {best['tokens_s']:,}; fewest at "
        f"{worst['value']:g}: {worst['tokens_s']:,}."
    )


def _says(each: dict[str, Any], best: dict[str, Any]) -> str:
    """One run in a sentence."""
    told = (
        f"Conservativeness {each['value']:g}: the ratio starts at {each['init']:.3f} and may fall "
        f"to {each['min']:.3f}. "
    )
    jumps = each["timeline"]["jumps"]
    if jumps:
        _, before, after = jumps[0]
        told += f"{_times(len(jumps))}, the first sets it from {before:.4f} to {after:.4f}; "
    else:
        told += "No retraction; "
    told += (
        f"{each['tokens_recomputed']:,} tokens computed again, {each['tokens_s']:,} output tokens "
        f"a second, TTFT median {each['ttft_p50']:.2f} s, longest silence {each['silence']:.2f} s."
    )
    if each["tokens_s"] == best["tokens_s"]:
        return f"{told} No setting gives more."
    return f"{told} {1 - each['tokens_s'] / best['tokens_s']:.1%} fewer than at {best['value']:g}."


def _times(count: int) -> str:
    return "1 retraction" if count == 1 else f"{count} retractions"


VIEW = View(
    name="feedback",
    renderer="picks",
    label="The ratio and its conservativeness",
    compute=compute,
    draw=draw,
    table=table,
    params=(
        Number("share", "answers, of their maximum", RUN_TO_MAX, 10, 100, 10, "%"),
        Number("pool", "pool", SMALL.pool, 6_000, 18_000, 500, "tokens"),
        Number("clients", "clients", SMALL.clients, 20, 80, 5),
    ),
    selection={"pick": 3},
)
