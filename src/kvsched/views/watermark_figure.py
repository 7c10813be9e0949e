"""The watermark as a picture: free blocks over time at one of them, and four curves over all."""

from __future__ import annotations

from typing import Any

from kvsched.views.svg import element, ink, num, picture, text
from kvsched.views.view import Data, Selection, Table

WIDTH, HEIGHT = 460, 444
LEFT, RIGHT = 38, 454
TOP, BOTTOM = 40, 140
RUNWAY = 186
_SOFT: dict[str, str | float] = {"fill": ink("soft")}
_CURVES = (
    ("preemptions", "Preemptions", 1, ",.0f", ""),
    ("tokens_s", "Output tokens/s", 1, ",.0f", ""),
    ("ttft_p50", "TTFT, median", 1, ".2f", " s"),
    ("itl_p99", "ITL, p99", 1000, ".1f", " ms"),
)
"""Key, title, factor, format and unit."""


def draw(data: Data, selection: Selection) -> str:
    """The pool and the runway at the picked watermark, then the curves with that point marked."""
    pick = selection.get("pick", 0)
    points = data["points"]
    most = max(max(point["timeline"]["free"]) for point in points)
    top = min(most, max(1, data["blocks"] // 4))
    runs = [_pool(point, row, top, row == pick) for row, point in enumerate(points)]
    curves = [
        _curve(data, curve, LEFT + 220 * (place % 2), 250 + 108 * (place // 2), pick)
        for place, curve in enumerate(_CURVES)
    ]
    return picture(
        WIDTH,
        HEIGHT,
        data["alt"],
        text("Free blocks, and preemptions", 4, 14, font_weight="600"),
        *_pool_axis(top),
        *runs,
        text("Runway, steps", 4, RUNWAY - 6, font_weight="600"),
        *curves,
        class_="kv-watermark",
        fill=ink("text"),
        font_size="12.5",
        font_family="sans-serif",
    )


def _pool_axis(top: int) -> list[str]:
    return [
        element("path", d=f"M{LEFT} {BOTTOM}H{RIGHT}", stroke=ink("hairline-strong")),
        text(f"{top:,}", LEFT - 6, TOP + 5, text_anchor="end", **_SOFT),
        text("0", LEFT - 6, BOTTOM + 4, text_anchor="end", **_SOFT),
        text("begin", LEFT, BOTTOM + 16, **_SOFT),
        text("end", RIGHT, BOTTOM + 16, text_anchor="end", **_SOFT),
    ]


def _pool(point: dict[str, Any], row: int, top: int, current: bool) -> str:
    """What is seen only while this watermark is picked: free blocks, losses, head-room, runway."""
    line = point["timeline"]
    wide = (RIGHT - LEFT) / len(line["free"])
    path = [f"M{LEFT} {BOTTOM}"]
    losses = []
    for index, (free, out) in enumerate(zip(line["free"], line["out"], strict=True)):
        high = (BOTTOM - TOP) * min(free, top) / top
        path.append(f"V{num(BOTTOM - high)}H{num(LEFT + wide * (index + 1))}")
        if out:
            losses.append(f"M{num(LEFT + wide * (index + 0.5))} {TOP - 18}v{min(16, 4 * out)}")
    keep = BOTTOM - (BOTTOM - TOP) * min(point["kept"], top) / top
    long = min(RIGHT - 120, LEFT + 2.0 * point["runway"])
    return element(
        "g",
        element("path", d=f"{''.join(path)}V{BOTTOM}Z", fill=ink("hairline-strong")),
        element("path", d="".join(losses) or "M0 0", stroke=ink("preempted"), stroke_width=2),
        element(
            "path", d=f"M{LEFT} {num(keep)}H{RIGHT}", stroke=ink("text"), stroke_dasharray="4 3"
        ),
        text(f"– – watermark: {point['kept']:,} blocks", RIGHT, 14, text_anchor="end", **_SOFT),
        element(
            "rect", x=LEFT, y=RUNWAY, width=max(1, long - LEFT), height=12, fill=ink("waiting")
        ),
        text(f"{point['runway']:.0f}", max(LEFT + 1, long) + 6, RUNWAY + 11),
        class_=f"kv-layer{' is-current' if current else ''}",
        display="inline" if current else "none",
        data_pick=row,
    )


def _curve(
    data: Data, curve: tuple[str, str, float, str, str], left: float, top: float, pick: int
) -> str:
    """One curve over the watermark, its ends labelled, every point to be hit."""
    key, title, factor, form, unit = curve
    points = data["points"]
    values = [factor * point[key] for point in points]
    low, high = min(values), max(values)
    if key in ("preemptions", "itl_p99"):
        low = 0.0
    span, wide, tall = (high - low) or 1.0, 150.0, 52.0
    most = points[-1]["watermark"]
    places = [
        (left + wide * point["watermark"] / most, top + 8 + tall * (1 - (value - low) / span))
        for point, value in zip(points, values, strict=True)
    ]
    marks = [
        element(
            "circle", cx=x, cy=y, r=4, fill=ink("prefill"), class_=_marked(index == pick),
            data_pick=index, stroke=ink("text") if index == pick else "none", stroke_width=2.5,
        )
        for index, (x, y) in enumerate(places)
    ]  # fmt: skip
    line = "L".join(f"{num(x)} {num(y)}" for x, y in places)
    return element(
        "g",
        text(title, left - 34, top - 8, font_weight="600"),
        element("path", d=f"M{line}", fill="none", stroke=ink("prefill"), stroke_width=1.6),
        *marks,
        text(f"{high:{form}}{unit}", left + wide + 8, top + 12, **_SOFT),
        text(f"{low:{form}}{unit}", left + wide + 8, top + tall + 12, **_SOFT),
        text("0", left, top + tall + 26, text_anchor="middle", **_SOFT),
        text(f"{most:g}", left + wide, top + tall + 26, text_anchor="middle", **_SOFT),
    )


def _marked(current: bool) -> str:
    return f"kv-pick{' is-current' if current else ''}"


def table(data: Data) -> Table:
    """Every point of the curves."""
    rows: list[tuple[str | tuple[str, str], ...]] = [
        (
            f"{point['watermark']:g}",
            f"{point['kept']:,}",
            f"{point['runway']:.0f}",
            f"{point['preemptions']:,}",
            f"{point['tokens_s']:,}",
            f"{point['ttft_p50']:.2f} s",
            f"{1000 * point['itl_p99']:.1f} ms",
        )
        for point in data["points"]
    ]
    head = (
        "watermark", "blocks kept", "runway, steps", "preemptions", "output tokens/s",
        "TTFT p50", "ITL p99",
    )  # fmt: skip
    return Table("Every watermark in numbers", head, rows)
