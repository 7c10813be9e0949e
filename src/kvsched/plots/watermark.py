"""The watermark as a picture: four curves beside a published sweep, the runway, and the burst."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kvsched.palette import PREEMPTED, PREFILL, SOFT, WAITING
from kvsched.plots import WIDTH
from kvsched.views.view import Data

_CURVES = (
    ("preemptions", "Preemptions", False),
    ("tokens_s", "Output tokens/s", True),
    ("ttft_p50", "TTFT, median", True),
    ("itl_p99", "ITL, p99", True),
)
"""Key, title, and whether the curve is drawn as a share of its value without a watermark."""


def draw(data: Data) -> Figure:
    """The figure of ``views.watermark_report``'s dict, in the house style."""
    figure, axes = plt.subplots(2, 3, figsize=(WIDTH, 4.7))
    for ax, curve in zip((*axes[0, :2], *axes[1, :2]), _CURVES, strict=True):
        _curve(ax, data, *curve)
    labels = [f"{share:g}" for share in data["watermarks"]]
    _runway(axes[0, 2], data, labels)
    _burst(axes[1, 2], data, labels)
    for ax in axes[1]:
        ax.set_xlabel("watermark")
    first = axes[0, 0]
    first.annotate("simulated", (0.02, data["ours"][1]["preemptions"]), (0.055, 300), size=9)
    first.annotate("PR 44594", (0, data["report"][0]["preemptions"]), (0.015, 1000), size=9)
    return figure


def _curve(ax: Axes, data: Data, key: str, title: str, relative: bool) -> None:
    for runs, colour, how in (
        (data["report"], SOFT.light, {"marker": "o", "mfc": "none", "linestyle": "--"}),
        (data["ours"], PREFILL.ink.light, {"marker": "o", "linestyle": "-"}),
    ):
        base = runs[0][key] if relative else 1
        points = [
            (share, run[key] / base)
            for share, run in zip(data["watermarks"], runs, strict=True)
            if run[key] is not None
        ]
        style: Any = how
        ax.plot(*zip(*points, strict=True), color=colour, markersize=4, **style)
    ax.set_title(title, size=10)
    ax.set_xticks([0, 0.05, 0.1, 0.15], ["0", "0.05", "0.1", "0.15"])
    if relative:
        ax.axhline(1, color=SOFT.light, linewidth=0.6, linestyle=":", zorder=0)
        ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
        ax.margins(y=0.15)
    else:
        ax.set_ylim(0, None)
        ax.yaxis.set_major_formatter("{x:,.0f}")


def _runway(ax: Axes, data: Data, labels: list[str]) -> None:
    steps = [row["steps"] for row in data["runway"]]
    ax.bar(labels, steps, 0.7, color=WAITING.ink.light)
    for x, row in enumerate(data["runway"]):
        ax.text(x, row["steps"], f"{row['steps']:.0f}", ha="center", va="bottom", size=9)
    ax.set_title("Runway, steps", size=10)
    ax.set_ylim(0, max(steps) * 1.15)


def _burst(ax: Axes, data: Data, labels: list[str]) -> None:
    counts = [run["preemptions"] for run in data["burst"]]
    ax.bar(labels, counts, 0.7, color=PREEMPTED.ink.light)
    for x, count in enumerate(counts):
        ax.text(x, count, f"{count}", ha="center", va="bottom", size=9)
    ax.set_title("Burst: preemptions", size=10)
    ax.set_ylim(0, max(counts) * 1.3)
