"""A profile's three curves side by side: the static figure of `views.measured`'s dict."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from kvsched.palette import DRAINING, PREFILL, SOFT, TEXT
from kvsched.plots import WIDTH
from kvsched.views.view import Data

_PREFILL, _COPY, _SOFT, _TEXT = (colour.light for colour in (PREFILL.ink, DRAINING.ink, SOFT, TEXT))


def draw(data: Data) -> Figure:
    """The figure in the house style; its title says whose numbers these are, and of what kind."""
    figure, axes = plt.subplots(1, 3, figsize=(WIDTH, 3.1))
    figure.suptitle(data["title"], x=0.01, ha="left", size=11, weight="bold")
    _prefill(axes[0], data)
    there = data["points"][0]["threshold"] is not None
    for ax, panel in zip(axes[1:], (_copies, _border), strict=True):
        if there:
            panel(ax, data)
        else:
            ax.text(0.5, 0.5, "no copies both ways\nin this profile", ha="center", color=_SOFT)
            ax.set_axis_off()
    return figure


def _prefill(ax: Any, data: Data) -> None:
    lengths = [point["tokens"] for point in data["prefill"]]
    rates = [point["tflop_s"] for point in data["prefill"]]
    ax.plot(lengths, rates, color=_PREFILL, marker="o", markersize=4)
    for level, name in ((data["peak"], "datasheet"), (data["multiply"], "a large multiply")):
        if level is not None:
            ax.axhline(level, color=_SOFT, linewidth=0.8, linestyle="--")
            ax.text(lengths[0], level, f"{name}, {level:.3g}", size=8, va="bottom")
    ax.set_xscale("log", base=2)
    ax.set_xticks([lengths[0], lengths[len(lengths) // 2], lengths[-1]][: len(lengths)])
    ax.minorticks_off()
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.set_ylim(0, 1.12 * max(*rates, data["peak"] or 0, data["multiply"] or 0))
    ax.set_title("Prefill, TFLOP/s", size=10)
    ax.set_xlabel("tokens")


def _copies(ax: Any, data: Data) -> None:
    sizes = [point["bytes"] for point in data["points"]]
    for way, name, line in (("out_gb_s", "out", "-"), ("back_gb_s", "back", "--")):
        rates = [point[way] for point in data["points"]]
        ax.plot(sizes, rates, line, color=_COPY, marker="o", markersize=3, label=name)
    if data["link"] is not None:
        ax.axhline(data["link"], color=_SOFT, linewidth=0.8, linestyle="--")
        ax.text(sizes[0], data["link"], f"raw link, {data['link']:g}", size=8, va="bottom")
    ax.legend(loc="lower right")
    ax.set_ylim(0, 1.12 * ax.get_ylim()[1])
    ax.set_title("Copies, GB/s", size=10)
    _sizes(ax, data)


def _border(ax: Any, data: Data) -> None:
    sizes = [point["bytes"] for point in data["points"]]
    border = [point["threshold"] for point in data["points"]]
    ax.plot(sizes, border, color=_TEXT, linewidth=2.2)
    ax.fill_between(sizes, border, 1, color=_PREFILL, alpha=0.2, linewidth=0)
    ax.fill_between(sizes, 0, border, color=_COPY, alpha=0.2, linewidth=0)
    ax.text(
        0.04, 0.93, "recompute", color=_PREFILL, weight="bold", va="top", transform=ax.transAxes
    )
    ax.text(0.96, 0.06, "swap", weight="bold", ha="right", transform=ax.transAxes)
    ax.set_ylim(0, 1)
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    ax.set_title(f"Survives, of {data['tokens']:,}", size=10)
    _sizes(ax, data)


def _sizes(ax: Any, data: Data) -> None:
    ax.set_xscale("log", base=2)
    points = data["points"][:: max(1, len(data["points"]) // 3)]
    ax.set_xticks([point["bytes"] for point in points], [point["name"] for point in points])
    ax.minorticks_off()
    ax.set_xlabel("size of the pieces")
