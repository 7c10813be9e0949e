"""The state diagram: where the statuses stand, how the moves run between them, and the table."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from kvsched.views.svg import element, ink, num, picture, text
from kvsched.views.view import Data, Selection, Table

WIDTH, HEIGHT = 366, 480
ROW, CHAR, PAD = 13, 6.4, 8
"""Line height, width of a character, and the air around a status's name."""


class Place(NamedTuple):
    """The centre of a status, the letters its column is wide, and its name in lines."""

    x: float
    y: float
    letters: int
    lines: tuple[str, ...]

    @property
    def half(self) -> tuple[float, float]:
        """Half the width and half the height of the box that moves end at."""
        return self.letters * CHAR / 2 + PAD, len(self.lines) * ROW / 2 + PAD - 2

    def side(self, way: int, gap: float) -> tuple[float, float]:
        """The middle of the right (1) or left (-1) edge, a gap away."""
        return self.x + way * (self.half[0] + gap), self.y


def _column(x: float, letters: int, *names: tuple[float, str]) -> dict[str, Place]:
    """Statuses below each other; ``|`` in a name is where its line breaks."""
    return {
        name.replace("|", ""): Place(x, y, letters, tuple(name.split("|"))) for y, name in names
    }


PLACES = {
    **_column(
        53,
        14,
        (92, "WAITING_FOR_|STRUCTURED_|OUTPUT_GRAMMAR"),
        (228, "WAITING_FOR_|REMOTE_KVS"),
        (452, "WAITING_FOR_|STREAMING_REQ"),
    ),
    **_column(184, 9, (18, "(new)"), (92, "WAITING"), (262, "RUNNING"), (350, "PREEMPTED")),
    **_column(
        316,
        13,
        (38, "FINISHED_|IGNORED"),
        (124, "FINISHED_|ABORTED"),
        (206, "FINISHED_|ERROR"),
        (288, "FINISHED_|REPETITION"),
        (370, "FINISHED_|LENGTH_CAPPED"),
        (452, "FINISHED_|STOPPED"),
    ),
}
MIDDLE = (110, 260)
"""Between these two x stand the statuses of a request that is in no finished or blocked one."""
BOW = 9
"""How far a move bows to the left of its straight line, so that it misses its counterpart."""


def draw(data: Data, selection: Selection) -> str:
    """The diagram, with the selected status and its moves marked."""
    current = selection.get("status")
    pairs = _pairs(data)
    finished = {node["id"] for node in data["nodes"] if node["finished"]}
    arrows = [
        _arrow(pair, moves, pair[0] == current, not finished.isdisjoint(pair))
        for pair, moves in pairs.items()
    ]
    nodes = [_node(node, node["id"] == current) for node in data["nodes"]]
    new = PLACES["(new)"]
    start = text("(new)", new.x - new.half[0] + 11, new.y + 3.5, **_FONT)
    return picture(
        WIDTH, HEIGHT, data["alt"], *arrows, start, *nodes, class_="kv-states", font_size="10.5"
    )


def table(data: Data) -> Table:
    """Every legal move: from, to, what makes it, and the engine's first line of it."""
    lines = {event["id"]: tuple(event["lines"][0]) for event in data["events"]}
    rows: list[tuple[str | tuple[str, str], ...]] = [
        (move["from"], move["to"], move["says"].partition(": ")[2], lines[move["event"]])
        for move in data["moves"]
    ]
    return Table("Every legal move, as a table", ("from", "to", "when", "vLLM 0.28.0"), rows)


_FONT: dict[str, str | float] = {
    "font_family": "ui-monospace, Menlo, Consolas, monospace",
    "fill": ink("text"),
}


def _pairs(data: Data) -> dict[tuple[str, str], list[int]]:
    pairs: dict[tuple[str, str], list[int]] = {}
    for index, move in enumerate(data["moves"]):
        pairs.setdefault((move["from"], move["to"]), []).append(index)
    return pairs


def _node(node: dict[str, Any], current: bool) -> str:
    place = PLACES[node["id"]]
    half_x, half_y = place.half
    left, top = place.x - half_x, place.y - half_y
    first = place.y - (len(place.lines) - 1) * ROW / 2 + 3.5
    box = element(
        "rect", x=left, y=top, width=2 * half_x, height=2 * half_y, rx=4, fill=ink("paper"),
        stroke=ink("text") if current else "none", stroke_width=1.5, class_="kv-state-box",
    )  # fmt: skip
    ring: dict[str, str | float] = (
        {"stroke": ink("done-ring"), "stroke_width": 1} if node["finished"] else {}
    )
    bar = element(
        "rect", x=left, y=top + 3, width=4, height=2 * half_y - 6, fill=ink(node["phase"]), **ring
    )
    lines = [text(line, left + 11, first + ROW * i, **_FONT) for i, line in enumerate(place.lines)]
    mark = " is-current" if current else ""
    return element("g", box, bar, *lines, class_=f"kv-state{mark}", data_status=node["id"])


def _arrow(pair: tuple[str, str], moves: list[int], leaving: bool, finishes: bool) -> str:
    start, first, second, end = _curve(PLACES[pair[0]], PLACES[pair[1]])
    colour = ink("text") if leaving else "none" if finishes else ink("hairline-strong")
    line = element(
        "path", d=f"M{_xy(start)}C{_xy(first)} {_xy(second)} {_xy(end)}", fill="none", stroke=colour
    )
    head = element("path", d=_head(second, end), fill=colour)
    kind = " finishes" if finishes else ""
    mark = " is-leaving" if leaving else ""
    return element(
        "g", line, head, class_=f"kv-move{kind}{mark}", data_from=pair[0], data_to=pair[1],
        data_moves=" ".join(map(str, moves)),
    )  # fmt: skip


Point = tuple[float, float]


def _curve(a: Place, b: Place) -> tuple[Point, Point, Point, Point]:
    """A cubic curve from box to box that no other box lies on."""
    columns = [-1 if p.x < MIDDLE[0] else 1 if p.x > MIDDLE[1] else 0 for p in (a, b)]
    if columns == [1, 1]:  # both finished: around the left
        start, end = a.side(-1, 2), b.side(-1, 4)
        return start, (start[0] - 30, start[1]), (end[0] - 30, end[1]), end
    if 1 in columns:  # to or from a finished one: level at both ends
        way = 1 if b.x > a.x else -1
        start, end = a.side(way, 2), b.side(-way, 4)
        reach = (end[0] - start[0]) * 0.45
        return start, (start[0] + reach, start[1]), (end[0] - reach, end[1]), end
    if columns == [-1, 0] and b.y < a.y - 200:  # up between the columns
        start, end = (a.x + 40, a.y - a.half[1] - 2), (b.x - 24, b.y + b.half[1] + 4)
        return start, (start[0] + 44, start[1] - 100), (end[0] - 40, end[1] + 90), end
    dx, dy = b.x - a.x, b.y - a.y
    length = math.hypot(dx, dy)
    middle = (a.x + b.x) / 2 + dy / length * 2 * BOW, (a.y + b.y) / 2 - dx / length * 2 * BOW
    start, end = _edge(a, middle, 2), _edge(b, middle, 4)
    return start, _towards(start, middle), _towards(end, middle), end


def _towards(point: Point, middle: Point) -> Point:
    """The cubic control point of a quadratic curve whose control point is ``middle``."""
    return point[0] + (middle[0] - point[0]) * 2 / 3, point[1] + (middle[1] - point[1]) * 2 / 3


def _edge(place: Place, towards: Point, gap: float) -> Point:
    """Where the line from the centre towards a point leaves the box widened by a gap."""
    dx, dy = towards[0] - place.x, towards[1] - place.y
    half_x, half_y = place.half
    scale = min(
        (half_x + gap) / abs(dx) if dx else math.inf, (half_y + gap) / abs(dy) if dy else math.inf
    )
    return place.x + dx * scale, place.y + dy * scale


def _head(before: Point, tip: Point) -> str:
    dx, dy = tip[0] - before[0], tip[1] - before[1]
    length = math.hypot(dx, dy)
    ux, uy = dx / length, dy / length
    x, y = tip[0] - 6 * ux, tip[1] - 6 * uy
    left, right = (x - 2.8 * uy, y + 2.8 * ux), (x + 2.8 * uy, y - 2.8 * ux)
    return f"M{_xy(tip)}L{_xy(left)}L{_xy(right)}Z"


def _xy(point: Point) -> str:
    return f"{num(point[0])} {num(point[1])}"
