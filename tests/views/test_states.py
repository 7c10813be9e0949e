"""The state view says exactly what the table of moves says."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvsched.conform.census import census
from kvsched.conform.recording import find
from kvsched.views.states import CAUSES, EVENTS, NEW, VIEW, answer, places, recorded
from kvsched.vllm.status import LEGAL, TRANSITIONS, RequestStatus

GOLDEN = [Path(__file__).parents[1] / "golden" / folder for folder in ("vllm", "vllm2")]
DATA = VIEW()
NAMES = [NEW, *RequestStatus.__members__]


def test_every_trigger_of_the_table_is_one_event() -> None:
    assert sorted(event.trigger for event in EVENTS) == sorted({m.trigger for m in TRANSITIONS})
    assert len({event.id for event in EVENTS}) == len(EVENTS)
    assert {event.cause for event in EVENTS} == set(CAUSES)


def test_the_moves_are_the_table() -> None:
    moves = {(move["from"], move["to"]) for move in DATA["moves"]}
    assert moves == {(a.name if a is not None else NEW, b.name) for a, b in LEGAL}
    assert len(DATA["moves"]) == len(TRANSITIONS)


def test_one_event_leads_one_way_from_one_status() -> None:
    assert len({(move["from"], move["event"]) for move in DATA["moves"]}) == len(DATA["moves"])


@pytest.mark.parametrize("status", NAMES)
@pytest.mark.parametrize("event", [event.id for event in EVENTS])
def test_an_event_moves_the_request_or_is_refused(status: str, event: str) -> None:
    told = answer(DATA, status, event)
    if told["legal"]:
        assert told["says"].startswith(f"{status} → {told['to']}: ")
    else:
        assert told["to"] == status
        assert told["says"].startswith("Refused: ")
        assert told["says"].endswith(f"this one is {status}.")


def test_a_status_seen_only_within_an_update_says_so() -> None:
    assert "nobody sees FINISHED_STOPPED" in answer(DATA, "FINISHED_STOPPED", "pause")["says"]
    assert "nobody sees" not in answer(DATA, "RUNNING", "stop")["says"]


def test_what_a_status_can_become() -> None:
    assert DATA["standing"]["FINISHED_ABORTED"] == "FINISHED_ABORTED is final: no move leaves it."
    assert DATA["standing"][NEW] == "(new) can become WAITING."
    assert "No line assigns FINISHED_IGNORED." in DATA["sentence"]


def test_places_are_lines_of_the_pinned_engine() -> None:
    assert [line.place for line in places("S:2383 from S:2038")] == [
        "vllm/v1/core/sched/scheduler.py:2383",
        "vllm/v1/core/sched/scheduler.py:2038",
    ]
    assert [line.first for line in places("U:105, U:109")] == [105, 109]


def test_the_diagram_has_every_status_and_every_pair() -> None:
    figure = VIEW.draw(DATA, {"status": "RUNNING", "event": ""})
    assert all(f'data-status="{status}"' in figure for status in RequestStatus.__members__)
    assert figure.count("kv-move") == len(LEGAL)
    assert figure.count("is-current") == 1
    leaving = {b for a, b in LEGAL if a is RequestStatus.RUNNING}
    assert figure.count("is-leaving") == len(leaving)


def test_the_recorded_moves_are_found_where_they_are_said_to_be() -> None:
    """Chapter 1 counts all of them again; here only the recordings that are named."""
    paths = {path.name.removesuffix(".json.gz"): path for path in find(GOLDEN)}
    assert recorded()["recordings"] == len(paths)
    firsts = {move["first"] for move in recorded()["moves"]}
    named = census(path for name, path in paths.items() if name in firsts)
    found = {(move["from"], move["to"]): move for move in named.recorded()["moves"]}
    assert set(found) == {(move["from"], move["to"]) for move in recorded()["moves"]}
    for move in recorded()["moves"]:
        assert found[move["from"], move["to"]]["first"] == move["first"]
        assert found[move["from"], move["to"]]["times"] <= move["times"]


def test_a_move_says_how_often_it_is_recorded() -> None:
    [move] = [m for m in recorded()["moves"] if (m["from"], m["to"]) == ("RUNNING", "PREEMPTED")]
    says = answer(DATA, "RUNNING", "preempt")["says"]
    often = f"{move['times']:,} times, in {move['recordings']} of"
    assert says.endswith(f" Recorded {often} {recorded()['recordings']} recordings.")
    assert answer(DATA, "PREEMPTED", "stop")["says"].endswith(" recordings.")
    assert " Not in any of the " in answer(DATA, "PREEMPTED", "repeat")["says"]
    assert " Recorded once, in 1 of " in answer(DATA, "WAITING_FOR_REMOTE_KVS", "invalid")["says"]
