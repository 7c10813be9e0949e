"""The storm as a picture: a strip of engine time a cell, and a bar of its TTFT p99 in parts."""

from __future__ import annotations

from typing import Any

from kvsched.views.svg import element, ink, num, picture, text
from kvsched.views.view import Data, Selection, Table

WIDTH = 460
LEFT, RIGHT = 6, 454
STRIP, PITCH, TOP = 46, 78, 40
"""A strip's height, from one strip to the next, and where the first begins."""
BAR, ROW, BARS_LEFT, BARS_RIGHT = 15, 27, 70, 400
_PARTS = (("queueing", "waiting"), ("prefill", "prefill"), ("recompute", "preempted"))
_SOFT: dict[str, str | float] = {"fill": ink("soft")}


def draw(data: Data, selection: Selection) -> str:
    """Four strips over one axis of seconds, then four bars over another."""
    cells = data["cells"]
    pick = selection.get("pick", 0)
    longest = max(cell["seconds"] for cell in cells)
    end = TOP + PITCH * len(cells) - 14
    most = max(cell["ttft_p99"]["total"] for cell in cells)
    bars = end + 66
    return picture(
        WIDTH,
        bars + ROW * len(cells) + 24,
        data["alt"],
        _HATCH,
        _legend(),
        *(
            _strip(cell, TOP + PITCH * row, data["bin"] / longest, row, row == pick)
            for row, cell in enumerate(cells)
        ),
        *_axis(longest, end),
        text("Time to first token, p99", LEFT, bars - 14, font_weight="600"),
        *(_bar(cell, bars + ROW * row, most, row, row == pick) for row, cell in enumerate(cells)),
        class_="kv-storm",
        fill=ink("text"),
        font_size="12.5",
        font_family="sans-serif",
    )


_HATCH = element(
    "defs",
    element(
        "pattern",
        element("rect", width=5, height=5, fill=ink("preempted")),
        element("path", d="M0 5L5 0", stroke=ink("paper"), stroke_width=0.9),
        id="kv-storm-again",
        width=5,
        height=5,
        patternUnits="userSpaceOnUse",
    ),
)
"""On everything computed twice, so that red is not the only sign."""
_AGAIN = "url(#kv-storm-again)"


def _legend() -> str:
    """What the areas are, above the first strip."""
    parts, x = [], float(LEFT)
    names = (("decode", ink("decode"), 58), ("prefill", ink("prefill"), 56))
    for name, fill, wide in (*names, ("recompute", _AGAIN, 84), ("queueing", ink("waiting"), 0)):
        parts.append(element("rect", x=x, y=2, width=11, height=11, fill=fill))
        parts.append(text(name, x + 15, 12, **_SOFT))
        x += wide + 15
    return element("g", *parts)


def _strip(cell: dict[str, Any], y: float, scale: float, row: int, current: bool) -> str:
    """One cell's engine time by bin: decode below, prefill on it, recompute from the top."""
    line = cell["timeline"]
    wide = (RIGHT - LEFT) * scale
    useful = [1 - again for again in line["recompute"]]
    decode = [done - part for done, part in zip(useful, line["prefill"], strict=True)]
    end = min(RIGHT, LEFT + wide * len(useful))
    said = f"{cell['tokens_s']:,} tokens/s · {cell['preemptions']:,} preemptions"
    return element(
        "g",
        text(cell["name"], LEFT, y - 6, font_weight="600"),
        text(said, RIGHT, y - 6, text_anchor="end", **_SOFT),
        element("rect", x=LEFT, y=y, width=end - LEFT, height=STRIP, fill=_AGAIN),
        element("path", d=_area(useful, y, wide, end), fill=ink("prefill")),
        element("path", d=_area(decode, y, wide, end), fill=ink("decode")),
        element(
            "rect", x=LEFT - 5, y=y - 20, width=RIGHT - LEFT + 10, height=STRIP + 24, rx=2,
            fill="none", stroke=ink("text") if current else "none", stroke_width=1.5,
            class_=f"kv-pick{' is-current' if current else ''}", data_pick=row,
        ),
    )  # fmt: skip


def _area(shares: list[float], y: float, wide: float, end: float) -> str:
    """A path that fills these shares of a strip from its bottom, a step a bin."""
    path = [f"M{LEFT} {num(y + STRIP)}"]
    for index, share in enumerate(shares):
        right = min(end, LEFT + wide * (index + 1))
        path.append(f"V{num(y + STRIP * (1 - share))}H{num(right)}")
    return f"{''.join(path)}V{num(y + STRIP)}Z"


def _axis(longest: float, y: float) -> list[str]:
    """Whole steps of seconds below the last strip."""
    step = next(step for step in (10, 20, 50, 100, 200, 500, 1000) if longest / step <= 8)
    marks = []
    for second in range(0, int(longest) + 1, step):
        x = LEFT + (RIGHT - LEFT) * second / longest
        anchor = "start" if second == 0 else "middle"
        label = f"{second} s" if second == 0 else f"{second}"
        marks.append(element("path", d=f"M{num(x)} {num(y)}v4", stroke=ink("soft")))
        if x < RIGHT - 8:
            marks.append(text(label, x, y + 17, text_anchor=anchor, **_SOFT))
    return marks


def _bar(cell: dict[str, Any], y: float, most: float, row: int, current: bool) -> str:
    """TTFT p99 in its parts, with the total at its end."""
    parts, x = [], float(BARS_LEFT)
    for name, phase in _PARTS:
        wide = (BARS_RIGHT - BARS_LEFT) * cell["ttft_p99"][name] / most
        fill = _AGAIN if name == "recompute" else ink(phase)
        parts.append(element("rect", x=x, y=y, width=wide, height=BAR, fill=fill))
        x += wide
    return element(
        "g",
        text(cell["name"], BARS_LEFT - 6, y + 12, text_anchor="end"),
        *parts,
        text(f"{cell['ttft_p99']['total']:.1f} s", x + 5, y + 12),
        element(
            "rect", x=LEFT - 5, y=y - 5, width=RIGHT - LEFT + 10, height=BAR + 10, rx=2,
            fill="none", stroke=ink("text") if current else "none", stroke_width=1.5,
            class_=f"kv-pick{' is-current' if current else ''}", data_pick=row,
        ),
    )  # fmt: skip


def table(data: Data) -> Table:
    """The four runs in numbers."""
    rows: list[tuple[str | tuple[str, str], ...]] = [
        (
            cell["name"],
            f"{cell['tokens_s']:,}",
            f"{cell['preemptions']:,}",
            f"{cell['tokens_recomputed']:,}",
            f"{cell['recompute']:.1%}",
            f"{cell['ttft_p50']:.2f} s",
            *(f"{cell['ttft_p99'][part]:.2f} s" for part in ("total", "queueing", "recompute")),
            f"{1000 * cell['itl_p99']:.0f} ms",
        )
        for cell in data["cells"]
    ]
    head = (
        "gate and cache", "output tokens/s", "preemptions", "tokens recomputed",
        "time recomputing", "TTFT p50", "TTFT p99", "queueing", "recompute", "ITL p99",
    )  # fmt: skip
    return Table("The four runs in numbers", head, rows)
