"""The tests as a strip: a row a test, a column a step, red where it refuses; the pool below."""

from __future__ import annotations

from kvsched.views.svg import element, ink, num, picture, text
from kvsched.views.view import Data, Selection, Table

WIDTH, HEIGHT = 460, 260
LEFT, RIGHT = 104, 456
ROW, BAR, TOP = 18, 12, 8
RUNNING, POOL, TALL = 126, 178, 46
"""Where the two areas begin, and how high the lower one is."""
_SOFT: dict[str, str | float] = {"fill": ink("soft")}


def draw(data: Data, selection: Selection) -> str:
    """Refusals by step, then who runs and what is held, with the selected step outlined."""
    count = len(data["held"])
    wide = (RIGHT - LEFT) / count
    step = min(selection.get("step", 0), count - 1)
    return picture(
        WIDTH,
        HEIGHT,
        data["alt"],
        *(_test(name, row) for row, name in enumerate(data["tests"])),
        element("g", *(_refused(run, wide) for run in data["binding"]), fill=ink("preempted")),
        *_area("Running", data["running"], data["slots"], RUNNING, 34, "decode"),
        *_area("Blocks held", data["held"], data["blocks"], POOL, TALL, "decode"),
        *_kept(data),
        *_axis(count, wide),
        element(
            "rect", x=LEFT + wide * step, y=TOP - 4, width=max(wide, 2),
            height=POOL + TALL - TOP + 8, rx=1.5, fill="none", stroke=ink("text"),
            stroke_width=1.5, class_="kv-cursor", data_left=LEFT, data_right=RIGHT,
        ),
        class_="kv-admission",
        fill=ink("text"),
        font_size="12.5",
        font_family="sans-serif",
    )  # fmt: skip


def _test(name: str, row: int) -> str:
    y = TOP + ROW * row
    return element(
        "g",
        text(name, LEFT - 8, y + BAR - 1, text_anchor="end"),
        element("rect", x=LEFT, y=y, width=RIGHT - LEFT, height=BAR, fill=ink("track")),
    )


def _refused(run: list[int], wide: float) -> str:
    row, first, steps = run[:3]
    return element("rect", x=LEFT + wide * first, y=TOP + ROW * row, width=wide * steps, height=BAR)


def _area(name: str, values: list[int], limit: int, top: int, tall: int, fill: str) -> list[str]:
    """Values by step as an area below the line of their limit."""
    wide, bottom = (RIGHT - LEFT) / len(values), top + tall
    path = [f"M{LEFT} {bottom}"]
    for step, value in enumerate(values):
        path.append(f"V{num(bottom - tall * value / limit)}H{num(LEFT + wide * (step + 1))}")
    return [
        element("path", d=f"{''.join(path)}V{bottom}Z", fill=ink(fill)),
        element("path", d=f"M{LEFT} {top}H{RIGHT}", stroke=ink("text"), stroke_width=1),
        text(name, LEFT - 8, top + tall / 2 + 4, text_anchor="end"),
        text(f"{limit}", LEFT - 8, top + 4, text_anchor="end", **_SOFT),
    ]


def _kept(data: Data) -> list[str]:
    """The line that an admission may not cross while others run, if there is a watermark."""
    if not data["kept"]:
        return []
    y = POOL + TALL * data["kept"] / data["blocks"]
    return [
        element("path", d=f"M{LEFT} {num(y)}H{RIGHT}", stroke=ink("text"), stroke_dasharray="4 3")
    ]


def _axis(count: int, wide: float) -> list[str]:
    every = next(each for each in (5, 10, 20, 50, 100) if count / each <= 12)
    return [
        text("step", LEFT - 8, HEIGHT - 14, text_anchor="end", **_SOFT),
        *(
            text(f"{step}", LEFT + wide * (step + 0.5), HEIGHT - 14, text_anchor="middle", **_SOFT)
            for step in range(0, count, every)
        ),
    ]


def table(data: Data) -> Table:
    """Each run of steps refused by one test, with both sides at its start."""
    rows: list[tuple[str | tuple[str, str], ...]] = [
        (
            f"{first} to {first + steps - 1}" if steps > 1 else f"{first}",
            data["tests"][row],
            request_id,
            f"{asked} > {limit}",
        )
        for row, first, steps, request_id, asked, limit in data["binding"]
    ]
    return Table(
        "Every refusal in numbers",
        ("steps", "binding test", "refused", "asked > limit, in the first of them"),
        rows or [("–", "–", "nobody", "–")],
    )
