"""The state view says exactly what the table of moves says."""

from __future__ import annotations

import pytest

from kvsched.views.states import CAUSES, EVENTS, NEW, VIEW, answer, places
from kvsched.vllm.status import LEGAL, TRANSITIONS, RequestStatus

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
