"""Two log lines as a picture: lines that fall to one level, and bounds on an axis of time."""

from __future__ import annotations

from typing import Any

from kvsched.views.svg import element, ink, num, picture, text
from kvsched.views.view import Data, Selection, Table

WIDTH = 460
LEFT, RIGHT = 58, 440
TOP, BOTTOM = 34, 150
BARS, ROW, NAMES, ENDS = 216, 26, 58, 370
LONG = 330
"""Where a bar begins so far to the right that its bounds stand before it."""
_SOFT: dict[str, str | float] = {"fill": ink("soft")}


def draw(data: Data, selection: Selection) -> str:
    """The falling ratio at every conservativeness, then a bar of bounds for each."""
    pick = selection.get("pick", 0)
    points = data["points"]
    longest = max([1, *(point["steps"][0] for point in points if point["steps"])])
    slowest = max([1.0, *(point["ms"][1] for point in points if point["ms"])])
    end = BARS + ROW * len(points)
    return picture(
        WIDTH,
        end + 26,
        data["alt"],
        text("new_token_ratio", 4, 14, font_weight="600"),
        element("path", d=f"M{LEFT} {BOTTOM}H{RIGHT}", stroke=ink("hairline-strong")),
        text(f"{data['assigned']:.4f}", LEFT - 6, TOP + 5, text_anchor="end", **_SOFT),
        text(f"{data['found']:.4f}", LEFT - 6, BOTTOM + 4, text_anchor="end", **_SOFT),
        text("first line", LEFT, BOTTOM + 18, **_SOFT),
        text(
            f"{longest:,} decode step{'s' if longest > 1 else ''}",
            RIGHT,
            BOTTOM + 18,
            text_anchor="end",
            **_SOFT,
        ),
        *(_fall(point, row, longest, row == pick) for row, point in enumerate(points)),
        text("A decode step, ms", 4, BARS - 14, font_weight="600"),
        *(_bar(point, row, slowest, row == pick) for row, point in enumerate(points)),
        text("0", NAMES, end + 16, text_anchor="middle", **_SOFT),
        text(f"{slowest:,.0f} ms", ENDS, end + 16, text_anchor="middle", **_SOFT),
        class_="kv-two-lines",
        fill=ink("text"),
        font_size="12.5",
        font_family="sans-serif",
    )


def _fall(point: dict[str, Any], row: int, longest: int, current: bool) -> str:
    """The line of one conservativeness, if the two values can be its own; heavy while picked."""
    if point["steps"] is None:
        return ""
    x = LEFT + (RIGHT - LEFT) * point["steps"][0] / longest
    path = f"M{LEFT} {TOP}L{num(x)} {BOTTOM}"
    heavy = element(
        "g",
        element("path", d=path, stroke=ink("prefill"), stroke_width=2.2),
        element("circle", cx=x, cy=BOTTOM, r=4, fill=ink("prefill")),
        class_=f"kv-layer{' is-current' if current else ''}",
        display="inline" if current else "none",
        data_pick=row,
    )
    return element("path", d=path, stroke=ink("hairline-strong"), stroke_width=1.4) + heavy


def _bar(point: dict[str, Any], row: int, slowest: float, current: bool) -> str:
    """From the lower to the upper bound of a step, or words where there is none."""
    y = BARS + ROW * row
    if point["ms"] is None:
        bar = text("it cannot be this one", NAMES + 4, y + 12, **_SOFT)
    else:
        low, high = (NAMES + (ENDS - NAMES) * ms / slowest for ms in point["ms"])
        least, most = point["ms"]
        beside: tuple[float, str] = (high + 6, "start") if low < LONG else (low - 6, "end")
        bar = element(
            "g",
            element(
                "rect", x=low, y=y + 2, width=max(2, high - low), height=13, fill=ink("decode")
            ),
            text(bounds(least, most), beside[0], y + 13, text_anchor=beside[1]),
        )
    return element(
        "g",
        text(f"{point['value']:g}", NAMES - 8, y + 13, text_anchor="end", **_SOFT),
        bar,
        element(
            "rect", x=2, y=y - 3, width=WIDTH - 4, height=ROW - 3, rx=2, fill="none",
            class_=f"kv-pick{' is-current' if current else ''}", data_pick=row,
            stroke=ink("text") if current else "none", stroke_width=1.5,
        ),
    )  # fmt: skip


def table(data: Data) -> Table:
    """Every conservativeness in numbers."""
    rows: list[tuple[str | tuple[str, str], ...]] = [
        (f"{point['value']:g}", f"{point['min']:.4f}", f"{point['decay']:.7f}", _steps(point),
         point["short"])
        for point in data["points"]
    ]  # fmt: skip
    head = ("conservativeness", "floor", "decay", "decode steps", "time of one")
    return Table("Every conservativeness in numbers", head, rows)


def _steps(point: dict[str, Any]) -> str:
    if point["steps"] is None:
        return "–"
    low, high = point["steps"]
    if high is None:
        return f"{low} or more"
    return f"{low}" if low == high else f"{low} to {high}"


def bounds(least: float, most: float) -> str:
    """Two bounds in milliseconds, with a decimal if small or close; ``least`` 0: there is none."""
    fine = most < 10 or 0 < least > most - 1
    low, high = (f"{value:,.1f}" if fine else f"{value:,.0f}" for value in (least, most))
    return f"{low} to {high}" if least else f"below {high}"
