"""How far two passes over the same tokens lie apart, by dtype, and how far they would have to."""

from __future__ import annotations

import math
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kvsched.palette import DECODE, PREFILL, SOFT, WAITING
from kvsched.plots import WIDTH
from kvsched.views.view import Data

_LOW, _HIGH = -50, 2
"""Powers of two shown; a pass that differs in nothing is drawn below them."""
_PASSES = (("recomputed", PREFILL.ink.light, 0.0), ("in company", DECODE.ink.light, 0.45))
"""Name, colour, and how far right of its bin a bar begins."""


def draw(data: Data, title: str) -> Figure:
    """The figure of ``views.same_answer.recorded("precision")``, in the house style.

    One panel for each dtype, from its finest to its coarsest; bars are shares of all decodes.
    """
    dtypes = data["dtypes"]
    figure, axes = plt.subplots(len(dtypes), 1, figsize=(WIDTH, 4.6), sharex=True)
    for ax, (dtype, told) in zip(axes, dtypes.items(), strict=True):
        _panel(ax, dtype, told)
    axes[0].set_title(title)
    ticks = range(-48, _HIGH + 1, 8)
    axes[-1].set_xticks([_LOW - 2, *ticks], ["none", *(f"$2^{{{b}}}$" for b in ticks)])
    axes[-1].set_xlabel("largest difference of a logit")
    return figure


def _panel(ax: Axes, dtype: str, told: dict[str, Any]) -> None:
    for name, colour, aside in _PASSES:
        found = told[name]
        bins = {_LOW - 2: found["equal"]} | {int(b): n for b, n in found["bins"].items()}
        places = [b + aside for b in bins]
        shares = [n / found["count"] for n in bins.values()]
        ax.bar(places, shares, width=0.45, align="edge", color=colour)
    _gap(ax, told["gap"])
    ax.text(0.01, 0.86, dtype, transform=ax.transAxes, weight="bold")
    count = told["recomputed"]["count"]
    ax.text(0.13, 0.86, f"another token, of {count}:", transform=ax.transAxes, size=9)
    for (name, colour, _), x in zip(_PASSES, (0.35, 0.5), strict=True):
        said = f"{told[name]['flips']} {name}"
        ax.text(x, 0.86, said, transform=ax.transAxes, size=9, color=colour, weight="bold")
    ax.set_ylim(0, 1.25)
    ax.set_xlim(_LOW - 3, _HIGH + 1)
    ax.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
    ax.spines["left"].set_visible(False)


def _gap(ax: Axes, gap: list[float]) -> None:
    """Where the middle half of the distances between the two largest logits lies."""
    low, high = (math.log2(g) for g in (gap[1], gap[3]))
    ax.axvspan(low, high, color=WAITING.ink.light, alpha=0.15, linewidth=0)
    ax.text(low - 0.3, 1.02, "gap to the second", size=8, color=SOFT.light, ha="right")
