"""A profile's three curves, one above the other; the lower two share their axis."""

from __future__ import annotations

import math
from typing import Any

from kvsched.views.svg import element, ink, num, picture, text
from kvsched.views.view import Data, Selection, Table

WIDTH, HEIGHT = 460, 486
LEFT, RIGHT = 48, 404
PREFILL, COPIES, BORDER = (66, 160), (212, 306), (350, 460)
"""Top and bottom of each panel."""
_STEPS = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
"""Round tops of an axis."""
_SOFT: dict[str, str | float] = {"fill": ink("soft")}
_SWAP, _RECOMPUTE = ink("draining"), ink("prefill")


def draw(data: Data, selection: Selection) -> str:
    """All three panels, with the picked size of pieces marked in the lower two."""
    pick = min(selection.get("pick", 0), len(data["picks"]) - 1)
    there = data["points"][0]["threshold"] is not None
    return picture(
        WIDTH,
        HEIGHT,
        data["alt"],
        text(data["device"][:64], 4, 14, font_weight="600"),
        text(data["how"], 4, 31, **_SOFT),
        *_prefill(data),
        text("Copies, GB/s, by size of the pieces", 4, COPIES[0] - 14, font_weight="600"),
        text("Share that survives, by size of the pieces", 4, BORDER[0] - 12, font_weight="600"),
        *(_copies(data, pick) if there else _absent(COPIES)),
        *(_border(data, pick) if there else _absent(BORDER)),
        *_sizes(data),
        class_="kv-measured",
        fill=ink("text"),
        font_size="12.5",
        font_family="sans-serif",
    )


def _absent(panel: tuple[int, int]) -> list[str]:
    middle = (panel[0] + panel[1]) / 2
    said = "This profile has no copies both ways."
    return [text(said, (LEFT + RIGHT) / 2, middle, text_anchor="middle", **_SOFT)]


def _scale(values: list[float]) -> list[float]:
    """Places from left to right on a logarithmic axis that ends at the outermost values."""
    low, high = math.log2(values[0]), math.log2(values[-1])
    span = (high - low) or 1.0
    return [LEFT + (RIGHT - LEFT) * (math.log2(value) - low) / span for value in values]


def _y(value: float, most: float, panel: tuple[int, int]) -> float:
    return panel[1] - (panel[1] - panel[0]) * value / most


def _line(
    xs: list[float], ys: list[float], stroke: str, wide: float = 1.8, dash: str = "none"
) -> str:
    path = "L".join(f"{num(x)} {num(y)}" for x, y in zip(xs, ys, strict=True))
    return element(
        "path", d=f"M{path}", fill="none", stroke=stroke, stroke_width=wide, stroke_dasharray=dash
    )


def _top(*values: float | None) -> float:
    """A round number a little above all of these."""
    most = 1.06 * max(value for value in values if value is not None)
    power = 10.0 ** math.floor(math.log10(most))
    return next(step * power for step in _STEPS if step * power >= most)


def _axis(most: float, panel: tuple[int, int]) -> list[str]:
    top, bottom = panel
    named = f"{most:,.0f}" if most >= 100 else f"{most:g}"
    return [
        element("path", d=f"M{LEFT} {bottom}H{RIGHT}", stroke=ink("hairline-strong")),
        text(named, LEFT - 6, top + 5, text_anchor="end", **_SOFT),
        text("0", LEFT - 6, bottom + 4, text_anchor="end", **_SOFT),
    ]


def _level(value: float | None, said: str, most: float, panel: tuple[int, int]) -> list[str]:
    """A ceiling across the panel, named at its right end."""
    if value is None:
        return []
    y = _y(value, most, panel)
    return [
        element("path", d=f"M{LEFT} {num(y)}H{RIGHT}", stroke=ink("soft"), stroke_dasharray="4 3"),
        text(said, RIGHT, y - 4, text_anchor="end", **_SOFT),
    ]


def _prefill(data: Data) -> list[str]:
    """TFLOP/s by prompt length under both peaks; a ring at the chosen one, dashed if inferred."""
    points = data["prefill"]
    rates = [point["tflop_s"] for point in points]
    most = _top(*rates, data["peak"], data["multiply"], data["at"]["tflop_s"])
    lengths = sorted({*(point["tokens"] for point in points), data["tokens"]})
    places = dict(zip(lengths, _scale(lengths), strict=True))
    xs = [places[point["tokens"]] for point in points]
    ys = [_y(rate, most, PREFILL) for rate in rates]
    ring = (places[data["tokens"]], _y(data["at"]["tflop_s"], most, PREFILL))
    ends = {lengths[0], lengths[-1]}
    return [
        text("Prefill, TFLOP/s, by prompt length in tokens", 4, PREFILL[0] - 14, font_weight="600"),
        *_axis(most, PREFILL),
        *_level(data["peak"], f"datasheet {data['peak']:g}" if data["peak"] else "", most, PREFILL),
        *_level(data["multiply"], "a large multiply", most, PREFILL),
        _line(xs, ys, _RECOMPUTE),
        *(
            element("circle", cx=x, cy=y, r=3.5, fill=_RECOMPUTE)
            for x, y in zip(xs, ys, strict=True)
        ),
        element(
            "circle",
            cx=ring[0],
            cy=ring[1],
            r=7,
            fill="none",
            stroke=ink("text"),
            stroke_dasharray="none" if data["stated"] else "2 2",
        ),
        *(
            text(f"{length:,}", places[length], PREFILL[1] + 16, text_anchor="middle", **_SOFT)
            for length in lengths
            if length in ends or (length == data["tokens"] and _apart(places, length, ends))
        ),
    ]


def _apart(places: dict[int, float], length: int, ends: set[int]) -> bool:
    return all(abs(places[length] - places[end]) > 48 for end in ends)


def _copies(data: Data, pick: int) -> list[str]:
    """GB/s by size of the pieces, out (solid) and back (dashed), under the link's raw rate."""
    points = data["points"]
    rates = [rate for point in points for rate in (point["out_gb_s"], point["back_gb_s"])]
    most = _top(*rates, data["link"])
    xs = _scale([point["bytes"] for point in points])
    out, back = (
        [_y(point[way], most, COPIES) for point in points] for way in ("out_gb_s", "back_gb_s")
    )
    level = _level(
        data["link"], f"the link’s raw rate {data['link']:g}" if data["link"] else "", most, COPIES
    )
    return [
        *_axis(most, COPIES),
        *level,
        _line(xs, out, _SWAP),
        _line(xs, back, _SWAP, 1.8, "5 3"),
        *_named(out[-1], back[-1]),
        *(
            _mark(x, y, row, row == pick, _SWAP)
            for row, (x, y) in enumerate(zip(xs, out, strict=True))
        ),
    ]


def _named(out: float, back: float) -> list[str]:
    """Both lines' names at their right ends, so far apart that they can be read."""
    middle, apart = (out + back) / 2, max(14.0, abs(out - back))
    low, high = middle - apart / 2 + 4, middle + apart / 2 + 4
    ys = (low, high) if out <= back else (high, low)
    said = zip(("— out", "- - back"), ys, strict=True)
    return [text(name, RIGHT + 8, y, **_SOFT) for name, y in said]


def _border(data: Data, pick: int) -> list[str]:
    """The share above which recomputing wins, by size of the pieces."""
    xs = _scale([point["bytes"] for point in data["points"]])
    ys = [_y(point["threshold"], 1, BORDER) for point in data["points"]]
    top, bottom = BORDER
    line = "L".join(f"{num(x)} {num(y)}" for x, y in zip(xs, ys, strict=True))
    regions = element(
        "g",
        element("path", d=f"M{LEFT} {top}L{line}L{RIGHT} {top}Z", fill=_RECOMPUTE),
        element("path", d=f"M{LEFT} {bottom}L{line}L{RIGHT} {bottom}Z", fill=_SWAP),
        fill_opacity=0.2,
    )
    shares = [
        text(f"{share} %", LEFT - 6, _y(share / 100, 1, BORDER) + 4, text_anchor="end", **_SOFT)
        for share in (0, 50, 100)
    ]
    return [
        regions,
        _line(xs, ys, ink("text"), 2.5),
        text("recompute", LEFT + 12, top + 18, fill=ink("prefill-text"), font_weight="600"),
        text("swap", RIGHT - 12, bottom - 10, text_anchor="end", font_weight="600"),
        *shares,
        *(
            _mark(x, y, row, row == pick, ink("text"))
            for row, (x, y) in enumerate(zip(xs, ys, strict=True))
        ),
    ]


def _mark(x: float, y: float, row: int, current: bool, fill: str) -> str:
    return element(
        "circle", cx=x, cy=y, r=5, fill=fill, data_pick=row,
        stroke=ink("paper") if current else "none", stroke_width=2,
        class_=f"kv-pick{' is-current' if current else ''}",
    )  # fmt: skip


def _sizes(data: Data) -> list[str]:
    """Names of some sizes, so far apart that they do not touch."""
    xs = _scale([point["bytes"] for point in data["points"]])
    names: list[str] = []
    last = -100.0
    for x, point in zip(xs, data["points"], strict=True):
        if x - last >= 56:
            names.append(text(point["name"], x, BORDER[1] + 17, text_anchor="middle", **_SOFT))
            last = x
    return names


def table(data: Data) -> Table:
    """Every prompt length and every size of pieces."""
    rows: list[tuple[str | tuple[str, str], ...]] = [
        (
            f"prefill of {point['tokens']:,}",
            f"{point['ms']:.4g}",
            f"{point['tflop_s']:.3g} TFLOP/s",
            _share(point["mfu"], point["of_multiply"]),
            "",
        )
        for point in data["prefill"]
    ]
    for point in data["points"]:
        if point["threshold"] is not None:
            rates = f"{point['out_gb_s']:.3g} out, {point['back_gb_s']:.3g} back, GB/s"
            slower = min(point["out_gb_s"], point["back_gb_s"])
            rows.append(
                (
                    f"{data['tokens']:,} in pieces of {point['name']}",
                    f"{point['swap_ms']:g}",
                    rates,
                    f"{slower / data['link']:.0%}" if data["link"] else "–",
                    f"{point['threshold']:.2f}",
                )
            )
    head = ("what", "time, ms", "rate", "of the peak", "f*")
    return Table("Every point in numbers", head, rows)


def _share(mfu: Any, of_multiply: Any) -> str:
    if mfu is not None:
        return f"{mfu:.0%}"
    return "–" if of_multiply is None else f"{of_multiply:.0%} of a multiply"
