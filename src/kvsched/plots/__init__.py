"""The house style of figures, for Matplotlib: the page's paper, inks and sans, no frame."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
from cycler import cycler
from matplotlib_inline.backend_inline import set_matplotlib_formats

from kvsched.palette import BLOCKED, DECODE, DRAINING, INKS, PAPER, PREEMPTED, PREFILL, SOFT, TEXT

WIDTH = 7.6
"""Inches: a figure of this width fills the column of the page."""

_STRONG = INKS["hairline-strong"].light

STYLE: Any = {
    "figure.figsize": (WIDTH, 3.0),
    "figure.facecolor": PAPER.light,
    "figure.constrained_layout.use": True,
    "savefig.facecolor": PAPER.light,
    "axes.facecolor": PAPER.light,
    "axes.edgecolor": _STRONG,
    "axes.labelcolor": SOFT.light,
    "axes.titlecolor": TEXT.light,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "axes.prop_cycle": cycler(
        color=[phase.ink.light for phase in (PREFILL, DECODE, PREEMPTED, DRAINING, BLOCKED)]
    ),
    "xtick.color": _STRONG,
    "ytick.color": _STRONG,
    "xtick.labelcolor": SOFT.light,
    "ytick.labelcolor": SOFT.light,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "text.color": TEXT.light,
    "font.family": "sans-serif",
    "font.sans-serif": ["Helvetica Neue", "Helvetica", "Arial", "Liberation Sans", "DejaVu Sans"],
    "font.size": 10,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "hatch.linewidth": 0.6,
    "lines.linewidth": 1.6,
}


def style() -> None:
    """Set the house style for every figure that follows, sharp on dense screens."""
    mpl.rcParams.update(STYLE)
    set_matplotlib_formats("retina")  # type: ignore[no-untyped-call]
