"""The undisturbed answer above the disturbed one, and every fault as a line of squares."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from kvsched.views.svg import element, ink, num, picture, text
from kvsched.views.view import Data, Selection, Table

WIDTH = 460
LEFT, CELL = 104, 20
"""Where the first token begins, and a token's width."""
ABOVE, BELOW, LIST, LINE = 46, 78, 136, 25
"""Tops of the two answers and of the list, and the height of its lines."""
_SOFT: dict[str, str | float] = {"fill": ink("soft")}


def draw(data: Data, selection: Selection) -> str:
    """The picked fault's answer, then all of them with the picked one marked."""
    pick = selection.get("pick", 0)
    rows = data["rows"]
    return picture(
        WIDTH,
        LIST + LINE * len(rows) + 6,
        data["alt"],
        text(data["title"], 4, 14, font_weight="600"),
        text("undisturbed", 4, ABOVE + 16, **_SOFT),
        *(_token(token, n, ABOVE, wrong=False) for n, token in enumerate(data["whole"])),
        text("it gets", 4, BELOW + 16, **_SOFT),
        *(_answer(row, number, number == pick) for number, row in enumerate(rows)),
        text("Not restored", 4, LIST - 8, font_weight="600"),
        text("others", WIDTH - 4, LIST - 8, text_anchor="end", **_SOFT),
        *(_line(row, number, number == pick) for number, row in enumerate(rows)),
        class_="kv-same-answer",
        fill=ink("text"),
        font_size="12.5",
        font_family="sans-serif",
    )


def _x(number: int) -> float:
    return LEFT + CELL * number


def _token(token: int, number: int, top: float, wrong: bool) -> str:
    """A token's id; a differing one is framed and bold."""
    frame = {"stroke": ink("preempted" if wrong else "hairline-strong")}
    weight = {"font_weight": "700"} if wrong else {}
    return element(
        "g",
        element(
            "rect", x=_x(number) + 1, y=top, width=CELL - 2, height=24, rx=3, fill=ink("track"),
            stroke_width=2 if wrong else 1, **frame,
        ),
        text(f"{token}", _x(number) + CELL / 2, top + 16, text_anchor="middle", font_size="10",
             **weight),
    )  # fmt: skip


def _answer(row: dict[str, Any], number: int, current: bool) -> str:
    """What is seen only while this fault is picked: its tokens, and when it was thrown out."""
    tokens = (_token(t, n, BELOW, n in row["wrong"]) for n, t in enumerate(row["tokens"]))
    return element(
        "g",
        *_outs(row["moments"]),
        *tokens,
        class_=f"kv-layer{' is-current' if current else ''}",
        display="inline" if current else "none",
        data_pick=number,
    )


def _outs(moments: list[list[Any]]) -> list[str]:
    """A triangle where the answer stood at each preemption, with how often if more than once."""
    marks = []
    for given, each in groupby(outputs for kind, outputs, _ in moments if kind == "out"):
        x, times = _x(given), len(list(each))
        triangle = f"M{num(x - 5)} 28H{num(x + 5)}L{num(x)} 36ZM{num(x)} 36V{BELOW + 26}"
        marks.append(
            element(
                "path", d=triangle, fill=ink("preempted"), stroke=ink("preempted"), stroke_width=1
            )
        )
        if times > 1:
            marks.append(text(f"{times}×", x + 7, 36, font_size="11", **_SOFT))
    return marks


def _line(row: dict[str, Any], number: int, current: bool) -> str:
    """One fault's tokens as marks; the whole line can be hit."""
    top = LIST + LINE * number
    marks = [
        element("rect", x=_x(n) + 4, y=top + 6, width=12, height=12, rx=2, fill=ink("preempted"))
        if n in row["wrong"]
        else element("circle", cx=_x(n) + CELL / 2, cy=top + 12, r=1.8, fill=ink("soft"))
        for n in range(len(row["tokens"]))
    ]
    others = f"+{row['others']}" if row["others"] else ""
    frame = element(
        "rect", x=1, y=top, width=WIDTH - 2, height=LINE - 1, rx=3, fill="none",
        class_=f"kv-pick{' is-current' if current else ''}", data_pick=number,
        stroke=ink("text") if current else "none", stroke_width=1.5,
    )  # fmt: skip
    rule = element("path", d=f"M4 {num(top + LINE - 0.5)}H{WIDTH - 4}", stroke=ink("hairline"))
    return element(
        "g", rule, text(row["name"], 8, top + 16, **_SOFT), *marks, frame,
        text(others, WIDTH - 8, top + 16, text_anchor="end", font_size="11"),
    )  # fmt: skip


def table(data: Data) -> Table:
    """Every fault's answer in full."""
    rows: list[tuple[str | tuple[str, str], ...]] = [
        (
            row["name"],
            " ".join(map(str, row["tokens"])),
            f"{len(row['wrong'])}",
            f"{row['wrong'][0] + 1}" if row["wrong"] else "none",
            f"{row['others']}",
        )
        for row in data["rows"]
    ]
    head = ("not restored", "answer", "tokens that differ", "the first", "of the others")
    return Table("Every answer", head, rows)
