"""A page table moved by hand: preempted, resumed, forked, transferred, drained, cancelled.

The moves are a parameter, a line of text. After each the view holds the whole state of the real
model: every page, every request, and what the move did or why it was refused.
"""

from __future__ import annotations

from typing import Any

from kvsched.lifecycle import Tracked
from kvsched.lifecycle.moves import FORMS, MOST, NAMES, Hand, Played, read
from kvsched.views.lifecycle_figure import draw, table
from kvsched.views.lifecycle_words import says
from kvsched.views.params import Number, Text
from kvsched.views.view import Data, View

WORKED = (
    "start a 3; step a; step a; transfer a; preempt a; abort a; resume a; drained a; resume a; "
    "step a; fork a b; step b; preempt a; cancel a; cancel a"
)
"""Four pages of two rows: a victim that gives back nothing, then its recomputation, then a fork."""
BUSY = (
    "start a 8; step a; fork a b; fork a c; step a; step b; step c; transfer b; preempt c; "
    "preempt a; abort b; preempt b; drained b; resume c; step c; resume a; resume b; cancel c; "
    "resume b; step b"
)
BUTTONS = {
    "start": ("start", "n"),
    "step": ("step", "s"),
    "preempt": ("preempt", "p"),
    "resume": ("resume", "r"),
    "fork": ("fork", "f"),
    "transfer": ("transfer", "t"),
    "abort": ("abort transfer", "a"),
    "drained": ("drained", "d"),
    "cancel": ("cancel", "c"),
}
"""By move: what its button says, and its key."""


def compute(moves: str, pages: int, size: int) -> Data:
    """Every move with its sentence, and the state after it."""
    hand = Hand(pages, size)
    steps = [_state(hand) | {"move": "", "refused": False, "says": "Nothing has happened yet."}]
    for move in read(moves):
        before = steps[-1]
        played = hand.play(move)
        steps.append(_state(hand) | _told(hand, played, before))
    refused = sum(step["refused"] for step in steps)
    last = steps[-1]
    return {
        "pages": pages,
        "size": size,
        "most": MOST,
        "names": list(NAMES),
        "buttons": [
            {"what": what, "label": label, "key": key, "form": FORMS[what]}
            for what, (label, key) in BUTTONS.items()
        ],
        "steps": steps,
        "sentence": (
            f"{_count(len(steps) - 1, 'move')}, {refused or 'none'} refused, "
            f"{_count(sum(r['replay_rows'] for r in last['requests']), 'row')} computed again. "
            f"In the end {last['free']} free + {last['draining']} draining + "
            f"{last['referenced']} referenced = {_count(pages, 'page')}."
        ),
        "caption": (
            "Above: the pages and the requests after the move picked. A pending token is with the "
            "client and has not entered the model. Below: every page after every move; the letters "
            "are the tables that name it, lines above and below mark a shared page, a heavy line "
            "below one that a transfer pins, ochre one that drains. "
            f"{_count(pages, 'page').capitalize()} of {_count(size, 'row')}; a model without a "
            "policy and without a clock, no engine."
        ),
        "alt": (
            f"{_count(pages, 'page')} after each of {_count(len(steps) - 1, 'move')}. "
            + " ".join(
                f"{number}, {step['move'] or 'before any move'}: {step['free']} free, "
                f"{step['draining']} draining, {step['referenced']} referenced."
                for number, step in enumerate(steps)
            )
        ),
    }


def _told(hand: Hand, played: Played, before: dict[str, Any]) -> dict[str, Any]:
    return {
        "move": str(played.move),
        "refused": played.refused is not None,
        "says": says(hand.model, played, before),
    }


def _state(hand: Hand) -> dict[str, Any]:
    """Pages and requests, and how the pages add up."""
    model, allocator = hand.model, hand.model.allocator
    receiving = {request.id for request in model.receivers.values()}
    owners: dict[int, list[str]] = {page: [] for page in range(allocator.total)}
    for request in model.requests.values():
        for page in request.pages:
            owners[page].append(request.id)
    free = set(allocator.free)
    return {
        "free": len(free),
        "draining": len(allocator.draining),
        "referenced": len(allocator.referenced),
        "table": [
            {
                "rows": [] if page in free else list(model.rows[page]),
                "owners": owners[page],
                "pins": allocator.pins[page],
            }
            for page in range(allocator.total)
        ],
        "requests": [_request(r, r.id in receiving) for r in model.requests.values()],
    }


def _request(request: Tracked, receiving: bool) -> dict[str, Any]:
    arriving = receiving and request.state == "active"
    return {
        "id": request.id,
        "state": "receiving" if arriving else request.state,
        "prompt": list(request.prompt),
        "emitted": list(request.emitted),
        "entered": len(request.entered),
        "resident": request.resident,
        "pages": list(request.pages),
        "replay_rows": request.replay_rows,
        "preemptions": request.preemptions,
    }


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


VIEW = View(
    name="lifecycle",
    renderer="lifecycle",
    label="A page table by hand",
    compute=compute,
    draw=draw,
    table=table,
    params=(
        Text("moves", "moves", WORKED, 600, read, ("", BUSY)),
        Number("pages", "pages", 4, 1, 12),
        Number("size", "page size", 2, 1, 4, unit="rows"),
    ),
    selection={"step": 6, "who": "a"},
)
