"""The page table by hand: the picture, the words and the model say the same."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from kvsched.errors import InputError
from kvsched.lifecycle.moves import MOST
from kvsched.views import find
from kvsched.views.lifecycle import BUSY, BUTTONS, WORKED

VIEW = find("lifecycle")
DATA = VIEW()


def at(move: int) -> dict[str, Any]:
    step: dict[str, Any] = DATA["steps"][move]
    return step


@pytest.mark.parametrize("moves", ["", WORKED, BUSY])
@pytest.mark.parametrize("pages", [1, 4, 12])
def test_every_page_is_in_one_place_after_every_move(moves: str, pages: int) -> None:
    for step in VIEW(moves=moves, pages=pages)["steps"]:
        assert step["free"] + step["draining"] + step["referenced"] == pages
        held = sum(bool(page["owners"]) for page in step["table"])
        draining = sum(bool(page["pins"] and not page["owners"]) for page in step["table"])
        assert (held, draining) == (step["referenced"], step["draining"])


def test_the_worked_moves_show_what_the_chapter_says() -> None:
    names = [step["move"] for step in DATA["steps"]]
    assert (names[5], at(5)["free"]) == ("preempt a", 0)
    assert (names[6], at(6)["free"], at(6)["draining"]) == ("abort a", 0, 4)
    assert (names[8], at(8)["free"]) == ("drained a", 4)
    assert [r["emitted"] for r in at(9)["requests"] if r["id"] == "a"] == [[20, 21]]
    assert "4 rows of a are computed again: 10, 11, 12, 20. Nothing is emitted" in at(9)["says"]
    assert at(10)["says"].startswith("21, which was pending, enters the model. The client gets 22")
    assert "Page 2 is another's too, so it writes into a copy, page 3." in at(12)["says"]
    assert at(13)["says"].endswith("Free by it: page 2. Pages 0 and 1 are still named by b.")


def test_a_refused_move_is_told_in_the_models_own_words_and_changes_nothing() -> None:
    (step,) = [step for step in DATA["steps"] if step["refused"]]
    assert step["says"] == (
        "Refused: resume a: too few free pages (0 free, 4 draining); wait for the drain."
    )
    before, after = at(6), at(7)
    assert {k: after[k] for k in ("table", "requests")} == {
        k: before[k] for k in ("table", "requests")
    }


def test_a_sequence_is_told_to_its_end_whatever_the_moves() -> None:
    for step in VIEW(moves=BUSY, pages=8)["steps"]:
        assert step["says"].endswith(".")
    said = [
        step["says"] for step in VIEW(moves="start a 3; fork a b; transfer a; resume a")["steps"]
    ]
    assert said[2] == "b is a copy of a. There is no page to share yet."
    assert said[3] == "a' will receive a, which has no page yet."
    assert said[4] == "Refused: resume a: it is active; preempt it first."


def test_aborted_twice_and_resumed_from_nothing() -> None:
    moves = "start a 1; preempt a; resume a; step a; transfer a; abort a; abort a"
    said = [step["says"] for step in VIEW(moves=moves)["steps"]]
    assert said[3] == "a is active again. Nothing of it had entered, so nothing is computed."
    assert said[7].startswith("a' has ended already; nothing changes.")


@pytest.mark.parametrize(
    ("moves", "message"),
    [
        ("evict a", "view lifecycle: moves: move 1: 'evict a' is no move; known: start, step"),
        (3, "view lifecycle: moves: 3 is no text; give a line of text"),
        ("x" * 601, "view lifecycle: moves: 601 characters are too many; give at most 600"),
    ],
)
def test_a_bad_sequence_is_named(moves: Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        VIEW(moves=moves)
    assert str(error.value).startswith(message)


def test_every_move_has_a_button_and_a_key_of_its_own() -> None:
    keys = [key for _, key in BUTTONS.values()]
    assert len(set(keys)) == len(keys)
    assert "u" not in keys


def test_what_is_seen_without_a_style_sheet_is_the_selected_move() -> None:
    figure = ElementTree.fromstring(VIEW.draw(DATA, {"step": 6}))
    layers = [node for node in figure.iter() if "kv-layer" in node.get("class", "")]
    shown = [node.get("data-step") for node in layers if node.get("display") != "none"]
    assert (len(layers), shown) == (len(DATA["steps"]), ["6"])
    texts = [node.text for node in figure.iter() if node.tag.endswith("text")]
    assert "0 free + 4 draining + 0 referenced = 4 pages" in texts


def test_a_step_beyond_the_last_shows_the_last() -> None:
    assert VIEW.draw(DATA, {"step": 99}) == VIEW.draw(DATA, {"step": len(DATA["steps"]) - 1})


def test_the_longest_sequence_has_room() -> None:
    moves = "; ".join(["start a 8", *["step a"] * (MOST - 1)])
    figure = VIEW.draw(VIEW(moves=moves, pages=12, size=4), {"step": MOST})
    right = [float(node.get("x", 0)) for node in ElementTree.fromstring(figure).iter()]
    assert max(right) <= 384
