"""Twelve statuses in the engine's order, and every move between them."""

from __future__ import annotations

from enum import IntEnum
from functools import partial
from itertools import product

import pytest

from kvsched.vllm.status import (
    BLOCKED,
    FINISH_REASON,
    LEGAL,
    TRANSITIONS,
    IllegalTransition,
    RequestStatus,
    check_transition,
    misplaced,
)

rule = partial(pytest.mark.rule, engine="vLLM", version="0.28.0")

NAMES = [
    "WAITING",
    "WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR",
    "WAITING_FOR_REMOTE_KVS",
    "WAITING_FOR_STREAMING_REQ",
    "RUNNING",
    "PREEMPTED",
    "FINISHED_STOPPED",
    "FINISHED_LENGTH_CAPPED",
    "FINISHED_ABORTED",
    "FINISHED_IGNORED",
    "FINISHED_ERROR",
    "FINISHED_REPETITION",
]

# Source: targets, written from the engine's code, where every assignment was looked up.
MOVES = {
    None: "WAITING",
    "WAITING": "GRAMMAR RUNNING REMOTE ABORTED",
    "GRAMMAR": "WAITING ERROR ABORTED",
    "REMOTE": "WAITING PREEMPTED ERROR ABORTED",
    "STREAM": "WAITING STOPPED LENGTH ABORTED",
    "RUNNING": "PREEMPTED STOPPED LENGTH REPETITION ERROR ABORTED",
    "PREEMPTED": "RUNNING REMOTE STOPPED LENGTH REPETITION ERROR ABORTED",
    "STOPPED": "STREAM WAITING ERROR",
    "LENGTH": "STREAM WAITING ERROR",
    "REPETITION": "STREAM WAITING ERROR",
}
SHORT = {
    "GRAMMAR": "WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR",
    "REMOTE": "WAITING_FOR_REMOTE_KVS",
    "STREAM": "WAITING_FOR_STREAMING_REQ",
    "STOPPED": "FINISHED_STOPPED",
    "LENGTH": "FINISHED_LENGTH_CAPPED",
    "ABORTED": "FINISHED_ABORTED",
    "ERROR": "FINISHED_ERROR",
    "REPETITION": "FINISHED_REPETITION",
}


def status(name: str) -> RequestStatus:
    return RequestStatus[SHORT.get(name, name)]


EXPECTED = {
    (None if source is None else status(source), status(target))
    for source, targets in MOVES.items()
    for target in targets.split()
}


class TestNames:
    """The order is part of the meaning."""

    @rule(flag="", default=None, source="vllm/v1/request.py:351-367")
    def test_twelve_names_in_the_engines_order(self) -> None:
        """A request has one of twelve statuses; their order says which are final."""
        assert [s.name for s in sorted(RequestStatus)] == NAMES

    @rule(flag="", default=None, source="vllm/v1/request.py:374")
    def test_everything_after_preempted_is_finished(self) -> None:
        """Finished is a comparison with PREEMPTED, not a property of each status."""
        assert [s.name for s in RequestStatus if s.is_finished] == NAMES[6:]

    def test_a_status_inserted_below_preempted_is_silently_final(self) -> None:
        """Why the order matters: a new waiting state at the end would count as finished."""
        longer = IntEnum("longer", [*NAMES, "WAITING_FOR_LUNCH"])
        assert longer["WAITING_FOR_LUNCH"] > longer["PREEMPTED"]
        leaves = [move for move in TRANSITIONS if move.source is RequestStatus.WAITING]
        move = leaves[0]._replace(source=longer["WAITING_FOR_LUNCH"])  # type: ignore[arg-type]
        assert misplaced(longer, [*TRANSITIONS, move]) == ["WAITING_FOR_LUNCH"]
        assert misplaced(RequestStatus, TRANSITIONS) == []

    def test_the_blocked_ones_wait_for_something_outside(self) -> None:
        assert [s.name for s in sorted(BLOCKED)] == NAMES[1:4]

    @rule(flag="", default=None, source="vllm/v1/request.py:385-393")
    def test_what_the_client_is_told(self) -> None:
        """Each final status, and a paused session, has its finish reason."""
        told = {s.name: reason for s, reason in FINISH_REASON.items()}
        assert told == {
            "FINISHED_STOPPED": "stop",
            "FINISHED_LENGTH_CAPPED": "length",
            "FINISHED_ABORTED": "abort",
            "FINISHED_IGNORED": "length",
            "FINISHED_ERROR": "error",
            "FINISHED_REPETITION": "repetition",
            "WAITING_FOR_STREAMING_REQ": "stop",
        }


class TestMoves:
    """The table has exactly the moves the engine's code can make."""

    def test_the_table_is_the_engines(self) -> None:
        assert LEGAL == EXPECTED

    @rule(flag="", default=None, source="vllm/v1/request.py:365")
    def test_ignored_is_no_target(self) -> None:
        """FINISHED_IGNORED is declared and mapped to a reason, and assigned nowhere."""
        assert RequestStatus.FINISHED_IGNORED not in {move.target for move in TRANSITIONS}
        assert RequestStatus.FINISHED_IGNORED not in {move.source for move in TRANSITIONS}

    def test_every_other_status_can_be_reached(self) -> None:
        reached = {move.target for move in TRANSITIONS} | {RequestStatus.FINISHED_IGNORED}
        assert reached == set(RequestStatus)

    def test_every_move_says_why_and_where(self) -> None:
        for move in TRANSITIONS:
            assert move.trigger
            assert all(part[0] in "QSU" and ":" in part for part in move.where.split(", "))

    def test_only_a_running_request_or_a_load_becomes_preempted(self) -> None:
        sources = {move.source for move in TRANSITIONS if move.target is RequestStatus.PREEMPTED}
        assert sources == {RequestStatus.RUNNING, RequestStatus.WAITING_FOR_REMOTE_KVS}

    def test_every_move_is_checked(self) -> None:
        for source, target in product([None, *RequestStatus], RequestStatus):
            if (source, target) in EXPECTED:
                assert check_transition("r", source, target) is target
                continue
            name = "(new)" if source is None else source.name
            with pytest.raises(IllegalTransition, match=f"^r: .*{target.name} is not in") as caught:
                check_transition("r", source, target)
            assert str(caught.value).startswith(f"r: {name} -> ")
