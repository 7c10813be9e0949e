"""The pages and requests after one move, above every page after every move."""

from __future__ import annotations

from typing import Any

from kvsched.views.svg import element, ink, num, picture, text
from kvsched.views.view import Data, Selection, Table

WIDTH, LEFT = 384, 4
CELL, HIGH = 25, 19
"""Width and height of a token."""
POOL, REQUEST, LINE = 64, 48, 21
"""Height of a row of pages, of a request, and of a move's line."""
STRIP = 144
"""Where the pages begin in the lines of the moves."""
FIT = (WIDTH - 2 * LEFT) // CELL
"""Tokens of a request that have room; of more, the last are shown."""
_SOFT: dict[str, str | float] = {"fill": ink("soft")}
_MID: dict[str, str | float] = {"text_anchor": "middle"}


def draw(data: Data, selection: Selection) -> str:
    """The state after the selected move; the others' states are there, unseen."""
    steps = data["steps"]
    step = min(selection.get("step", 0), len(steps) - 1)
    across = (WIDTH - LEFT) // _pitch(data["size"])
    deep = -(-data["pages"] // across) * POOL
    requests = max(len(each["requests"]) for each in steps)
    below = 44 + deep + REQUEST * max(1, requests) + 30
    return picture(
        WIDTH,
        below + LINE * len(steps) + 4,
        data["alt"],
        *(
            element(
                "g",
                text(_sum(each), LEFT, 13, font_weight="600"),
                *_pool(each["table"], data["size"], across),
                *_requests(each["requests"], 44 + deep),
                class_=f"kv-layer{' is-current' if number == step else ''}",
                display="inline" if number == step else "none",
                data_step=number,
            )
            for number, each in enumerate(steps)
        ),
        text("Every page after every move", LEFT, below - 10, font_weight="600"),
        text("free + draining + ref.", WIDTH - 4, below - 10, text_anchor="end", **_SOFT),
        *_key(20 + deep + 14),
        *(
            _line(data, number, below + LINE * number, number == step)
            for number in range(len(steps))
        ),
        class_="kv-lifecycle",
        fill=ink("text"),
        font_size="12.5",
        font_family="sans-serif",
    )


def _key(y: float) -> list[str]:
    """What the three forms of a token mean."""
    parts = [text("Requests", LEFT, y, font_weight="600")]
    for x, form, words in (
        (112, "resident", "in a page"), (202, "kept", "history only"), (306, "pending", "pending"),
    ):  # fmt: skip
        parts.append(element("path", d=f"M{x}.5 {num(y - 9.5)}h14v10h-14z", **_token(form)))
        parts.append(text(words, x + 20, y, **_SOFT))
    return parts


def _token(form: str, gone: str = "waiting") -> dict[str, str | float]:
    """With a row in a page; history only; pending: the client has it, the model has not."""
    if form == "resident":
        return {"fill": ink("decode")}
    if form == "kept":
        return {"fill": "none", "stroke": ink(gone)}
    return {"fill": "none", "stroke": ink("text"), "stroke_dasharray": "3 2"}


def _sum(step: dict[str, Any]) -> str:
    total = len(step["table"])
    return (
        f"{step['free']} free + {step['draining']} draining + {step['referenced']} referenced = "
        f"{total} page{'' if total == 1 else 's'}"
    )


def _kind(page: dict[str, Any]) -> str:
    if page["owners"]:
        return "shared" if len(page["owners"]) > 1 else "held"
    return "draining" if page["pins"] else "free"


def _inks(kind: str) -> dict[str, str | float]:
    """A page's own ink: solid if it is held or drains, an empty outline if it is free."""
    if kind == "free":
        return {"fill": "none", "stroke": ink("hairline-strong")}
    return {"fill": ink("draining" if kind == "draining" else "decode")}


def _pitch(size: int) -> int:
    """From one page to the next; there must be room for what is written at it."""
    return max(52, size * CELL + 14)


def _pool(pages: list[dict[str, Any]], size: int, across: int) -> list[str]:
    return [
        part
        for number, page in enumerate(pages)
        for part in _page(
            page, number, size,
            LEFT + 3 + number % across * _pitch(size),
            20 + number // across * POOL,
        )
    ]  # fmt: skip


def _page(page: dict[str, Any], number: int, size: int, x: float, y: float) -> list[str]:
    """Its number, its rows, and whose it is; a second outline if shared, pinned or draining."""
    kind, top, rows = _kind(page), y + 17, page["rows"]
    whose = " ".join(page["owners"]) or kind
    label = f"{number} pinned" if page["owners"] and page["pins"] else f"page {number}"
    cells = [f"M{num(x + CELL * i)} {num(top)}h{CELL - 1}v{HIGH}h{1 - CELL}z" for i in range(size)]
    parts = [text(label, x, y + 9, font_size="11", **_SOFT)]
    for paths, style in ((cells[: len(rows)], kind), (cells[len(rows) :], "free")):
        if paths:
            parts.append(element("path", d="".join(paths), **_inks(style)))
    if kind == "shared" or page["pins"]:
        parts.append(
            element(
                "rect", x=x - 3, y=top - 3, width=size * CELL + 5, height=HIGH + 6, rx=2,
                fill="none", stroke=ink("draining" if page["pins"] else "decode"), stroke_width=1.5,
            )
        )  # fmt: skip
    parts += _tokens(rows, x, top, ink("on-decode"))
    return [*parts, text(whose, x, top + HIGH + 15, font_size="11")]


def _tokens(tokens: list[int], x: float, top: float, colour: str) -> list[str]:
    if not tokens:
        return []
    words = [
        text(str(token), x + CELL * i + (CELL - 1) / 2, top + 14) for i, token in enumerate(tokens)
    ]
    return [element("g", *words, font_size="11", fill=colour, **_MID)]


def _requests(requests: list[dict[str, Any]], top: float) -> list[str]:
    if not requests:
        return [text("no request yet", LEFT, top + 14, **_SOFT)]
    return [
        part
        for number, request in enumerate(requests)
        for part in _request(request, top + REQUEST * number)
    ]


def _request(request: dict[str, Any], top: float) -> list[str]:
    """Its name and counters, and its tokens: with a row, history only, pending."""
    told = [request["state"], f"{len(request['emitted'])} out"]
    if request["pages"]:
        many = len(request["pages"])
        named = f"pages {' '.join(map(str, request['pages']))}" if many < 7 else f"{many} pages"
        told.insert(1, named)
    if request["replay_rows"]:
        told.append(f"{request['replay_rows']} rows replayed")
    tokens = [*request["prompt"], *request["emitted"]]
    skip = max(0, len(tokens) - FIT)
    y = top + 20
    cells: dict[str, list[str]] = {"resident": [], "kept": [], "pending": []}
    for position in range(skip, len(tokens)):
        form = "resident" if position < request["resident"] else "kept"
        if request["emitted"] and position == len(tokens) - 1:
            form = "pending"
        x = LEFT + CELL * (position - skip) + 0.5
        cells[form].append(f"M{num(x)} {num(y + 0.5)}h{CELL - 2}v{HIGH - 1}h{2 - CELL}z")
    gone = {"suspended": "preempted", "cancelled": "done-ring"}.get(request["state"], "waiting")
    shown = tokens[skip:]
    inside = max(0, request["resident"] - skip)
    parts = [
        element("path", d="".join(paths), **_token(form, gone))
        for form, paths in cells.items()
        if paths
    ]
    return [
        text(request["id"], LEFT, top + 13, font_weight="600"),
        text(" · ".join(told), LEFT + 20, top + 13),
        *parts,
        *_tokens(shown[:inside], LEFT, y, ink("on-decode")),
        *_tokens(shown[inside:], LEFT + CELL * inside, y, ink("text")),
    ]


def _line(data: Data, number: int, top: float, current: bool) -> str:
    """One move: its name, every page after it, and how they add up. The whole line can be hit."""
    step = data["steps"][number]
    pitch = min(24.0, (WIDTH - 74 - STRIP) / data["pages"])
    name = step["move"] or "before any move"
    parts = [
        text(str(number), 20, top + 14, text_anchor="end", **_SOFT),
        text(name, 27, top + 14, fill=ink("preempted") if step["refused"] else ink("text")),
    ]
    if step["refused"]:
        parts.append(text("refused", STRIP - 8, top + 14, text_anchor="end", fill=ink("preempted")))
    for page, content in enumerate(step["table"]):
        parts += _mark(content, STRIP + pitch * page, top + 2, pitch - 2)
    parts.append(
        text(
            f"{step['free']} + {step['draining']} + {step['referenced']}",
            WIDTH - 4, top + 14, text_anchor="end",
        )
    )  # fmt: skip
    parts.append(
        element(
            "rect", x=1, y=top, width=WIDTH - 2, height=LINE - 1, rx=3, fill="none",
            stroke=ink("text") if current else "none", stroke_width=1.5,
            class_=f"kv-step{' is-current' if current else ''}", data_step=number,
        )
    )  # fmt: skip
    return element("g", *parts)


def _mark(page: dict[str, Any], x: float, y: float, wide: float) -> list[str]:
    """A page in a line: its form, and the letters of its owners if there is room."""
    kind = _kind(page)
    high = LINE - 5
    inset = 0.5 if kind == "free" else 0
    parts = [
        element(
            "rect", x=x + inset, y=y + inset, width=wide - 2 * inset, height=high - 2 * inset,
            **_inks(kind),
        )
    ]  # fmt: skip
    lines = [y + 1, y + high - 1] if kind == "shared" else []
    if page["pins"]:
        lines = [y + high - 1]
    if lines:
        d = "".join(f"M{num(x)} {num(line)}h{num(wide)}" for line in lines)
        heavy = 2.5 if page["pins"] else 1
        parts.append(
            element(
                "path", d=d, stroke=ink("text" if page["pins"] else "on-decode"), stroke_width=heavy
            )
        )
    if owners := page["owners"]:
        letters = owners[0] if len(owners) == 1 else "".join(owner[0] for owner in owners)
        if len(owners) > 1 and wide < 8 * len(owners):
            letters = f"{len(owners)}"
        middle = x + wide / 2
        parts.append(text(letters, middle, y + 12, font_size="11", fill=ink("on-decode"), **_MID))
    return parts


def table(data: Data) -> Table:
    """Every move: what it did, and what each request's table names after it."""
    rows: list[tuple[str | tuple[str, str], ...]] = [
        (
            str(number),
            step["move"] or "–",
            step["says"],
            f"{step['free']} + {step['draining']} + {step['referenced']}",
            "; ".join(
                f"{r['id']} {r['state']}: {' '.join(map(str, r['pages'])) or 'none'}"
                for r in step["requests"]
            )
            or "–",
        )
        for number, step in enumerate(data["steps"])
    ]
    head = ("move", "", "what it does", "free + draining + referenced", "pages by request")
    return Table("Every move in words", head, rows)
