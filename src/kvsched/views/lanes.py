"""The player where no script runs: the lanes as a picture, and every step in words."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from kvsched.explain.short import MOST, plain
from kvsched.views.svg import element, ink, num, picture, text
from kvsched.views.view import Data, Selection, Table

WIDTH, LEFT, RIGHT = 760, 44, 8
TOP, HEAD, HIGH, FOOT = 22, 18, 44, 12
SMALL_HEAD, SMALL, SMALL_FOOT = 3, 13, 1

STYLE = {"class_": "kv-lanes-figure", "font_size": "12", "font_family": "sans-serif"}
_HATCHED = ("preempted", "prefill", "waiting")


def said(data: Data) -> list[list[str]]:
    """The clauses of every step, those that only repeat the step before included."""
    return list(accumulate(data["trace"]["says"], lambda last, now: now or last))


def table(data: Data) -> Table:
    """Every step's sentence."""
    rows: list[tuple[str | tuple[str, str], ...]] = [
        (str(step), " ".join(map(plain, clauses[:MOST]))) for step, clauses in enumerate(said(data))
    ]
    return Table("Every step in words", ("step", "what happens"), rows)


def draw(data: Data, selection: Selection) -> str:
    """The lanes of a run with the selected step outlined, and its sentence below."""
    drawn, high = shapes(data, selection)
    return picture(WIDTH, high, data["alt"], hatches(), *drawn, **STYLE)


def shapes(data: Data, selection: Selection) -> tuple[list[str], float]:
    """What ``draw`` draws, but for the hatches, and its height."""
    trace = data["trace"]
    lanes = list(trace["lanes"].items())
    many = len(lanes) > 8
    head, high, foot = (SMALL_HEAD, SMALL, SMALL_FOOT) if many else (HEAD, HIGH, FOOT)
    wide = (WIDTH - LEFT - RIGHT) / len(trace["says"])
    tallest = max([1, *(_top(lane) for _, lane in lanes)])
    rows = []
    for place, (request_id, lane) in enumerate(lanes):
        base = TOP + place * (head + high + foot) + head + high
        rows.append(_Row(base, high / tallest, wide, trace["phases"], many).draw(request_id, lane))
    bottom = TOP + len(lanes) * (head + high + foot)
    step = min(int(selection.get("step", 0)), len(trace["says"]) - 1)
    lines = _lines(f"Step {step}. " + " ".join(map(plain, said(data)[step][:MOST])))
    drawn = [
        *_axis(len(trace["says"]), wide),
        *rows,
        element(
            "rect", x=LEFT + step * wide, y=TOP - 2, width=max(wide, 2), height=bottom - TOP,
            rx=2, fill="none", stroke=ink("text"), stroke_width=1.4,
        ),
        *(text(line, 0, bottom + 20 * (row + 1), font_size=14.5, fill=ink("text"))
          for row, line in enumerate(lines)),
    ]  # fmt: skip
    return drawn, bottom + 20 * len(lines) + 8


def hatches() -> str:
    """The hatches that the lanes are filled with."""
    return element("defs", *(_hatch(name) for name in _HATCHED))


class _Row:
    """One lane on its baseline; ``scale`` is pixels a token, ``wide`` pixels a step."""

    def __init__(
        self, base: float, scale: float, wide: float, phases: list[str], many: bool
    ) -> None:
        self.base, self.scale, self.wide = base, scale, wide
        self.phases, self.many = phases, many

    def draw(self, request_id: str, lane: dict[str, Any]) -> str:
        size = {"font_size": 11 if self.many else 18, "fill": ink("text")}
        shapes = [shape for segment in lane["segments"] for shape in self._segment(*segment)]
        line = element("path", d=f"M{LEFT} {num(self.base)}H{WIDTH}", stroke=ink("hairline"))
        name = text(request_id, 0, self.base - (1 if self.many else 12), **size)
        return element("g", line, name, *shapes, *self._marks(lane["marks"]))

    def _marks(self, marks: list[list[Any]]) -> list[str]:
        """Losses as bars; in words, where there is room, what was lost and what came back."""
        shapes, free = [], 0.0
        for step, kind, *rest in marks:
            x = self._x(step)
            if kind == "lost":
                high = rest[0] * self.scale
                shapes.append(element(
                    "rect", x=x - 1, y=self.base - high, width=2.5, height=high,
                    fill=ink("preempted"),
                ))  # fmt: skip
            if self.many:
                continue
            words, fill = self._words(kind, rest)
            if kind == "end":
                shapes.append(text(
                    words, self._x(step + 1) - 2, self.base - HIGH - 5, text_anchor="end", fill=fill
                ))  # fmt: skip
            elif x + 3 > free:
                shapes.append(text(words, x + 3, self.base - HIGH - 5, fill=fill))
                free = x + 9 + 6.2 * len(words)
            elif kind == "back":
                x, fill = x + self.wide + 4, ink("on-decode")
                shapes.append(text(words, x, self.base - HIGH / 2 + 4, fill=fill))
        return shapes

    def _words(self, kind: str, rest: list[Any]) -> tuple[str, str]:
        if kind == "lost":
            return f"−{rest[0]:,} tokens", ink("preempted")
        if kind == "back":
            return f"+{rest[0]:,} from cache, {rest[1]:,} computed", ink("prefill-text")
        return f"{rest[0]}, {rest[1]:,} out", ink("soft")

    def _x(self, step: float) -> float:
        return LEFT + step * self.wide

    def _segment(
        self, phase: int, first: int, steps: int, height: int = 0, rise: int = 0, base: int = 0,
        found: int = 0,
    ) -> list[str]:  # fmt: skip
        slug = self.phases[phase]
        if slug == "prefill":
            under = "url(#kv-hatch-prefill)" if found else ink("prefill")
            least = max((height - base) * self.scale, 2)
            return [
                self._area(first, steps, base * self.scale, under, 1 if found else 0.34),
                self._area(first, steps, least, ink("prefill"), over=base * self.scale),
            ]
        if slug in ("decode", "idle"):
            return [self._steps(first, steps, height, rise, 1 if slug == "decode" else 0.45)]
        shapes = [self._area(first, steps, 2.5, ink(slug))]
        if height:
            shapes.append(self._area(first, steps, height * self.scale, ink(slug)))
        if found:
            hatch = f"url(#kv-hatch-{slug})" if slug in _HATCHED else ink(slug)
            shapes.append(self._area(first, steps, found * self.scale, hatch))
        return shapes

    def _area(
        self, first: int, steps: int, high: float, fill: str, opacity: float = 1, over: float = 0
    ) -> str:
        return element(
            "rect", x=self._x(first), y=self.base - over - high, width=steps * self.wide,
            height=high, fill=fill, fill_opacity=opacity,
        )  # fmt: skip

    def _steps(self, first: int, steps: int, height: int, rise: int, opacity: float) -> str:
        top, end = self.base - height * self.scale, height + rise * (steps - 1)
        slope = f"H{num(self._x(first + 1))}L{num(self._x(first + steps))} "
        path = (
            f"M{num(self._x(first))} {num(self.base)}V{num(top)}{slope if steps > 1 else ''}"
            f"{num(self.base - end * self.scale) if steps > 1 else ''}"
            f"H{num(self._x(first + steps))}V{num(self.base)}Z"
        )
        return element("path", d=path, fill=ink("decode"), fill_opacity=opacity)


def _top(lane: dict[str, Any]) -> int:
    """The most a lane shows at once."""
    full = [[*segment, 0, 0, 0, 0][:7] for segment in lane["segments"]]
    return max((max(s[3] + s[4] * (s[2] - 1), s[6]) for s in full), default=1)


def _axis(steps: int, wide: float) -> list[str]:
    every = next((each for each in (1, 2, 5, 10, 20, 50) if each * wide >= 40), 100)
    return [
        text(f"{step}", LEFT + (step + 0.5) * wide, 12, text_anchor="middle", fill=ink("soft"))
        for step in range(0, steps, every)
    ]


def _hatch(name: str) -> str:
    stroke = element("path", d="M0 0V5", stroke=ink(name), stroke_width=1.5)
    return element(
        "pattern", stroke, id=f"kv-hatch-{name}", width=5, height=5,
        patternUnits="userSpaceOnUse", patternTransform="rotate(45)",
    )  # fmt: skip


def _lines(words: str, most: int = 104) -> list[str]:
    """Words in lines that fit the picture."""
    lines = [""]
    for word in words.split():
        if len(lines[-1]) + len(word) >= most:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
