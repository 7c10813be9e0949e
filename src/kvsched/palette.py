"""The house palette: one colour per display phase, and the inks around them, for light and dark.

Widgets, figures and pages take their colours from here. Colour is never alone: `Phase.form` says
which shape carries the same news. `tests/test_palette.py` recomputes that any two phases stay
apart under normal and colour-blind vision, and that every ink can be read on the paper.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Ink:
    """One colour, as `#rrggbb`, on light paper and on dark."""

    light: str
    dark: str


@dataclass(frozen=True, slots=True)
class Phase:
    """A display phase: every state of every engine is shown as one of these."""

    name: str
    ink: Ink
    form: str

    @property
    def slug(self) -> str:
        """The name as CSS and file names spell it."""
        return self.name.replace(" ", "-")


WAITING = Phase("waiting", Ink("#696969", "#868686"), "thin bar on the baseline")
BLOCKED = Phase(
    "blocked outside", Ink("#78216e", "#bf8df3"), "thin bar with a dotted line above it"
)
PREFILL = Phase("prefill", Ink("#1a4aac", "#1e6dc8"), "solid step; earlier chunks at 34 %")
DECODE = Phase("decode", Ink("#5096c7", "#8dcad1"), "solid area, one dot under it per token sent")
PREEMPTED = Phase(
    "preempted", Ink("#bc3311", "#ee6716"), "cliff bar with arrow, then hatch over a thin bar"
)
DRAINING = Phase("draining", Ink("#ad8b29", "#fdd16b"), "solid area under a second outline")
DONE = Phase("done", Ink("#d0cbc5", "#46433b"), "ringed dot; the ring carries it")

PHASES = (WAITING, BLOCKED, PREFILL, DECODE, PREEMPTED, DRAINING, DONE)

PAPER = Ink("#fbfaf6", "#14161a")
TEXT = Ink("#1c1d20", "#eceae4")
SOFT = Ink("#5b5c61", "#a3a5aa")

INKS = MappingProxyType(
    {
        "paper": PAPER,
        "text": TEXT,
        "soft": SOFT,
        "prefill-text": Ink("#1a4aac", "#84aef2"),  # text in the colour of prefill, links
        "on-decode": Ink("#0d1c27", "#08252b"),  # a label on a decode area
        "on-prefill": Ink("#ffffff", "#ffffff"),  # a label on a prefill area
        "done-ring": Ink("#77736b", "#8d8880"),
        "hairline": Ink("#dedad0", "#2c3037"),
        "hairline-strong": Ink("#c3beb2", "#444952"),
        "track": Ink("#f4f2ec", "#1b1e23"),
        "focus": Ink("#1a4aac", "#8cb4ff"),
    }
)

LIGHT = ":root"
DARK = 'html[data-theme="dark"]'


def _named_inks() -> Iterator[tuple[str, Ink]]:
    yield from ((f"--kv-{phase.slug}", phase.ink) for phase in PHASES)
    yield from ((f"--kv-{name}", ink) for name, ink in INKS.items())


def css() -> str:
    """Every colour as a custom property: `--kv-decode`, `--kv-blocked-outside`, `--kv-paper`, …"""
    return properties(LIGHT, DARK)


def properties(light: str, dark: str) -> str:
    """The same for the elements that these two selectors choose under either theme."""
    by_day = "\n".join(f"  {name}: {ink.light};" for name, ink in _named_inks())
    by_night = "\n".join(f"  {name}: {ink.dark};" for name, ink in _named_inks())
    return f"{light} {{\n{by_day}\n}}\n{dark} {{\n{by_night}\n}}\n"
