"""The storm as a picture: engine time in four cells, then what the clients and the owner get."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kvsched.palette import DECODE, PAPER, PREEMPTED, PREFILL, SOFT, WAITING
from kvsched.plots import WIDTH
from kvsched.views.view import Data

HATCH = "////"
"""On everything computed twice, so that red is not the only sign."""
_PAPER = PAPER.light
_PARTS = (("queueing", WAITING, ""), ("prefill", PREFILL, ""), ("recompute", PREEMPTED, HATCH))


def draw(data: Data) -> Figure:
    """The figure of ``views.storm_rates``'s dict, in the house style."""
    figure = plt.figure(figsize=(WIDTH, 6.9))
    halves: Any = figure.subfigures(2, 1, height_ratios=(1.12, 1), hspace=0.04)
    above, below = halves
    _timelines(above.subplots(2, 2, sharex=True, sharey=True), data)
    bars, lines = below.subplots(1, 2, width_ratios=(1.55, 1))
    _delays(bars, data)
    _rates(lines, data)
    return figure


def _timelines(axes: Any, data: Data) -> None:
    square = data["squares"][-1]
    rate, cells = square["rate"], square["cells"]
    end = max(cell["seconds"] for cell in cells)
    for ax, cell in zip(axes.flat, cells, strict=True):
        _timeline(ax, cell, square["bin"])
        ax.set(xlim=(0, end * 1.02), ylim=(0, 1), xticks=range(0, int(end) + 1, 50))
        ax.set_yticks([0, 0.5, 1], ["0", "50", "100 %"])
    for ax in axes[1]:
        ax.set_xlabel(f"seconds, at {rate} requests a second")
    for ax in axes[:, 0]:
        ax.set_ylabel("engine time")
    share = cells[-1]["recompute"]
    _label(axes[0, 0], 0.3, 0.3, "decode")
    _label(axes[0, 0], 0.3, 0.86, "prefill")
    _label(axes[1, 1], 0.5, 0.8, f"recompute: {share:.0%} of the run".replace("%", " %"))


def _timeline(ax: Axes, cell: dict[str, Any], width: int) -> None:
    line = cell["timeline"]
    end = cell["seconds"]
    seconds = [*(width * k for k in range(len(line["recompute"]))), end]
    recompute, prefill = _closed(line["recompute"]), _closed(line["prefill"])
    useful = [1 - again for again in recompute]
    decode = [done - part for done, part in zip(useful, prefill, strict=True)]
    how: Any = {"step": "post", "linewidth": 0}
    ax.fill_between(seconds, decode, color=DECODE.ink.light, **how)
    ax.fill_between(seconds, decode, useful, color=PREFILL.ink.light, **how)
    ax.fill_between(
        seconds, useful, 1, facecolor=PREEMPTED.ink.light, edgecolor=_PAPER, hatch=HATCH, **how
    )
    default = " – the default" if cell["name"] == "both on" else ""
    ax.set_title(f"{cell['name']}{default}")
    ax.text(
        1, 1.03, f"{cell['tokens_s']:,} tokens/s", transform=ax.transAxes, ha="right", va="bottom",
        size=9.5, color=SOFT.light,
    )  # fmt: skip
    ax.text(
        0.985, 0.04, f"done at {end:.0f} s\n{cell['preemptions']:,} preemptions",
        transform=ax.transAxes, ha="right", va="bottom", size=9,
    )  # fmt: skip


def _closed(values: list[float]) -> list[float]:
    """Values by bin, the last one repeated for the end of a line drawn in steps."""
    return [*values, values[-1]]


def _label(ax: Axes, x: float, y: float, text: str) -> None:
    """A name on an area, at a place given in parts of the panel."""
    ax.text(
        x, y, text, transform=ax.transAxes, ha="center", va="center", size=9,
        bbox={"facecolor": _PAPER, "edgecolor": "none", "pad": 1.5},
    )  # fmt: skip


def _delays(ax: Axes, data: Data) -> None:
    """TTFT p99 in its parts: a bar a run, grouped by rate."""
    rows = [
        (group * 5 + place, cell["name"], cell["ttft_p99"])
        for group, square in enumerate(data["squares"])
        for place, cell in enumerate(square["cells"])
    ]
    most = max(parts["total"] for _, _, parts in rows)
    for y, _, parts in rows:
        left = 0.0
        for name, phase, hatch in _PARTS:
            ax.barh(
                y, parts[name], 0.8, left, color=phase.ink.light, hatch=hatch, edgecolor=_PAPER,
                linewidth=0,
            )  # fmt: skip
            left += parts[name]
        ax.text(left + most * 0.01, y, f"{left:.1f} s", va="center", size=9)
    ax.set_yticks([y for y, _, _ in rows], [name for _, name, _ in rows])
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(rows[-1][0] + 1.6, -0.8)
    ax.set(xlim=(0, most * 1.3), xlabel="seconds", title="Time to first token, p99")
    for group, square in enumerate(data["squares"]):
        label = f"{square['rate']} requests/s"
        ax.text(most * 1.3, group * 5, label, ha="right", va="center", weight="bold")
    _name_parts(ax, rows[-1][0], rows[-1][2])


def _name_parts(ax: Axes, y: float, parts: dict[str, float]) -> None:
    """The names of the two large parts, below the longest bar."""
    for name, left in (("queueing", 0.0), ("recompute", parts["queueing"] + parts["prefill"])):
        ax.text(left + parts[name] / 2, y + 0.5, name, ha="center", va="top", size=9)


def _rates(ax: Axes, data: Data) -> None:
    """Output tokens a second by rate: a line a cell."""
    squares = data["squares"]
    rates = [square["rate"] for square in squares]
    *kept, fallen = zip(
        *([c["tokens_s"] for c in square["cells"]] for square in squares), strict=True
    )
    for line in kept:
        ax.plot(rates, line, "o-", color=DECODE.ink.light, ms=4)
    ax.plot(rates, fallen, "s--", color=PREEMPTED.ink.light, ms=4)
    asked = [rate * data["output_tokens"] for rate in rates]
    ax.plot(rates, asked, ":", color=SOFT.light, linewidth=1.2)
    top = kept[0][-1]
    ax.set(
        xlim=(rates[0] - 0.1, rates[-1] + 0.1), ylim=(0, asked[-1] * 1.06), xticks=rates,
        xlabel="requests a second", title="Output tokens a second",
    )  # fmt: skip
    ax.yaxis.set_major_formatter("{x:,.0f}")
    note: Any = {"ha": "right", "va": "top", "size": 9}
    ax.text(1.58, asked[-1] * 0.86, "asked for", color=SOFT.light, **note)
    ax.text(rates[-1], top * 0.91, f"either on:\n{top:,}", **note)
    loss = 1 - fallen[-1] / top
    ax.text(
        rates[-1], fallen[-1] * 0.93, f"both off: {fallen[-1]:,}\n(−{100 * loss:.0f} %)", **note
    )
