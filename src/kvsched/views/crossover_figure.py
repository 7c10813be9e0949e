"""The map of swap against recompute, and both as bars at one fragment size."""

from __future__ import annotations

from typing import Any

from kvsched.views.svg import element, ink, num, picture, text
from kvsched.views.view import Data, Selection, Table

WIDTH, HEIGHT = 460, 384
LEFT, RIGHT, TOP, BOTTOM = 44, 412, 28, 258
BARS, BAR = 326, 18
_SOFT: dict[str, str | float] = {"fill": ink("soft")}
_LABELLED = ("4 KiB", "32 KiB", "256 KiB", "2 MiB", "16 MiB")
_SWAP, _RECOMPUTE = ink("draining"), ink("prefill")


def draw(data: Data, selection: Selection) -> str:
    """The map with its border, then the picked size's two bars."""
    pick = selection.get("pick", 0)
    border = [point["threshold"] for point in data["points"]]
    return picture(
        WIDTH,
        HEIGHT,
        data["alt"],
        text("Share of the prompt that survives as a prefix", 4, 14, font_weight="600"),
        _region(border),
        *(_contour(each) for each in data["contours"]),
        _line(data["overlay"], ink("text"), 1.2, "1.5 3.5"),
        _line(border, ink("text"), 2.5),
        text("recompute", LEFT + 12, TOP + 22, fill=ink("prefill-text"), font_weight="600"),
        text("swap", RIGHT - 12, BOTTOM - 12, text_anchor="end", font_weight="600"),
        *_axes(data["picks"]),
        *(_mark(row, share, row == pick) for row, share in enumerate(border)),
        text("Time, ms", 4, BARS - 8, font_weight="600"),
        *(_bars(data, row, row == pick) for row in range(len(border))),
        class_="kv-crossover",
        fill=ink("text"),
        font_size="12.5",
        font_family="sans-serif",
    )


def _x(row: int) -> float:
    """Sizes are powers of two, one missing before the last."""
    return LEFT + (RIGHT - LEFT) * (row if row < 11 else 12) / 12


def _y(share: float) -> float:
    return BOTTOM - (BOTTOM - TOP) * share


def _path(shares: list[float]) -> str:
    return "L".join(f"{num(_x(row))} {num(_y(share))}" for row, share in enumerate(shares))


def _region(border: list[float]) -> str:
    """Recompute's side as a tint, swap's as another."""
    line = _path(border)
    return element(
        "g",
        element("path", d=f"M{LEFT} {TOP}L{line}L{RIGHT} {TOP}Z", fill=_RECOMPUTE),
        element("path", d=f"M{LEFT} {BOTTOM}L{line}L{RIGHT} {BOTTOM}Z", fill=_SWAP),
        fill_opacity=0.2,
    )


def _line(shares: list[float], stroke: str, wide: float, dash: str = "none") -> str:
    return element(
        "path", d=f"M{_path(shares)}", fill="none", stroke=stroke, stroke_width=wide,
        stroke_dasharray=dash,
    )  # fmt: skip


def _contour(contour: dict[str, Any]) -> str:
    """The border at another rate, with the rate in thousands at its right end."""
    shares = contour["threshold"]
    return element(
        "g",
        _line(shares, ink("soft"), 0.8),
        text(f"{contour['rate'] // 1000}k", RIGHT + 6, _y(shares[-1]) + 4, **_SOFT),
    )


def _axes(names: list[str]) -> list[str]:
    marks = [
        text(f"{share} %", LEFT - 6, _y(share / 100) + 4, text_anchor="end", **_SOFT)
        for share in (0, 50, 100)
    ]
    labels = [
        text(name, _x(row), BOTTOM + 17, text_anchor="middle", **_SOFT)
        for row, name in enumerate(names)
        if name in _LABELLED
    ]
    what = "Fragment: a block’s K of one layer is 32 KiB, the whole block 2 MiB"
    return [*marks, *labels, text(what, LEFT - 20, BOTTOM + 36, **_SOFT)]


def _mark(row: int, share: float, current: bool) -> str:
    return element(
        "circle", cx=_x(row), cy=_y(share), r=5, fill=ink("text"), data_pick=row,
        stroke=ink("paper") if current else "none", stroke_width=2,
        class_=f"kv-pick{' is-current' if current else ''}",
    )  # fmt: skip


def _bars(data: Data, row: int, current: bool) -> str:
    """Swap and cold recompute at one size on one scale; the border's share cut off the latter."""
    point, cold = data["points"][row], data["cold_ms"]
    scale = (RIGHT - LEFT - 90) / max(cold, point["swap_ms"])
    out, back = scale * point["out_ms"], scale * point["back_ms"]
    left, second = LEFT + 30.0, BARS + BAR + 10
    rest = min(point["swap_ms"], cold) * scale
    shapes = [
        element("rect", x=left, y=BARS, width=out, height=BAR, fill=_SWAP),
        element("rect", x=left + out, y=BARS, width=back, height=BAR, fill=_SWAP, fill_opacity=0.6),
        text(f"{point['swap_ms']:g}", left + out + back + 6, BARS + 13),
        element("rect", x=left, y=second, width=rest, height=BAR, fill=_RECOMPUTE),
        element(
            "rect", x=left + rest, y=second, width=max(0.0, scale * cold - rest), height=BAR,
            fill=_RECOMPUTE, fill_opacity=0.34,
        ),
        text(f"{cold:g} cold", left + scale * cold + 6, second + 13),
        text("swap", left - 6, BARS + 13, text_anchor="end"),
        text("recompute", left - 6, second + 13, text_anchor="end"),
    ]  # fmt: skip
    return element(
        "g",
        *shapes,
        class_=f"kv-layer{' is-current' if current else ''}",
        display="inline" if current else "none",
        data_pick=row,
    )


def table(data: Data) -> Table:
    """Every fragment size: both copies, and where the border lies."""
    rows: list[tuple[str | tuple[str, str], ...]] = [
        (
            name,
            f"{point['out_ms']:g}",
            f"{point['back_ms']:g}",
            f"{point['swap_ms']:g}",
            f"{data['cold_ms']:g}",
            f"{point['threshold']:.2f}",
        )
        for name, point in zip(data["picks"], data["points"], strict=True)
    ]
    head = ("fragment", "out, ms", "back, ms", "waited for, ms", "cold prefill, ms", "f*")
    return Table("Every fragment size in numbers", head, rows)
