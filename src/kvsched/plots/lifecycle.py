"""What victims held and gave back under two rankings, and the rows that each ranking cost."""

from __future__ import annotations

from collections import Counter
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kvsched.palette import DECODE, PREEMPTED, SOFT
from kvsched.plots import WIDTH
from kvsched.views.view import Data

_STYLE = {
    "longest context": (PREEMPTED.ink.light, "o", 2),
    "most recoverable pages": (DECODE.ink.light, "s", 0),
}
"""Colour, mark, and the pool at which a line is named."""


def draw(data: Data) -> Figure:
    """The figure of ``views.lifecycle_victims.sweep``'s dict, in the house style."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 3.4))
    _victims(left, data)
    for name, (colour, marker, named) in _STYLE.items():
        rows = data["replayed"][name]
        right.plot(data["pools"], rows, color=colour, marker=marker, markersize=4)
        how: Any = {"textcoords": "offset points", "size": 9, "ha": "left"}
        right.annotate(name, (data["pools"][named], rows[named]), (8, 4), color=colour, **how)
    right.set_xticks(data["pools"])
    right.set_ylim(0)
    right.set_xlabel("pages in the pool")
    right.set_title("Rows computed again")
    return figure


def _victims(ax: Axes, data: Data) -> None:
    """A mark for each pair of held and freed, as large as it is frequent; the diagonal is all."""
    most = max(held for pairs in data["victims"].values() for held, _ in pairs) + 1
    ax.plot((0, most), (0, most), color=SOFT.light, linewidth=0.8, linestyle="--", zorder=0)
    ax.text(most - 3.4, most - 2.4, "all it held", size=9, rotation=33, ha="center")
    for (name, (colour, marker, _)), aside in zip(_STYLE.items(), (-0.12, 0.12), strict=True):
        counts = Counter(map(tuple, data["victims"][name]))
        xs, ys = zip(*((held + aside, freed) for held, freed in counts), strict=True)
        sizes = [16 * count for count in counts.values()]
        ax.scatter(xs, ys, s=sizes, color=colour, marker=marker, alpha=0.85, linewidths=0)
    ax.set_xlim(0, most)
    ax.set_ylim(-0.6, most)
    ax.set_xlabel("pages that the victim held")
    ax.set_title("Pages that came free")
