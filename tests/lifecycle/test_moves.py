"""Moves as text: what can be read, what is refused, and that a refused one changes nothing."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvsched.errors import InputError
from kvsched.lifecycle.moves import FORMS, MOST, NAMES, Hand, Played, read


def played(text: str, pages: int = 4, size: int = 2) -> tuple[Hand, list[Played]]:
    hand = Hand(pages, size)
    return hand, [hand.play(move) for move in read(text)]


def test_the_forms_are_moves() -> None:
    assert [str(move) for move in read("; ".join(FORMS.values()))] == list(FORMS.values())


def test_spaces_and_empty_parts_are_nothing() -> None:
    assert [str(move) for move in read(" ;start  a 3;; step a ; ")] == ["start a 3", "step a"]
    assert read("") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("evict a", "move 1: 'evict a' is no move; known: start, step, preempt"),
        ("start a 3; stop a", "move 2: 'stop a' is no move"),
        ("step", "move 1: 'step' has 1 words; write it like 'step a'"),
        ("fork a", "move 1: 'fork a' has 2 words; write it like 'fork a b'"),
        ("step d", "no request can be called 'd'; use a, b, c, a', b', c'"),
        ("start a' 3", 'no request can be called "a\'"; use a, b, c'),
        ("fork a b'", 'no request can be called "b\'"; use a, b, c'),
        ("start a 0", "a prompt of '0' tokens; give a number from 1 to 8"),
        ("start a 9", "a prompt of '9' tokens"),
        ("start a three", "a prompt of 'three' tokens"),
        ("start a ３", "a prompt of '３' tokens"),
        ("step a;" * (MOST + 1), f"the text: {MOST + 1} moves are too many; give at most {MOST}"),
    ],
)
def test_what_is_no_move_is_named(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        read(text)
    assert message in str(error.value)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(InputError):
        assert len(read(text)) <= MOST


def test_the_worked_recomputation() -> None:
    hand, moves = played("start a 3; step a; step a; preempt a; resume a; step a")
    request = hand.model.requests["a"]
    assert [move.replayed for move in moves] == [0, 0, 0, 0, 4, 0]
    assert (request.prompt, request.emitted) == ((10, 11, 12), [20, 21, 22])
    assert hand.model.held("a") == [10, 11, 12, 20, 21]


def test_the_four_page_case() -> None:
    _, moves = played("start a 3; step a; step a; transfer a; preempt a; abort a; drained a")
    assert [move.freed for move in moves[4:]] == [(), (), (0, 1, 2, 3)]


def test_a_fork_and_a_receiver_answer_in_numbers_of_their_own() -> None:
    hand, _ = played("start b 2; step b; fork b c; step c; transfer b; drained b; step b'", pages=9)
    emitted = {name: request.emitted for name, request in hand.model.requests.items()}
    assert emitted == {"b": [120], "c": [120, 221], "b'": [120, 121]}


@pytest.mark.parametrize("what", ["abort", "drained"])
def test_a_transfer_that_was_not_begun_is_refused(what: str) -> None:
    _, moves = played(f"start a 3; {what} a")
    assert str(moves[-1].refused) == (f"{what} a: nothing of a is being copied; transfer it first")


SAID = st.one_of(
    st.builds("start {} {}".format, st.sampled_from(NAMES), st.integers(1, 8)),
    st.builds("fork {} {}".format, st.sampled_from(NAMES), st.sampled_from(NAMES)),
    st.builds(
        "{} {}".format,
        st.sampled_from([what for what in FORMS if what not in ("start", "fork")]),
        st.sampled_from([*NAMES, "a'"]),
    ),
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(SAID, max_size=MOST), st.integers(1, 8), st.integers(1, 4))
def test_any_moves_keep_the_pages_and_a_refused_one_changes_nothing(
    said: list[str], pages: int, size: int
) -> None:
    hand = Hand(pages, size)
    for move in read(";".join(said)):
        before = state(hand)
        if hand.play(move).refused is not None:
            assert state(hand) == before
        hand.model.allocator.check()


def state(hand: Hand) -> Any:
    """All but the order in which free pages are handed out."""
    allocator, requests = hand.model.allocator, hand.model.requests
    fields = [
        (r.id, r.state, list(r.emitted), list(r.pages), r.resident, r.replay_rows, r.preemptions)
        for r in requests.values()
    ]
    pins = +copy.copy(allocator.pins)
    return fields, sorted(allocator.free), +allocator.refs, pins, list(hand.transfers)
