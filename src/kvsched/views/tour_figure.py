"""The small run as a picture: a column a step, the pool's limit above, losses in red."""

from __future__ import annotations

from kvsched.views.svg import element, ink, picture, text
from kvsched.views.view import Data, Selection, Table

WIDTH, HEIGHT = 460, 176
LEFT, RIGHT, TOP, BOTTOM = 28, 456, 22, 148


def draw(data: Data, selection: Selection) -> str:
    """Blocks in use by step, with the selected step outlined."""
    steps, limit = data["steps"], data["blocks"]
    wide = (RIGHT - LEFT) / len(steps)
    columns, losses, frames = [], [], []
    for index, step in enumerate(steps):
        x = LEFT + wide * index
        high = (BOTTOM - TOP) * step["used"] / limit
        columns.append(
            element("rect", x=x, y=BOTTOM - high, width=max(wide - 0.5, 0.5), height=high)
        )
        if step["out"]:
            losses.append(element("rect", x=x, y=TOP, width=3, height=BOTTOM - TOP))
            losses.append(text(" ".join(step["out"]), x, TOP - 6, font_weight="600"))
        frames.append(_frame(x, wide, index, index == selection.get("step", 0)))
    return picture(
        WIDTH,
        HEIGHT,
        data["alt"],
        *_axis(limit, len(steps) - 1),
        element("g", *columns, fill=ink("decode")),
        element("g", *losses, fill=ink("preempted")),
        *frames,
        class_="kv-tour",
        font_size="12.5",
        font_family="sans-serif",
    )


def _axis(limit: int, last: int) -> list[str]:
    soft: dict[str, str | float] = {"fill": ink("soft")}
    return [
        element("path", d=f"M{LEFT} {TOP}H{RIGHT}", stroke=ink("text"), stroke_width=1),
        text(f"{limit}", LEFT - 6, TOP + 4, text_anchor="end", **soft),
        text("0", LEFT - 6, BOTTOM, text_anchor="end", **soft),
        text("step 0", LEFT, BOTTOM + 20, **soft),
        text(f"{last}", RIGHT, BOTTOM + 20, text_anchor="end", **soft),
    ]


def _frame(x: float, wide: float, step: int, current: bool) -> str:
    """The outline of one column; it is also what a pointer hits."""
    return element(
        "rect", x=x - 1, y=TOP - 2, width=wide + 2, height=BOTTOM - TOP + 4, rx=2, fill="none",
        stroke=ink("text") if current else "none", stroke_width=1.5,
        class_=f"kv-step{' is-current' if current else ''}", data_step=step,
    )  # fmt: skip


def table(data: Data) -> Table:
    """Every step: blocks in use and what happens."""
    rows: list[tuple[str | tuple[str, str], ...]] = [
        (str(index), str(step["used"]), step["says"]) for index, step in enumerate(data["steps"])
    ]
    return Table("Every step in words", ("step", "blocks in use", "what happens"), rows)
