"""The sawtooth of ``new_token_ratio``, and which conservativeness is best for which outputs."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kvsched.palette import DECODE, PREEMPTED, PREFILL, SOFT
from kvsched.plots import WIDTH
from kvsched.views.view import Data

_LAWS = {
    "stop early": (DECODE.ink.light, "s", "--", (8, 2)),
    "run to max": (PREFILL.ink.light, "o", "-", (-14, -24)),
}
"""Colour, marker and line of a law, and where its name stands, in points from its last value."""


def draw(data: Data) -> Figure:
    """The figure of ``views.feedback_laws.laws``'s dict, in the house style."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 3.1), width_ratios=(3, 2))
    _sawtooth(left, data["line"])
    _laws(right, data)
    return figure


def _sawtooth(ax: Axes, line: dict[str, Any]) -> None:
    ax.plot(*zip(*line["path"], strict=True), color=PREFILL.ink.light)
    for step, before, after in line["jumps"]:
        ax.plot([step, step], [before, after], color=PREEMPTED.ink.light, linewidth=2.4)
    step, before, after = line["jumps"][0]
    ax.annotate(
        f"retraction:\nset to {after:.2f}", (step, after), (6, 6), textcoords="offset points",
        color=PREEMPTED.ink.light, size=9,
    )  # fmt: skip
    ax.set_ylim(0, 1)
    ax.set_xlim(0, line["path"][-1][0])
    ax.set_xlabel("decode steps")
    ax.set_title("new_token_ratio")


def _laws(ax: Axes, data: Data) -> None:
    places = range(len(data["values"]))
    for law in data["laws"]:
        colour, marker, dash, offset = _LAWS[law["name"]]
        top = max(law["tokens_s"])
        shares = [rate / top for rate in law["tokens_s"]]
        ax.plot(places, shares, dash, color=colour, marker=marker, markersize=4)
        best = shares.index(1.0)
        ax.plot(best, 1, marker, color=colour, markersize=9, markerfacecolor="none")
        named: Any = {"textcoords": "offset points", "color": colour, "size": 9}
        at = len(shares) // 2
        ax.annotate(law["name"], (at, shares[at]), offset, **named)
    ax.set_xticks(places, [f"{value:g}" for value in data["values"]])
    ax.set_xlabel("schedule_conservativeness")
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    ax.axhline(1, color=SOFT.light, linewidth=0.6, linestyle=":", zorder=0)
    ax.set_title("Output tokens/s, of the best")
