"""What the policies find in the cache, over the number of clients."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from kvsched.palette import DECODE, PREFILL, SOFT, WAITING
from kvsched.plots import WIDTH
from kvsched.sglang.policy import LPM_LIMIT
from kvsched.views.ordering_load import SLOTS
from kvsched.views.view import Data

_LINES = (
    ("dfs-weight", DECODE.ink.light, "--", -1, 8),
    ("fcfs", WAITING.ink.light, ":", -1, -14),
    ("lpm", PREFILL.ink.light, "-", 4, 8),
)
"""Policy, colour, line; the point that its name stands at, and how far above, in points."""


def draw(data: Data) -> Figure:
    """The figure of ``views.ordering_load.sweep``'s dict, in the house style."""
    figure, ax = plt.subplots(figsize=(WIDTH, 3.2))
    for policy, colour, line, named, above in _LINES:
        points = list(zip(data["clients"], data["shares"][policy], strict=True))
        ax.plot(*zip(*points, strict=True), line, color=colour, marker="o", markersize=4)
        how: Any = {"textcoords": "offset points", "size": 9, "ha": "right"}
        ax.annotate(policy, points[named], (0, above), color=colour, **how)
    edge = LPM_LIMIT + SLOTS - 0.5
    ax.axvline(edge, color=SOFT.light, linewidth=0.8, linestyle="--", zorder=0)
    ax.text(edge + 2, 0.5, f"more than {LPM_LIMIT} queued", size=9)
    ax.set_xlabel("clients")
    ax.set_ylim(0, 1)
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    ax.set_title("Prompt tokens found in the cache")
    return figure
