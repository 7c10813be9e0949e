"""How long requests of four sizes wait, for what they ask and at worst, under two orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from kvsched.cases.starving import Sizes
from kvsched.palette import PREFILL, WAITING
from kvsched.plots import WIDTH

_LINES = (("fcfs", WAITING.ink.light, "--", 6), ("HRRN", PREFILL.ink.light, "-", -13))
"""Order, colour, line, and how far above the line its name stands, in points."""


def draw(found: Mapping[str, Sequence[Sizes]]) -> Figure:
    """The figure of case 18's runs by order, in the house style."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 3.0))
    for name, colour, line, above in _LINES:
        sizes = found[name]
        tokens = [f"{size.tokens:,}" for size in sizes]
        for ax, values in (
            (left, [size.slowdown for size in sizes]),
            (right, [size.longest / 1e6 for size in sizes]),
        ):
            ax.plot(tokens, values, line, color=colour, marker="o", markersize=4)
            how: Any = {"textcoords": "offset points", "size": 9, "color": colour}
            ax.annotate(name, (1, values[1]), (6, above), **how)
    left.set_title("(wait + service) / service, mean")
    right.set_title("Longest wait, s")
    for ax in (left, right):
        ax.set_ylim(0)
        ax.margins(y=0.1)
        ax.set_xlabel("prompt, tokens")
    return figure
