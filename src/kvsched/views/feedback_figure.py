"""The feedback as a picture: the sawtooth with what it does below, and four curves."""

from __future__ import annotations

from typing import Any

from kvsched.views.svg import element, ink, num, picture, text
from kvsched.views.view import Data, Selection, Table

WIDTH, HEIGHT = 460, 544
LEFT, RIGHT = 38, 454
TOP, BOTTOM = 32, 152
"""Of the ratio, from 1 down to 0."""
POOL, RUNNING, STRIP = 198, 264, 40
"""Where the two strips begin, and their height."""
CURVES = 352
_SOFT: dict[str, str | float] = {"fill": ink("soft")}
_CURVES = (
    ("tokens_s", "Output tokens/s", ",.0f", ""),
    ("retractions", "Retractions", ",.0f", ""),
    ("ttft_p50", "TTFT, median", ".2f", " s"),
    ("silence", "Longest silence", ".2f", " s"),
)
"""Key, title, format and unit."""


def draw(data: Data, selection: Selection) -> str:
    """The picked run over its decode steps, then the curves with its point marked."""
    pick = selection.get("pick", 0)
    points = data["points"]
    runs = [_run(each, row, data, row == pick) for row, each in enumerate(points)]
    curves = [
        _curve(data, curve, LEFT + 220 * (place % 2), CURVES + 108 * (place // 2), pick)
        for place, curve in enumerate(_CURVES)
    ]
    return picture(
        WIDTH,
        HEIGHT,
        data["alt"],
        text("new_token_ratio", 4, 14, font_weight="600"),
        *_scale(TOP, BOTTOM, "1", "0"),
        text("Tokens held", 4, POOL - 8, font_weight="600"),
        *_scale(POOL, POOL + STRIP, f"{data['pool'] // 1000:,}k", "0"),
        text("Running", 4, RUNNING - 8, font_weight="600"),
        *_scale(RUNNING, RUNNING + STRIP, f"{_most_running(data)}", "0"),
        *runs,
        *curves,
        class_="kv-feedback",
        fill=ink("text"),
        font_size="12.5",
        font_family="sans-serif",
    )


def _scale(top: float, bottom: float, high: str, low: str) -> list[str]:
    return [
        element("path", d=f"M{LEFT} {num(bottom)}H{RIGHT}", stroke=ink("hairline-strong")),
        text(high, LEFT - 6, top + 5, text_anchor="end", **_SOFT),
        text(low, LEFT - 6, bottom + 4, text_anchor="end", **_SOFT),
    ]


def _most_running(data: Data) -> int:
    most: int = max(max(each["timeline"]["running"]) for each in data["points"])
    return most


def _run(each: dict[str, Any], row: int, data: Data, current: bool) -> str:
    """What is seen only while this run is picked."""
    line = each["timeline"]
    steps = line["path"][-1][0] or 1
    wide = (RIGHT - LEFT) / steps
    levels = [
        element(
            "path", d=f"M{LEFT} {num(_high(each[key]))}H{RIGHT}", stroke=ink("soft"),
            stroke_width=0.8, stroke_dasharray="3 3",
        )
        for key in ("init", "min")
    ]  # fmt: skip
    path = "L".join(
        f"{num(LEFT + wide * step)} {num(_high(ratio))}" for step, ratio in line["path"]
    )
    jumps = "".join(
        f"M{num(LEFT + wide * step)} {num(_high(before))}V{num(_high(after))}"
        for step, before, after in line["jumps"]
    )
    ticks = "".join(f"M{num(LEFT + wide * step)} {POOL - 6}v8" for step, *_ in line["jumps"])
    end: dict[str, str | float] = {"text_anchor": "end", **_SOFT}
    said = f"– – starts at {each['init']:.3f}, may fall to {each['min']:.3f}"
    return element(
        "g",
        text(said, RIGHT, 14, **end),
        *levels,
        element("path", d=f"M{path}", fill="none", stroke=ink("prefill"), stroke_width=1.6),
        element("path", d=jumps or "M0 0", stroke=ink("preempted"), stroke_width=2.4),
        _area(line["used"], data["pool"], POOL, "decode"),
        element("path", d=ticks or "M0 0", stroke=ink("preempted"), stroke_width=2),
        _area(line["running"], _most_running(data), RUNNING, "waiting"),
        text("0", LEFT, RUNNING + STRIP + 16, **_SOFT),
        text(
            f"{steps + 1:,} decode steps", RIGHT, RUNNING + STRIP + 16, text_anchor="end", **_SOFT
        ),
        class_=f"kv-layer{' is-current' if current else ''}",
        display="inline" if current else "none",
        data_pick=row,
    )


def _high(ratio: float) -> float:
    return BOTTOM - (BOTTOM - TOP) * ratio


def _area(values: list[int], most: int, top: float, phase: str) -> str:
    """A strip filled to these heights, a step each."""
    wide = (RIGHT - LEFT) / len(values)
    path = [f"M{LEFT} {num(top + STRIP)}"]
    for index, value in enumerate(values):
        high = STRIP * min(value, most) / most
        path.append(f"V{num(top + STRIP - high)}H{num(LEFT + wide * (index + 1))}")
    return element("path", d=f"{''.join(path)}V{num(top + STRIP)}Z", fill=ink(phase))


def _curve(data: Data, curve: tuple[str, str, str, str], left: float, top: float, pick: int) -> str:
    """One curve over the values, evenly spaced; its ends labelled, every point to be hit."""
    key, title, form, unit = curve
    values = [each[key] for each in data["points"]]
    low, high = (min(values) if key == "tokens_s" else 0.0), max(values)
    span, wide, tall = (high - low) or 1.0, 150.0, 52.0
    places = [
        (left + wide * row / (len(values) - 1), top + 8 + tall * (1 - (value - low) / span))
        for row, value in enumerate(values)
    ]
    marks = [
        element(
            "circle", cx=x, cy=y, r=4, fill=ink("prefill"),
            class_=f"kv-pick{' is-current' if row == pick else ''}", data_pick=row,
            stroke=ink("text") if row == pick else "none", stroke_width=2.5,
        )
        for row, (x, y) in enumerate(places)
    ]  # fmt: skip
    line = "L".join(f"{num(x)} {num(y)}" for x, y in places)
    names = data["picks"]
    return element(
        "g",
        text(title, left - 34, top - 8, font_weight="600"),
        element("path", d=f"M{line}", fill="none", stroke=ink("prefill"), stroke_width=1.6),
        *marks,
        text(f"{high:{form}}{unit}", left + wide + 8, top + 12, **_SOFT),
        text(f"{low:{form}}{unit}", left + wide + 8, top + tall + 12, **_SOFT),
        text(names[0], left, top + tall + 26, text_anchor="middle", **_SOFT),
        text(names[-1], left + wide, top + tall + 26, text_anchor="middle", **_SOFT),
    )


def table(data: Data) -> Table:
    """Every run in numbers."""
    rows: list[tuple[str | tuple[str, str], ...]] = [
        (
            f"{each['value']:g}",
            f"{each['init']:.3f}",
            f"{each['min']:.4f}",
            f"{each['retractions']}",
            f"{each['tokens_recomputed']:,}",
            f"{each['ratio_mean']:.2f}",
            f"{each['running_mean']:.1f}",
            f"{each['tokens_s']:,}",
            f"{each['ttft_p50']:.2f} s",
            f"{each['silence']:.2f} s",
        )
        for each in data["points"]
    ]
    head = (
        "conservativeness", "init", "min", "retractions", "tokens computed again",
        "mean ratio", "mean running", "output tokens/s", "TTFT p50", "longest silence",
    )  # fmt: skip
    return Table("Every run in numbers", head, rows)
