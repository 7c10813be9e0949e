"""Two public cases as pictures: what promising everything costs, and when it pays."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from kvsched.palette import DECODE, PAPER, PREEMPTED, PREFILL, SOFT, WAITING
from kvsched.plots import WIDTH
from kvsched.views.reservations_cases import POOLS, PROMISES, signs_of_report
from kvsched.views.view import Data

_BARS = {
    "whole": ("promise all", PREFILL.ink.light, ""),
    "truncate": ("the prompt, cut short", WAITING.ink.light, "...."),
    "preempt": ("the prompt, preempt", PREEMPTED.ink.light, "////"),
}
_PANELS = (
    ("tokens_s", "Output tokens/s"),
    ("tpot_p99", "Time per output token, p99"),
    ("e2e_p99", "End to end, p99"),
    ("ttft_p50", "Time to first token, median"),
)
_MARKS = {
    "whole": ("o", PREFILL.ink.light, "promising all is better"),
    "preempt": ("s", PREEMPTED.ink.light, "preemption is better"),
    "tie": ("D", SOFT.light, "no difference"),
}

_BAND = 0.2


def draw_pools(ours: Data, report: Data) -> Figure:
    """Case 34: ``views.reservations_cases.pools``, beside the report's table."""
    figure, axes = plt.subplots(
        1, 2, figsize=(WIDTH, 3.3), sharey=True, width_ratios=(1.35, 1)
    )  # fmt: skip
    _bars(axes[0], ours, "Simulated")
    _bars(axes[1], report, "The report")
    axes[0].set_ylabel("share of the roomy pool’s tokens/s")
    axes[0].yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    axes[0].set_ylim(0, 1.38)
    axes[0].legend(loc="upper right", ncols=1, handlelength=1.2, borderaxespad=0)
    return figure


def _bars(ax: Axes, data: Data, title: str) -> None:
    """A group a pool, a bar a promise, as a share of promising all in the largest pool."""
    base = data["tokens_s"]["whole"][0]
    promises = [promise for promise in PROMISES if promise in data["tokens_s"]]
    wide = 0.8 / len(promises)
    for place, promise in enumerate(promises):
        name, colour, hatch = _BARS[promise]
        for group, rate in enumerate(data["tokens_s"][promise]):
            x = group + wide * (place - (len(promises) - 1) / 2)
            how: Any = {"color": colour, "hatch": hatch, "edgecolor": PAPER.light, "linewidth": 0}
            ax.bar(x, rate / base, wide * 0.92, label=name if group == 0 else None, **how)
            note = _note(data, promise, group, rate)
            ax.text(x, rate / base + 0.015, note, ha="center", va="bottom", size=8)
    ax.set_xticks(range(len(POOLS)), [f"{blocks:,}" for blocks in POOLS])
    ax.tick_params(axis="x", length=0)
    ax.set(xlabel="blocks of the pool", title=title)


def _note(data: Data, promise: str, group: int, rate: float) -> str:
    """The rate itself, and what it cost."""
    cut, out = (
        data.get(key, {}).get(promise, [0] * 3)[group] for key in ("truncated", "preempted")
    )
    if cut:
        return f"{cut} cut\n{rate:,}"
    return f"{out} out\n{rate:,}" if out else f"{rate:,}"


def draw_rates(rows: list[Data]) -> Figure:
    """Case 35: ``views.reservations_cases.rates``, preemption measured against promising all."""
    figure, axes = plt.subplots(1, 4, figsize=(WIDTH, 3.2), sharex=True)
    for ax, (key, title) in zip(axes, _PANELS, strict=True):
        _panel(ax, rows, key, title)
    figure.supxlabel("requests a second", size=10, color=SOFT.light)
    axes[0].set_ylabel("with preemption, against\npromising all")
    entries: list[Any] = [
        Line2D([], [], marker=mark, color=colour, linestyle="none", markersize=5, label=words)
        for mark, colour, words in _MARKS.values()
    ]
    entries.append(
        Patch(color=DECODE.ink.light, alpha=_BAND, linewidth=0, label="all four as reported")
    )
    figure.legend(handles=entries, loc="outside upper left", ncols=4, columnspacing=1.4)
    return figure


def _panel(ax: Axes, rows: list[Data], key: str, title: str) -> None:
    rates = [row["rate"] for row in rows]
    changes = [row[key][1] / row[key][0] - 1 for row in rows]
    ax.axhline(0, color=SOFT.light, linewidth=0.8, zorder=0)
    ax.plot(rates, changes, color=DECODE.ink.light, linewidth=1, zorder=1)
    for row, rate, change in zip(rows, rates, changes, strict=True):
        mark, colour, _ = _MARKS[row["better"][key]]
        ax.plot(rate, change, mark, color=colour, markersize=5)
        if signs_of_report(row):
            ax.axvspan(rate - 0.3, rate + 0.3, color=DECODE.ink.light, alpha=_BAND, linewidth=0)
    ax.set_title(title.replace(", ", ",\n"), size=9.5)
    ax.margins(x=0.12, y=0.18)
    ax.yaxis.set_major_formatter(_signed)


def _signed(value: float, _: object) -> str:
    """A change in per cent, with a minus sign that is one."""
    return f"{100 * value:+.0f} %".replace("-", "−") if abs(value) > 1e-6 else "0"
