"""The three budgets over time, one above the other, and how the promises compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from kvsched.views.svg import element, ink, num, picture, text
from kvsched.views.view import Data, Selection, Table

WIDTH, HEIGHT = 460, 432
LEFT, RIGHT = 38, 452
TOP, BOTTOM = 44, 196
WAIT, HIGH = 242, 14
WORK_TOP, WORK = 290, 334
RUNS, ROW = 378, 19
_BOLD: dict[str, str | float] = {"font_weight": "600"}
_SOFT: dict[str, str | float] = {"fill": ink("soft")}
STACK = (
    ("taken", ink("decode"), "none"),
    ("promised", ink("track"), ink("decode")),
    ("draining", ink("draining"), "none"),
)
"""From the bottom up, with fill and outline; what is left above is slack."""
REASONS = {
    "serial": ("its turn", ink("hairline-strong"), "none"),
    "credits": ("promises", ink("track"), ink("decode")),
    "draining": ("drains", ink("draining"), "none"),
}
"""What the head of the queue waits for, drawn as in the stack."""

WORKS = (("prefill", ink("prefill"), "none"), ("decode", ink("decode"), "none"))


def draw(data: Data, selection: Selection) -> str:
    """The budgets under the picked promise, then when each promise's last request completes."""
    pick = selection.get("pick", 0)
    layers = [_layer(data, row, row == pick) for row in range(len(data["points"]))]
    runs = [_run(data, row, row == pick) for row in range(len(data["points"]))]
    return picture(
        WIDTH,
        HEIGHT,
        data["alt"],
        text("Blocks", 4, 14, **_BOLD),
        *_key(LEFT, 32, STACK, 92),
        text("above them: slack", LEFT + 276, 32, **_SOFT),
        *layers,
        *_axes(data),
        text("The queue’s head waits for", 4, WAIT - 7, **_BOLD),
        *_key(LEFT + 168, WAIT - 7, REASONS.values(), 84),
        text("Tokens of each dispatch", 4, WORK_TOP - 9, **_BOLD),
        *_key(LEFT + 168, WORK_TOP - 9, WORKS, 84),
        text("All done at tick", 4, RUNS - 8, **_BOLD),
        *runs,
        class_="kv-reservations",
        fill=ink("text"),
        font_size="12.5",
        font_family="sans-serif",
    )


def _key(x: float, y: float, entries: Iterable[tuple[str, str, str]], apart: float) -> list[str]:
    """What the fills mean, in a row that begins at ``x``."""
    shapes = []
    for place, (name, fill, edge) in enumerate(entries):
        left = x + apart * place
        shapes += [
            element("rect", x=left, y=y - 10, width=11, height=11, fill=fill, stroke=edge),
            text(name, left + 16, y),
        ]
    return shapes


def _axes(data: Data) -> list[str]:
    middle, half = (LEFT + RIGHT) / 2, data["until"] // 2
    return [
        *(
            element("path", d=f"M{LEFT} {y}H{RIGHT}", stroke=ink("text"), stroke_dasharray="4 3")
            for y in (TOP, WORK_TOP)
        ),
        *(
            element("path", d=f"M{LEFT} {y}H{RIGHT}", stroke=ink("hairline-strong"))
            for y in (BOTTOM, WAIT + HIGH, WORK)
        ),
        text(f"{data['blocks']}", LEFT - 6, TOP + 5, text_anchor="end", **_SOFT),
        text("0", LEFT - 6, BOTTOM + 4, text_anchor="end", **_SOFT),
        text(f"{data['budget']}", LEFT - 6, WORK_TOP + 5, text_anchor="end", **_SOFT),
        text("0", LEFT - 6, WORK + 4, text_anchor="end", **_SOFT),
        text("tick 0", LEFT, BOTTOM + 15, **_SOFT),
        text(f"{half}", middle, BOTTOM + 15, text_anchor="middle", **_SOFT),
        text(f"{data['until']}", RIGHT, BOTTOM + 15, text_anchor="end", **_SOFT),
    ]  # fmt: skip


def _layer(data: Data, row: int, current: bool) -> str:
    """What is seen only while this promise is picked."""
    point, until = data["points"][row], max(1, data["until"])
    areas = []
    for level, (_, fill, edge) in reversed(list(enumerate(STACK))):
        path = _area(point["pool"], level, data["blocks"], until)
        areas.append(element("path", d=path, fill=fill, stroke=edge))
    return element(
        "g",
        *areas,
        *(_wait(start, end, why, until) for start, end, why in point["waits"]),
        _work(point["work"], data["budget"], until, (1, 2), "prefill"),
        _work(point["work"], data["budget"], until, (2,), "decode"),
        class_=f"kv-layer{' is-current' if current else ''}",
        display="inline" if current else "none",
        data_pick=row,
    )


def _area(pool: list[list[int]], level: int, blocks: int, until: int) -> str:
    """The outline of the lowest ``level + 1`` parts together, a step at a time."""
    wide, tall = (RIGHT - LEFT) / until, (BOTTOM - TOP) / blocks
    path = [f"M{LEFT} {BOTTOM}"]
    for t, *parts in pool:
        x, y = LEFT + wide * min(t, until), BOTTOM - tall * sum(parts[: level + 1])
        path.append(f"H{num(x)}V{num(y)}")
    return f"{''.join(path)}H{RIGHT}V{BOTTOM}Z"


def _wait(start: int, end: int, binding: str, until: int) -> str:
    """One reason to wait, from when to when."""
    _, fill, edge = REASONS[binding]
    wide = (RIGHT - LEFT) / until
    x, long = LEFT + wide * start, wide * (end - start)
    return element("rect", x=x, y=WAIT, width=long, height=HIGH, fill=fill, stroke=edge)


def _work(
    work: list[list[int]], budget: int, until: int, parts: tuple[int, ...], phase: str
) -> str:
    """Columns of tokens: prefill stands on decode, so both together are drawn first."""
    wide, tall = (RIGHT - LEFT) / until, (WORK - WORK_TOP) / budget
    columns = []
    for dispatch in work:
        high = tall * sum(dispatch[part] for part in parts)
        x = LEFT + wide * dispatch[0]
        columns.append(f"M{num(x)} {WORK}v{num(-high)}h{num(max(0.8, wide - 0.8))}v{num(high)}z")
    return element("path", d="".join(columns), fill=ink(phase))


def _run(data: Data, row: int, current: bool) -> str:
    """A promise as a bar up to its end; it can be picked here too."""
    point, y = data["points"][row], RUNS + ROW * row
    first = LEFT + 96
    end = first + (RIGHT - 124 - first) * point["end"] / max(1, data["until"])
    said = f"{point['end']}" if point["done"] else "all rejected"
    if point["preempted"]:
        said += f", {point['preempted']} preemptions"
    if point["rejected"]:
        said += f", {point['rejected']} rejected"
    return element(
        "g",
        text(point["pick"], first - 8, y + 11, text_anchor="end"),
        element(
            "rect", x=first, y=y, width=max(1, end - first), height=13, fill=ink("waiting"),
            class_=f"kv-pick{' is-current' if current else ''}", data_pick=row,
            stroke=ink("text") if current else "none", stroke_width=2.5,
        ),
        text(said, end + 8, y + 11),
    )  # fmt: skip


def table(data: Data) -> Table:
    """Every promise in numbers."""
    rows: list[tuple[str | tuple[str, str], ...]] = [_row(point) for point in data["points"]]
    head = (
        "promise", "complete", "last at", "TTFT mean", "preemptions", "tokens again",
        "ticks the head waited for",
    )  # fmt: skip
    return Table("Every promise in numbers", head, rows)


def _row(point: dict[str, Any]) -> tuple[str, ...]:
    ticks: Counter[str] = Counter()
    for start, end, binding in point["waits"]:
        ticks[REASONS[binding][0]] += end - start
    return (
        point["pick"],
        f"{point['done']}",
        f"{point['end']}",
        f"{point['ttft']}",
        f"{point['preempted']}",
        f"{point['recomputed']}",
        ", ".join(f"{name} {count}" for name, count in ticks.items()) or "none",
    )
