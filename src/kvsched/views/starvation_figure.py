"""V's wait by the length of the stream, and under each rule the memory that it waits for."""

from __future__ import annotations

from typing import Any

from kvsched.views.starvation_runs import LENGTHS, POOL, PROMPT
from kvsched.views.svg import element, ink, num, picture, text
from kvsched.views.view import Data, Selection, Table

WIDTH, LEFT, RIGHT = 460, 8, 452
CHART_TOP, CHART, CHART_LEFT, CHART_RIGHT = 26, 120, 34, 366
"""The lines' box; what is right of it names them."""
TOP, STRIP, PITCH = 250, 40, 82
"""Where the first strip begins, its height, and from one strip to the next."""
NAME = 14
"""Between the names of two lines, at least."""
_SOFT: dict[str, str | float] = {"fill": ink("soft")}


def draw(data: Data, selection: Selection) -> str:
    """Five lines, then five strips over one axis of steps; the picked rule is marked in both."""
    runs, pick = data["runs"], selection.get("pick", 0)
    steps = max(len(run["held"]) for run in runs)
    end = TOP + PITCH * len(runs) - 24
    return picture(
        WIDTH,
        end + 24,
        data["alt"],
        text("Steps that V waits, by how many small requests follow", LEFT, 14, font_weight="600"),
        *_frame(runs),
        *_lines(runs, pick),
        *_legend(CHART_TOP + CHART + 44),
        *(_strip(run, data, TOP + PITCH * i, steps, i, i == pick) for i, run in enumerate(runs)),
        *_steps(steps, end),
        class_="kv-starvation",
        fill=ink("text"),
        font_size="12.5",
        font_family="sans-serif",
    )  # fmt: skip


def _at(length: float, wait: float, most: float) -> tuple[float, float]:
    """A point of the chart."""
    x = CHART_LEFT + (CHART_RIGHT - CHART_LEFT) * length / LENGTHS[-1]
    return x, CHART_TOP + CHART * (1 - wait / most)


def _most(runs: list[dict[str, Any]]) -> int:
    """The end of the axis of waits."""
    return max([50, *(int(wait) for run in runs for wait in run["waits"])])


def _frame(runs: list[dict[str, Any]]) -> list[str]:
    """Both axes of the chart."""
    most = _most(runs)
    every = next(each for each in (20, 50, 100, 200) if most / each <= 6)
    drawn = []
    for wait in range(0, most + 1, every):
        x, y = _at(0, wait, most)
        drawn.append(element("path", d=f"M{num(x)} {num(y)}H{CHART_RIGHT}", stroke=ink("hairline")))
        drawn.append(text(f"{wait}", x - 5, y + 4, text_anchor="end", **_SOFT))
    for length in LENGTHS:
        x, y = _at(length, 0, most)
        drawn.append(text(f"{length}", x, y + 17, text_anchor="middle", **_SOFT))
    return drawn


def _lines(runs: list[dict[str, Any]], pick: int) -> list[str]:
    """Each rule's waits as a line with its name at the end; the picked one again, heavy."""
    most = _most(runs)
    ends = [_at(LENGTHS[-1], run["waits"][-1], most)[1] for run in runs]
    named = _apart(ends)
    drawn = []
    for i, run in enumerate(runs):
        points = (_at(n, wait, most) for n, wait in zip(LENGTHS, run["waits"], strict=True))
        path = "M" + "L".join(f"{num(x)} {num(y)}" for x, y in points)
        tie = f"M{CHART_RIGHT + 2} {num(ends[i])}L{CHART_RIGHT + 14} {num(named[i])}"
        current = i == pick
        drawn += [
            element("path", d=path, fill="none", stroke=ink("waiting"), stroke_width=1.2),
            element("path", d=tie, fill="none", stroke=ink("hairline-strong"), stroke_width=0.8),
            element(
                "g",
                element("path", d=path, fill="none", stroke=ink("text"), stroke_width=2.6),
                class_=f"kv-layer{' is-current' if current else ''}",
                display="inline" if current else "none",
                data_pick=i,
            ),
            text(run["name"], CHART_RIGHT + 18, named[i] + 4),
        ]
    return drawn


def _apart(heights: list[float]) -> list[float]:
    """The heights of the lines' names: near the lines, and not on each other."""
    low = float(CHART_TOP + CHART)
    placed = dict.fromkeys(range(len(heights)), 0.0)
    for i in sorted(placed, key=lambda i: (-heights[i], i)):
        placed[i] = min(heights[i], low)
        low = placed[i] - NAME
    return [placed[i] for i in range(len(heights))]


def _legend(y: float) -> list[str]:
    """What the strips are made of."""
    drawn, x = [], float(LEFT)
    for name, fill, wide in (
        ("held by others", ink("decode"), 90),
        ("held by V", ink("prefill"), 60),
        ("V waits", ink("waiting"), 50),
    ):
        drawn.append(element("rect", x=x, y=y - 10, width=11, height=11, fill=fill))
        drawn.append(text(name, x + 15, y, **_SOFT))
        x += wide + 24
    y += 18
    tick, dashes = f"M{LEFT + 5} {num(y - 10)}v11", f"M{LEFT + 166} {num(y - 4)}h22"
    return [
        *drawn,
        element("path", d=tick, stroke=ink("text")),
        text("came later, goes first", LEFT + 15, y, **_SOFT),
        element("path", d=dashes, stroke=ink("text"), stroke_dasharray="4 3"),
        text("V’s prompt fits below", LEFT + 194, y, **_SOFT),
    ]


def _strip(run: dict[str, Any], data: Data, y: float, steps: int, row: int, current: bool) -> str:
    """One rule's run: V's wait with everybody that passes it, and below it the memory held."""
    wide = (RIGHT - LEFT) / steps
    start, wait = LEFT + wide * data["arrival"], max(1.5, wide * run["wait"])
    others = [
        held - PROMPT * any(first <= step < end for first, end in run["stays"])
        for step, held in enumerate(run["held"])
    ]
    base = y + 12 + STRIP
    line = f"M{LEFT} {num(base - STRIP * (1 - PROMPT / POOL))}H{RIGHT}"
    ticks = "".join(f"M{num(LEFT + wide * step)} {num(y - 2)}v7" for step in run["passing"])
    told = f"V waits {run['wait']} steps, {len(run['passing'])} go first"
    return element(
        "g",
        text(run["name"], LEFT, y - 8, font_weight="600"),
        text(told, RIGHT, y - 8, text_anchor="end", **_SOFT),
        element("rect", x=start, y=y, width=wait, height=3, fill=ink("waiting")),
        element("path", d=ticks or "M0 0", stroke=ink("text"), stroke_width=0.9),
        element("path", d=_area(run["held"], base, wide), fill=ink("prefill")),
        element("path", d=_area(others, base, wide), fill=ink("decode")),
        element("path", d=line, stroke=ink("paper"), stroke_width=3),
        element("path", d=line, stroke=ink("text"), stroke_width=1, stroke_dasharray="4 3"),
        element("path", d=f"M{LEFT} {num(base)}H{RIGHT}", stroke=ink("hairline-strong")),
        element(
            "rect", x=LEFT - 6, y=y - 23, width=RIGHT - LEFT + 12, height=STRIP + 41, rx=2,
            fill="none", stroke=ink("text") if current else "none", stroke_width=1.5,
            class_=f"kv-pick{' is-current' if current else ''}", data_pick=row,
        ),
    )  # fmt: skip


def _area(tokens: list[int], base: float, wide: float) -> str:
    """A path that fills these tokens of the pool from the strip's bottom, a step a column."""
    path, last = [f"M{LEFT} {num(base)}"], None
    for step, held in enumerate(tokens):
        high = num(base - STRIP * held / POOL)
        if high != last:
            path.append(f"H{num(LEFT + wide * step)}V{high}")
            last = high
    return f"{''.join(path)}H{num(LEFT + wide * len(tokens))}V{num(base)}Z"


def _steps(steps: int, y: float) -> list[str]:
    """Steps below the last strip."""
    drawn = []
    for step in range(0, steps, 50 if steps <= 400 else 100):
        x = LEFT + (RIGHT - LEFT) * step / steps
        label = "step 0" if step == 0 else f"{step}"
        drawn.append(text(label, x, y + 16, text_anchor="middle" if step else "start", **_SOFT))
    return drawn


def table(data: Data) -> Table:
    """The five runs in numbers."""
    rows: list[tuple[str | tuple[str, str], ...]] = [
        (
            run["name"],
            run["rule"],
            f"{run['wait']}",
            f"{len(run['passing'])}",
            f"{run['mean']}",
            f"{run['worst']}",
            ", ".join(f"{wait}" for wait in run["waits"]),
        )
        for run in data["runs"]
    ]
    streams = ", ".join(map(str, data["lengths"]))
    head = (
        "name", "rule", "V waits, steps", "came later, go first", "others wait, mean", "at most",
        f"V waits, if {streams} follow",
    )  # fmt: skip
    return Table("The five runs in numbers", head, rows)
