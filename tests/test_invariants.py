"""Each numbered invariant notices its own violation, and only a violation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvsched.contract import Denial
from kvsched.invariants import (
    INVARIANTS,
    InvariantViolation,
    Snapshot,
    check,
    waiting_never_preempts,
)
from kvsched.log import Admit, Log, Preempt, Resume

# Five usable blocks: "a" holds 1 and 2, "b" shares 1 and holds 3; "c" waits; 5 and 4 are free.
SOUND = Snapshot(
    usable=range(1, 6),
    free=[5, 4],
    ref_cnt=[0, 2, 1, 1, 0, 0],
    tables={"a": [1, 2], "b": [1, 3], "c": []},
    containers={"waiting": ["c"], "running": ["a", "b"]},
    live=frozenset("abc"),
    tokens=8,
    slots=2,
    scheduled={"a": 7, "b": 1},
)

BROKEN: list[tuple[str, int, dict[str, Any]]] = [
    ("a used block is free", 1, {"free": [5, 4, 3]}),
    ("a block is nowhere", 1, {"free": [5]}),
    ("a free block twice", 2, {"free": [5, 4, 4]}),
    ("the null block is free", 2, {"free": [5, 4, 0]}),
    ("a reference too many", 3, {"ref_cnt": [0, 2, 1, 2, 0, 0]}),
    ("a reference too few", 3, {"ref_cnt": [0, 1, 1, 1, 0, 0]}),
    ("a table nobody counted", 3, {"tables": {"a": [1, 2], "b": [1, 3], "c": [2]}}),
    ("in two places", 4, {"containers": {"waiting": ["c", "a"], "running": ["a", "b"]}}),
    ("in no place", 4, {"containers": {"waiting": [], "running": ["a", "b"]}}),
    ("a ghost", 4, {"containers": {"waiting": ["c", "x"], "running": ["a", "b"]}}),
    ("twice in one queue", 4, {"containers": {"waiting": ["c", "c"], "running": ["a", "b"]}}),
    ("too many running", 5, {"slots": 1}),
    ("too many tokens", 6, {"tokens": 7}),
    ("a row without tokens", 7, {"scheduled": {"a": 7, "b": 0}}),
    ("a row of negative tokens", 7, {"scheduled": {"a": 9, "b": -1}}),
]


def test_a_sound_state_passes() -> None:
    check(SOUND)


@pytest.mark.parametrize(
    ("number", "change"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN]
)
def test_a_violation_is_named_by_number_and_statement(number: int, change: dict[str, Any]) -> None:
    statement = INVARIANTS[number - 1].statement
    with pytest.raises(InvariantViolation, match=f"I{number} {statement}: ."):
        check(replace(SOUND, **change))


def test_every_invariant_has_a_violation_above_and_its_own_number() -> None:
    numbers = [invariant.number for invariant in INVARIANTS]
    assert numbers == list(range(1, len(INVARIANTS) + 1))
    assert {case[1] for case in BROKEN} == set(numbers)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"free": [5, 4, 3]}, r"in use and free: \[3\], neither: \[\]"),
        ({"free": [5]}, r"in use and free: \[\], neither: \[4\]"),
        ({"slots": 1}, "2 running in 1 slots"),
        ({"tokens": 7}, "8 tokens from a budget of 7"),
    ],
)
def test_the_violation_says_what_is_wrong(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InvariantViolation, match=words):
        check(replace(SOUND, **change))


class TestWaitingNeverPreempts:
    """I8 is read off a log."""

    def log(self, *events: Any) -> Log:
        log = Log()
        for event in events:
            log.add(event)
        return log

    def evicts(self, who: str, whom: str) -> Preempt:
        return Preempt(whom, Denial(who, "block", 1), 5, 0, 0, 2, 1)

    def test_a_running_request_may(self) -> None:
        log = self.log(Admit("a", 4, 0, 0, 0), Admit("b", 4, 0, 0, 0), self.evicts("a", "b"))
        assert waiting_never_preempts(log) is None

    def test_a_request_may_evict_itself(self) -> None:
        assert (
            waiting_never_preempts(self.log(Admit("a", 4, 0, 0, 0), self.evicts("a", "a"))) is None
        )

    def test_one_that_never_ran_may_not(self) -> None:
        found = waiting_never_preempts(self.log(Admit("b", 4, 0, 0, 0), self.evicts("a", "b")))
        assert found == "I8 step 0: a is not running and evicts b"

    def test_a_victim_may_not_before_it_is_back(self) -> None:
        events = [Admit("a", 4, 0, 0, 0), Admit("b", 4, 0, 0, 0), self.evicts("a", "b")]
        assert waiting_never_preempts(self.log(*events, self.evicts("b", "a"))) is not None
        back = Resume("b", 4, 0, 0, 0)
        assert waiting_never_preempts(self.log(*events, back, self.evicts("b", "a"))) is None
