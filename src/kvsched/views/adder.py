"""One prefill pass as a budget that is spent: SGLang at three ratios, and vLLM beside it.

The same pool, the same who run and who wait; only the share reserved for outputs differs.
"""

from __future__ import annotations

from typing import Any

from kvsched.sglang import Config
from kvsched.sglang.ratio import NewTokenRatio
from kvsched.views.adder_figure import draw, number, table
from kvsched.views.adder_pass import (
    PAGE,
    POOL,
    RUNNING,
    WAITING,
    Pass,
    Tried,
    sglang_pass,
    vllm_pass,
)
from kvsched.views.params import Number
from kvsched.views.view import Data, View

PICKS = ("ratio 1.0", "start", "floor", "vLLM")


def compute(running: int, clip: int, conservativeness: float, chunk: int) -> Data:
    """The pass at each ratio, and vLLM's."""
    ratio = NewTokenRatio(Config(POOL, schedule_conservativeness=conservativeness))
    points = [
        _point(pick, value, sglang_pass(running, value, clip, chunk))
        for pick, value in zip(PICKS, (1.0, ratio.init, ratio.min), strict=False)
    ]
    points.append(_point(PICKS[-1], None, vllm_pass(running, chunk)))
    whole, start, floor, other = (point["admitted"] for point in points)
    return {
        "running": running,
        "waiting": [name for name, _, _ in WAITING],
        "picks": list(PICKS),
        "points": points,
        "says": [_says(point, running) for point in points],
        "sentence": (
            f"{running or 'None'} run, {len(WAITING)} wait. Admitted in one pass: {whole} at a "
            f"ratio of 1.0, {start} at the start value {ratio.init:.3g}, {floor} at the floor "
            f"{ratio.min:.3g}, {other} by vLLM."
        ),
        "caption": (
            "One pass over the queue A to L. Each bar begins where the memory spoken for ends; "
            "one that reaches the line of all free and evictable tokens is refused, and nobody "
            f"behind it is tried. Below: all four. Pages of {PAGE} tokens; what is left is rounded "
            "up, which changes no comparison. The start value and the floor follow from the "
            "conservativeness. SGLang 0.5.18; vLLM 0.28.0 over the same requests."
        ),
        "alt": (
            f"Bars for {len(WAITING)} waiting requests, each beginning where the last one ends, "
            "against the line of what is free or evictable. "
            + " ".join(f"{point['name']}: {_admitted(point)}." for point in points)
        ),
    }


def _point(pick: str, ratio: float | None, run: Pass) -> dict[str, Any]:
    """One pass with its requests as dicts; ``name`` has the ratio in figures."""
    return {
        **run._asdict(),
        "name": f"{pick}, {ratio:.3g}" if pick in PICKS[1:3] else pick,
        "tried": [tried._asdict() for tried in run.tried],
        "admitted": sum(tried.added for tried in run.tried),
    }


def _says(point: dict[str, Any], running: int) -> str:
    """One pass in words: what is reserved, who enters, and what ends it."""
    there, name = point["free"] + point["evictable"], point["name"]
    who = f"the {running} that run" if running > 1 else "the one that runs" if running else "nobody"
    if name == "vLLM":
        told = f"vLLM: {there:,} tokens in free blocks, nothing is reserved for {who}."
    else:
        told = (
            f"{name[0].upper()}{name[1:]}: {point['reserved']:,} of {there:,} tokens free or "
            f"evictable are reserved for {who}."
        )
    return f"{told} {_admitted(point)}. {_end(Tried(**point['tried'][-1]))}"


def _admitted(point: dict[str, Any]) -> str:
    return f"{point['admitted']} of {len(WAITING)} admitted"


def _end(last: Tried) -> str:
    """Why nobody further was tried."""
    mark = f": {last.verdict}" if last.verdict.isupper() else ""
    if last.added and last.verdict in ("CONTINUE", "admitted"):
        return "Nobody is refused."
    if last.added:
        spent = "the chunk" if last.verdict == "OTHER" else "the memory"
        return f"{last.id} gets {last.computed:,} tokens, and {spent} is spent{mark}."
    if last.sign == ">":
        return f"For {last.id} nothing of the chunk is left{mark}."
    held = f", once the {last.found:,} it found are held," if last.found else ""
    return f"{last.id} asks for {last.asked:,} and{held} {number(last.limit)} are left{mark}."


VIEW = View(
    name="adder",
    renderer="picks",
    label="A prefill pass as a budget",
    compute=compute,
    draw=draw,
    table=table,
    params=(
        Number("running", "running requests", 8, 0, len(RUNNING)),
        Number("clip", "clip of outputs", 4096, 64, 4096, 64),
        Number("conservativeness", "conserva\N{SOFT HYPHEN}tiveness", 1.0, 0.0, 2.0, 0.1),
        Number("chunk", "chunk, tokens", 8192, 256, 8192, 256),
    ),
    selection={"pick": 1},
)
