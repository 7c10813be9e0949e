"""The twelve statuses of a vLLM request: which event moves it where, and which is refused."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kvsched.phases import phase
from kvsched.sources import Source, source
from kvsched.views.states_figure import draw, table
from kvsched.views.view import Data, View
from kvsched.vllm.status import TRANSITIONS, RequestStatus, Transition

NEW = "(new)"
"""Before the constructor: no status yet."""

FILES = {
    "Q": "vllm/v1/request.py",
    "S": "vllm/v1/core/sched/scheduler.py",
    "U": "vllm/v1/core/sched/utils.py",
}


class Event(NamedTuple):
    """What the reader can make happen: the table's trigger, its short name, and who causes it."""

    id: str
    label: str
    cause: str
    trigger: str


CAUSES = ("the client", "the scheduler", "the model's output", "a grammar or a load")

EVENTS = (
    Event("create", "a request arrives", CAUSES[0], "constructor"),
    Event(
        "constrain",
        "it asks for structured output",
        CAUSES[0],
        "the request carries a structured-output constraint",
    ),
    Event("abort", "abort", CAUSES[0], "abort, or closing a paused session"),
    Event("chunk", "a chunk arrives", CAUSES[0], "a chunk arrives while paused"),
    Event("admit", "admit", CAUSES[1], "admitted"),
    Event("preempt", "no block is free", CAUSES[1], "allocation failure, or reset_prefix_cache"),
    Event(
        "load",
        "load from a connector",
        CAUSES[1],
        "the connector offers an asynchronous load and its blocks were allocated",
    ),
    Event("stop", "EOS or a stop token", CAUSES[2], "EOS or a stop token"),
    Event("length", "the length is reached", CAUSES[2], "max_tokens or max_model_len reached"),
    Event("repeat", "repetition detected", CAUSES[2], "repetition detected"),
    Event(
        "pause",
        "a chunk ends, none queued",
        CAUSES[2],
        "a resumable request stops and no chunk is queued",
    ),
    Event(
        "next",
        "a chunk ends, one queued",
        CAUSES[2],
        "a resumable request stops and its next chunk is queued",
    ),
    Event("compiled", "the grammar is ready", CAUSES[3], "grammar ready when the queue is walked"),
    Event("uncompiled", "the grammar fails", CAUSES[3], "grammar compilation failed"),
    Event("reject", "the grammar rejects", CAUSES[3], "the grammar rejects the new tokens"),
    Event(
        "override",
        "the grammar rejects a stop",
        CAUSES[3],
        "the grammar rejects the tokens of a stop",
    ),
    Event(
        "loaded", "the load ends, first time", CAUSES[3], "load reported finished, never preempted"
    ),
    Event(
        "reloaded",
        "the load ends, preempted before",
        CAUSES[3],
        "load reported finished, preempted before",
    ),
    Event("invalid", "the load fails", CAUSES[3], "invalid blocks, kv_load_failure_policy=fail"),
)


def places(where: str) -> list[Source]:
    """The engine's lines that a transition names: `S:2383 from S:2038`, `U:105, U:109`."""
    parts = where.replace(" from ", ", ").split(", ")
    return [source(f"{FILES[part[0]]}:{part[2:]}") for part in parts]


def compute() -> Data:
    """Nodes, moves and events, with the sentence of every move and of every refusal."""
    moves = [_move(move) for move in TRANSITIONS]
    unreachable = [s.name for s in RequestStatus if all(m.target is not s for m in TRANSITIONS)]
    pairs = len({(move["from"], move["to"]) for move in moves})
    return {
        "start": NEW,
        "nodes": [_node(status) for status in RequestStatus],
        "events": [_event(event) for event in EVENTS],
        "moves": moves,
        "standing": {name: _standing(name, moves) for name in (NEW, *RequestStatus.__members__)},
        "sentence": (
            f"vLLM 0.28.0 knows {len(RequestStatus)} statuses and {pairs} legal moves between "
            f"them. No line assigns {' or '.join(unreachable)}."
        ),
        "caption": (
            "The statuses of a vLLM 0.28.0 request and the moves between them that do not finish "
            "it. Whatever stands after PREEMPTED in the enum counts as finished. Moves are counted "
            f"over the {recorded()['recordings']} recordings that kvsched replays."
        ),
        "alt": (
            "State diagram. WAITING leads to RUNNING, RUNNING to PREEMPTED and PREEMPTED back to "
            "RUNNING. Three blocked statuses lead back to WAITING. Six finished statuses stand "
            "at the right."
        ),
    }


def answer(data: Data, status: str, event: str) -> dict[str, Any]:
    """What one event does to a request in one status: ``legal``, ``to``, ``says`` and ``move``."""
    for index, move in enumerate(data["moves"]):
        if move["from"] == status and move["event"] == event:
            return {"legal": True, "to": move["to"], "says": move["says"], "move": index}
    refusal = next(entry["refusal"] for entry in data["events"] if entry["id"] == event)
    return {"legal": False, "to": status, "says": refusal.format(status=status), "move": None}


def _node(status: RequestStatus) -> dict[str, Any]:
    return {
        "id": status.name,
        "phase": phase("vllm", status.name).slug,
        "finished": status.is_finished,
    }


def _move(move: Transition) -> dict[str, Any]:
    event = next(event for event in EVENTS if event.trigger == move.trigger)
    start = move.source.name if move.source is not None else NEW
    says = f"{start} → {move.target.name}: {move.trigger}."
    if move.passing:
        says += f" Within one update: between two calls nobody sees {start}."
    return {
        "from": start,
        "to": move.target.name,
        "event": event.id,
        "says": f"{says} {_recorded(start, move.target.name)}",
    }


@cache
def recorded() -> dict[str, Any]:
    """How often the replayed recordings make each move, as `kvsched.conform.census` counted."""
    stored = Path(__file__).parent / "recorded_moves.json"
    counted: dict[str, Any] = json.loads(stored.read_text(encoding="utf-8"))
    return counted


def _recorded(start: str, target: str) -> str:
    of = f"{recorded()['recordings']} recordings"
    for move in recorded()["moves"]:
        if (move["from"], move["to"]) == (start, target):
            times = "once" if move["times"] == 1 else f"{move['times']:,} times"
            return f"Recorded {times}, in {move['recordings']} of {of}."
    return f"Not in any of the {of}."


def _event(event: Event) -> dict[str, Any]:
    moves = [move for move in TRANSITIONS if move.trigger == event.trigger]
    starts = _either(move.source.name if move.source is not None else NEW for move in moves)
    lines = places(moves[0].where)
    return {
        "id": event.id,
        "label": event.label,
        "cause": event.cause,
        "refusal": (
            f"Refused: this moves a request out of {starts} only, and this one is {{status}}."
        ),
        "lines": [[line.place, line.url] for line in lines],
    }


def _standing(status: str, moves: list[dict[str, Any]]) -> str:
    """What can become of a request in this status."""
    targets = list(dict.fromkeys(move["to"] for move in moves if move["from"] == status))
    if not targets:
        return f"{status} is final: no move leaves it."
    return f"{status} can become {_either(targets)}."


def _either(names: Iterable[str]) -> str:
    *rest, last = names
    return f"{', '.join(rest)} or {last}" if rest else last


VIEW = View(
    name="states",
    renderer="states",
    label="The statuses of a vLLM request",
    compute=compute,
    draw=draw,
    table=table,
    selection={"status": RequestStatus.WAITING.name, "event": ""},
)
