"""One order with its reasons, above all orders side by side."""

from __future__ import annotations

from typing import Any

from kvsched.views.svg import element, ink, num, picture, text
from kvsched.views.view import Data, Selection, Table

WIDTH = 460
ROW, TOP = 40, 30
"""Height of a request's row, and where the first begins."""
BAR, RIGHT = 64, 454
LINE = 24
"""Height of an order's line."""
_SOFT: dict[str, str | float] = {"fill": ink("soft")}


def draw(data: Data, selection: Selection) -> str:
    """The picked order as rows, then a line for each order with the picked one marked."""
    pick = selection.get("pick", 0)
    orders = data["orders"]
    longest = max(row["prompt"] for row in orders[0]["rows"])
    below = TOP + ROW * len(orders[0]["rows"]) + 34
    return picture(
        WIDTH,
        below + LINE * len(orders) + 6,
        data["alt"],
        text("Place", 4, 14, font_weight="600"),
        text("Prompt", BAR, 14, font_weight="600"),
        *_legend(RIGHT),
        *(_rows(order, i, longest, i == pick) for i, order in enumerate(orders)),
        text("All eight orders", 4, below - 12, font_weight="600"),
        *(_line(order, i, below + LINE * i, i == pick) for i, order in enumerate(orders)),
        class_="kv-ordering",
        fill=ink("text"),
        font_size="12.5",
        font_family="sans-serif",
    )


def _legend(right: float) -> list[str]:
    return [
        element("rect", x=right - 164, y=5, width=18, height=10, **_cached()),
        text("cached", right - 141, 14, **_SOFT),
        element("rect", x=right - 90, y=5, width=18, height=10, fill=ink("prefill")),
        text("to compute", right - 67, 14, **_SOFT),
    ]


def _cached() -> dict[str, str | float]:
    return {"fill": ink("track"), "stroke": ink("soft"), "stroke_width": 1}


def _rows(order: dict[str, Any], number: int, longest: int, current: bool) -> str:
    """What is seen only while this order is picked."""
    return element(
        "g",
        *(_row(row, TOP + ROW * i, longest) for i, row in enumerate(order["rows"])),
        class_=f"kv-layer{' is-current' if current else ''}",
        display="inline" if current else "none",
        data_pick=number,
    )


def _row(row: dict[str, Any], top: float, longest: int) -> str:
    """Place and id, the prompt's cached and uncached part, and the reason below."""
    scale = (RIGHT - BAR) / longest
    cached, rest = row["cached"] * scale, (row["prompt"] - row["cached"]) * scale
    parts = [
        text(f"{row['place']}.", 30, top + 12, text_anchor="end", **_SOFT),
        text(row["id"], 42, top + 12, font_weight="600"),
        element("rect", x=BAR + cached, y=top + 2, width=rest, height=11, fill=ink("prefill")),
        text(row["reason"], BAR, top + 28),
    ]
    if cached:
        box = element("rect", x=BAR + 0.5, y=top + 2.5, width=cached - 0.5, height=10, **_cached())
        parts.append(box)
    return element("g", *parts)


def _line(order: dict[str, Any], number: int, top: float, current: bool) -> str:
    """One order's ids from left to right; the whole line can be hit."""
    name = order["name"] if order["active"] else f"{order['name']} (off)"
    ids = [
        text(row["id"], 136 + 43 * i, top + 16, text_anchor="middle", font_weight="600")
        for i, row in enumerate(order["rows"])
    ]
    frame = element(
        "rect", x=1, y=top, width=WIDTH - 2, height=LINE - 2, rx=3, fill="none",
        class_=f"kv-pick{' is-current' if current else ''}", data_pick=number,
        stroke=ink("text") if current else "none", stroke_width=1.5,
    )  # fmt: skip
    rule = element("path", d=f"M4 {num(top + LINE - 1)}H{RIGHT}", stroke=ink("hairline"))
    return element("g", rule, text(name, 8, top + 16, **_SOFT), *ids, frame)


def table(data: Data) -> Table:
    """Every request's place and reason under every order."""
    rows: list[tuple[str | tuple[str, str], ...]] = [
        (
            order["name"],
            f"{row['place']}",
            row["id"],
            f"{row['prompt']:,}",
            f"{row['cached']:,}",
            row["reason"],
        )
        for order in data["orders"]
        for row in order["rows"]
    ]
    head = ("order", "place", "request", "prompt, tokens", "cached", "why")
    return Table("Every order in words", head, rows)
