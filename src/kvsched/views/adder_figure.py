"""A pass as bars that begin where the last one ended, above all four passes side by side."""

from __future__ import annotations

from typing import Any

from kvsched.views.svg import element, ink, num, picture, text
from kvsched.views.view import Data, Selection, Table

WIDTH = 460
LEFT, RIGHT = 24, 268
"""Of the bars."""
SIDES, VERDICT = 376, 384
"""Where the comparison ends and the verdict begins."""
ROW, BAR, TOP = 21, 12, 52
LINE = 26
"""Height of a pass's line below."""
NARROW = (96, 300)
"""The bars of those lines."""
_SOFT: dict[str, str | float] = {"fill": ink("soft")}
Attributes = dict[str, str | float]
FORMS: dict[str, Attributes] = {
    "reserved": {"fill": ink("decode"), "fill_opacity": 0.34, "stroke": ink("decode")},
    "found": {"fill": ink("track"), "stroke": ink("soft")},
    "computed": {"fill": ink("prefill")},
    "later": {"fill": ink("prefill"), "fill_opacity": 0.17, "stroke": ink("prefill")},
    "asked": {"fill": ink("track"), "stroke": ink("waiting")},
    "beyond": {"fill": ink("preempted")},
}
"""What a part of a bar looks like: an outline is memory that is counted and not taken."""


def draw(data: Data, selection: Selection) -> str:
    """The picked pass request by request, then a line for each pass with the picked one marked."""
    pick = selection.get("pick", 0)
    points = data["points"]
    most = max(_extent(point) for point in points)
    below = TOP + ROW * (len(data["waiting"]) + 3) + 34
    return picture(
        WIDTH,
        below + LINE * len(points) + 4,
        data["alt"],
        text("Tokens of memory", 4, 14, font_weight="600"),
        text("asked, left", SIDES, 14, text_anchor="end", **_SOFT),
        text("verdict", VERDICT, 14, **_SOFT),
        *_legend(),
        *(_pass(data, i, (RIGHT - LEFT) / most, i == pick) for i in range(len(points))),
        text("All four passes", 4, below - 10, font_weight="600"),
        *(_line(data, i, most, below + LINE * i, i == pick) for i in range(len(points))),
        class_="kv-adder",
        fill=ink("text"),
        font_size="12.5",
        font_family="sans-serif",
    )


def _extent(point: dict[str, Any]) -> int:
    """How far the longest bar of a pass reaches."""
    there = point["free"] + point["evictable"]
    ends = [there - t["left"] + t["found"] + t["computed"] + t["later"] for t in point["tried"]]
    longest: int = max(there, point["reserved"], *ends)
    return longest


def _legend() -> list[str]:
    marks, x = [], float(LEFT)
    for form, words, wide in (
        ("reserved", "reserved", 82), ("computed", "prompt", 72),
        ("later", "outputs and page", 126), ("found", "found", 64), ("beyond", "too much", 0),
    ):  # fmt: skip
        marks += [_bar(x, 24, 11, form), text(words, x + 16, 34)]
        x += wide
    return marks


def _bar(x: float, y: float, wide: float, form: str) -> str:
    return element("rect", x=x, y=y, width=wide, height=BAR, **FORMS[form])


def _pass(data: Data, number: int, scale: float, current: bool) -> str:
    """What is seen only while this pass is picked."""
    point = data["points"][number]
    there = point["free"] + point["evictable"]
    tried = {row["id"]: row for row in point["tried"]}
    last = point["tried"][-1]["id"]
    y = {name: TOP + ROW * (2 + i) for i, name in enumerate(data["waiting"])}
    rows = [
        _row(tried[name], there, y[name], scale, name == last)
        if name in tried
        else _untried(name, y[name])
        for name in data["waiting"]
    ]
    limit = LEFT + scale * there
    foot = TOP + ROW * (2 + len(rows))
    return element(
        "g",
        *_pool(point, data["running"], scale),
        *rows,
        *_budget(point, foot),
        element("path", d=f"M{num(limit)} {TOP - 6}V{foot - 6}", stroke=ink("text")),
        class_=f"kv-layer{' is-current' if current else ''}",
        display="inline" if current else "none",
        data_pick=number,
    )


def _told(sides: str, words: str, y: float, **attributes: str | float) -> list[str]:
    return [
        text(sides, SIDES, y + 11, text_anchor="end", **attributes),
        text(words, VERDICT, y + 11, font_size="11.5", **attributes),
    ]


def _pool(point: dict[str, Any], running: int, scale: float) -> list[str]:
    """What is there, and what of it is spoken for before anybody is tried."""
    free, evictable, reserved = point["free"], point["evictable"], point["reserved"]
    second = TOP + ROW
    return [
        element("rect", x=LEFT, y=TOP, width=scale * free, height=BAR, fill=ink("hairline-strong")),
        _bar(LEFT + scale * free, TOP, scale * evictable, "found"),
        *_told(f"{free + evictable:,}", "free, evictable" if evictable else "free", TOP),
        _bar(LEFT, second, scale * reserved, "reserved"),
        *_told(f"{reserved:,}", f"for {running} running", second),
    ]


def _row(tried: dict[str, Any], there: int, y: float, scale: float, last: bool) -> str:
    """One request, from where the memory spoken for ends to where it would end with this one."""
    x = LEFT + scale * (there - tried["left"])
    parts = []
    for form, tokens in _parts(tried):
        parts.append(_bar(x, y, scale * tokens, form))
        x += scale * tokens
    limit = LEFT + scale * there
    if tried["sign"] == "≥":
        begin = max(limit, x - scale * tried["asked"])
        parts.append(_bar(begin, y, max(3, x - begin), "beyond"))
    weight: Attributes = {"font_weight": "600"} if last else {}
    name = text(tried["id"], 6, y + 11, font_weight="600")
    return element("g", name, *parts, *_told(_sides(tried), tried["verdict"], y, **weight))


def _parts(tried: dict[str, Any]) -> list[tuple[str, int]]:
    """A bar's parts from left to right; one that was refused takes nothing and is an outline."""
    if tried["added"]:
        parts = [(form, tried[form]) for form in ("found", "computed", "later")]
    else:
        parts = [("found", tried["found"]), ("asked", tried["computed"] + tried["later"])]
    return [(form, tokens) for form, tokens in parts if tokens]


def _sides(tried: dict[str, Any]) -> str:
    return f"{tried['asked']:,} {tried['sign']} {number(tried['limit'])}"


def number(value: int) -> str:
    """With separators, and a minus as long as a digit."""
    return f"{value:,}".replace("-", "\N{MINUS SIGN}")


def _untried(name: str, y: float) -> str:
    return element(
        "g",
        text(name, 6, y + 11, **_SOFT),
        text("not tried", VERDICT, y + 11, font_size="11.5", **_SOFT),
    )


def _budget(point: dict[str, Any], y: float) -> list[str]:
    """The prompt tokens that the pass gave out."""
    used, budget = point["used"], point["budget"]
    wide = RIGHT - LEFT
    return [
        element("rect", x=LEFT, y=y, width=wide, height=BAR, fill=ink("track")),
        _bar(LEFT, y, wide * used / budget, "computed"),
        *_told(f"{used:,} of {budget:,}", "to compute", y),
    ]


def _line(data: Data, number: int, most: int, top: float, current: bool) -> str:
    """One pass: its name, what is spoken for, how many came in; the whole line can be hit."""
    point = data["points"][number]
    left, right = NARROW
    scale = (right - left) / most
    x, bars = float(left), []
    for form, tokens in _spoken_for(point):
        bars.append(_bar(x, top + 6, scale * tokens, form))
        x += scale * tokens
    limit = left + scale * (point["free"] + point["evictable"])
    verdict = point["tried"][-1]["verdict"]
    frame = element(
        "rect", x=1, y=top, width=WIDTH - 2, height=LINE - 2, rx=3, fill="none",
        class_=f"kv-pick{' is-current' if current else ''}", data_pick=number,
        stroke=ink("text") if current else "none", stroke_width=1.5,
    )  # fmt: skip
    return element(
        "g",
        text(point["name"], 6, top + 16, **_SOFT),
        *bars,
        element("path", d=f"M{num(limit)} {num(top + 3)}V{num(top + 21)}", stroke=ink("text")),
        text(
            f"{point['admitted']} of {len(data['waiting'])}", SIDES, top + 16,
            text_anchor="end", font_weight="600",
        ),
        text(verdict, VERDICT, top + 16, font_size="11.5"),
        frame,
    )  # fmt: skip


def _spoken_for(point: dict[str, Any]) -> list[tuple[str, int]]:
    """What a pass leaves spoken for, part by part."""
    parts = [("reserved", point["reserved"])]
    for form in ("found", "computed", "later"):
        parts.append((form, sum(tried[form] for tried in point["tried"] if tried["added"])))
    return [(form, tokens) for form, tokens in parts if tokens]


def table(data: Data) -> Table:
    """Every comparison of every pass."""
    rows: list[tuple[str | tuple[str, str], ...]] = []
    for point in data["points"]:
        told = {row["id"]: row for row in point["tried"]}
        rows += [_told_row(point["name"], name, told.get(name)) for name in data["waiting"]]
    head = (
        "pass", "request", "left before", "found and held", "computed", "outputs and page",
        "comparison", "admitted", "verdict",
    )  # fmt: skip
    return Table("Every comparison in numbers", head, rows)


def _told_row(name: str, request: str, row: dict[str, Any] | None) -> tuple[str, ...]:
    if row is None:
        return (name, request, *("–",) * 5, "no", "not tried")
    parts = (row["left"], row["found"], row["computed"], row["later"])
    return (
        name,
        request,
        *map(number, parts),
        _sides(row),
        "yes" if row["added"] else "no",
        row["verdict"],
    )
