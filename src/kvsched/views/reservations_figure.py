"""The pool as a stack over time: taken, promised, draining, slack."""

from __future__ import annotations

from typing import Any

from kvsched.views.svg import element, ink, num, picture, text
from kvsched.views.view import Data, Selection, Table

WIDTH, HEIGHT = 460, 268
LEFT, RIGHT = 38, 452
TOP, BOTTOM = 44, 222
_SOFT: dict[str, str | float] = {"fill": ink("soft")}
STACK = (
    ("taken", ink("decode"), "none"),
    ("promised", ink("track"), ink("decode")),
    ("draining", ink("draining"), "none"),
)
"""From the bottom up, with fill and outline; what is left above is slack."""


def draw(data: Data, selection: Selection) -> str:
    """The pool under each promise, of which the picked one is seen."""
    pick = selection.get("pick", 0)
    layers = [_layer(data, row, row == pick) for row in range(len(data["points"]))]
    return picture(
        WIDTH,
        HEIGHT,
        data["alt"],
        text("Blocks over ticks", 4, 14, font_weight="600"),
        *_legend(),
        *layers,
        *_axes(data),
        class_="kv-reservations",
        fill=ink("text"),
        font_size="12.5",
        font_family="sans-serif",
    )


def _legend() -> list[str]:
    marks = []
    for place, (name, fill, stroke) in enumerate(STACK):
        x = LEFT + 92 * place
        marks += [
            element("rect", x=x, y=22, width=11, height=11, fill=fill, stroke=stroke),
            text(name, x + 16, 32),
        ]
    return [*marks, text("above them: slack", LEFT + 276, 32, **_SOFT)]


def _axes(data: Data) -> list[str]:
    middle = (LEFT + RIGHT) / 2
    return [
        element("path", d=f"M{LEFT} {TOP}H{RIGHT}", stroke=ink("text"), stroke_dasharray="4 3"),
        element("path", d=f"M{LEFT} {BOTTOM}H{RIGHT}", stroke=ink("hairline-strong")),
        text(f"{data['blocks']}", LEFT - 6, TOP + 5, text_anchor="end", **_SOFT),
        text("0", LEFT - 6, BOTTOM + 4, text_anchor="end", **_SOFT),
        text("tick 0", LEFT, BOTTOM + 17, **_SOFT),
        text(f"{data['until'] // 2}", middle, BOTTOM + 17, text_anchor="middle", **_SOFT),
        text(f"{data['until']}", RIGHT, BOTTOM + 17, text_anchor="end", **_SOFT),
    ]


def _layer(data: Data, row: int, current: bool) -> str:
    """One promise: three areas, and where its last request completes."""
    point = data["points"][row]
    until = max(1, data["until"])
    areas = []
    for level, (_, fill, stroke) in reversed(list(enumerate(STACK))):
        path = _area(point["pool"], level, data["blocks"], until)
        areas.append(element("path", d=path, fill=fill, stroke=stroke))
    end = LEFT + (RIGHT - LEFT) * point["end"] / until
    anchor = "end" if end > RIGHT - 60 else "middle"
    return element(
        "g",
        *areas,
        element("path", d=f"M{num(end)} {TOP - 4}V{BOTTOM + 4}", stroke=ink("text")),
        text(f"all done at {point['end']}", end, HEIGHT - 12, text_anchor=anchor),
        class_=f"kv-layer{' is-current' if current else ''}",
        display="inline" if current else "none",
        data_pick=row,
    )


def _area(pool: list[list[int]], level: int, blocks: int, until: int) -> str:
    """The outline of the lowest ``level + 1`` parts together, a step at a time."""
    wide, tall = (RIGHT - LEFT) / until, (BOTTOM - TOP) / blocks
    path = [f"M{LEFT} {BOTTOM}"]
    for t, *parts in pool:
        x, y = LEFT + wide * min(t, until), BOTTOM - tall * sum(parts[: level + 1])
        path.append(f"H{num(x)}V{num(y)}")
    return f"{''.join(path)}H{RIGHT}V{BOTTOM}Z"


def table(data: Data) -> Table:
    """Every promise in numbers."""
    rows: list[tuple[str | tuple[str, str], ...]] = [_row(point) for point in data["points"]]
    head = ("promise", "complete", "last at", "TTFT mean", "preemptions", "tokens again", "waits")
    return Table("Every promise in numbers", head, rows)


def _row(point: dict[str, Any]) -> tuple[str, ...]:
    waits = ", ".join(f"{name} {count}" for name, count in point["waits"].items()) or "none"
    return (
        point["pick"],
        f"{point['done']}",
        f"{point['end']}",
        f"{point['ttft']}",
        f"{point['preempted']}",
        f"{point['recomputed']}",
        waits,
    )
