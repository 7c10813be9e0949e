"""Moves as text, `start a 3; step a; preempt a`, read in one go and played one at a time.

Prompts and outputs are made up here: request a has the prompt 10, 11, 12, … and is answered 20,
21, 22, …; b has 110, … and 120, …; c has 210, … and 220, …. A fork answers in its own numbers from
where it was forked, a receiver a' in a's.
"""

from __future__ import annotations

from dataclasses import dataclass
from string import ascii_lowercase
from typing import NamedTuple

from kvsched.errors import InputError
from kvsched.lifecycle.model import Lifecycle, Refused
from kvsched.lifecycle.pages import Transfer

MOST = 40
"""Moves in a sequence."""
LONGEST = 8
"""Tokens in a prompt."""
NAMES = ascii_lowercase[:3]
"""The requests; an apostrophe makes the name of a transfer's receiver."""
FORMS = {
    "start": "start a 3",
    "step": "step a",
    "preempt": "preempt a",
    "resume": "resume a",
    "fork": "fork a b",
    "transfer": "transfer a",
    "abort": "abort a",
    "drained": "drained a",
    "cancel": "cancel a",
}
"""Every move, with an example. A transfer is named by the request it copies."""


class Move(NamedTuple):
    """One move: what, to whom, and the fork's name or the prompt's length."""

    what: str
    who: str
    more: str = ""

    def __str__(self) -> str:
        return f"{self.what} {self.who} {self.more}".strip()


def read(text: str) -> tuple[Move, ...]:
    """The moves of a text, separated by semicolons.

    Raises InputError naming the first that is none, by its number.
    """
    parts = [part for part in (each.split() for each in text.split(";")) if part]
    if len(parts) > MOST:
        raise InputError("the text", f"{len(parts)} moves are too many", f"give at most {MOST}")
    return tuple(_move(number, part) for number, part in enumerate(parts, 1))


def _move(number: int, words: list[str]) -> Move:
    where, said = f"move {number}", " ".join(words)[:40]
    form = FORMS.get(words[0])
    if form is None:
        raise InputError(where, f"{said!r} is no move", f"known: {', '.join(FORMS)}")
    if len(words) != len(form.split()):
        raise InputError(where, f"{said!r} has {len(words)} words", f"write it like {form!r}")
    move = Move(*words)
    _named(where, move.who, NAMES if move.what == "start" else (*NAMES, *(f"{n}'" for n in NAMES)))
    if move.what == "fork":
        _named(where, move.more, NAMES)
    if move.what == "start" and move.more not in map(str, range(1, LONGEST + 1)):
        raise InputError(
            where, f"a prompt of {move.more[:40]!r} tokens", f"give a number from 1 to {LONGEST}"
        )
    return move


def _named(where: str, name: str, known: str | tuple[str, ...]) -> None:
    if name not in tuple(known):
        raise InputError(
            where, f"no request can be called {name[:40]!r}", f"use {', '.join(known)}"
        )


@dataclass(frozen=True, slots=True)
class Played:
    """What a move did: the pages free by it, the rows it computed again, or why it was refused."""

    move: Move
    freed: tuple[int, ...] = ()
    replayed: int = 0
    refused: Refused | None = None


class Hand:
    """A lifecycle model and the transfers begun in it, by the request they copy."""

    def __init__(self, total_pages: int, page_size: int) -> None:
        self.model = Lifecycle(total_pages, page_size)
        self.transfers: dict[str, Transfer] = {}

    def play(self, move: Move) -> Played:
        """Make one move. A refused one changes nothing."""
        freed: list[int] = []
        replayed = 0
        try:
            if move.what in ("abort", "drained"):
                transfer = self._transfer(move)
                freed = getattr(self.model, move.what)(transfer)
            elif move.what in ("preempt", "cancel"):
                freed = getattr(self.model, move.what)(move.who)
            elif move.what == "resume":
                replayed = self.model.resume(move.who)
            else:
                self._progress(move)
        except Refused as refused:
            return Played(move, refused=refused)
        return Played(move, tuple(freed), replayed)

    def _progress(self, move: Move) -> None:
        if move.what == "start":
            first = _first(move.who)
            self.model.start(move.who, range(first, first + int(move.more)))
        elif move.what == "fork":
            self.model.fork(move.who, move.more)
        elif move.what == "transfer":
            self.transfers[move.who] = self.model.transfer(move.who)
        else:
            request = self.model.requests.get(move.who)
            count = len(request.emitted) if request is not None else 0
            self.model.step(move.who, _first(move.who) + 10 + count)

    def _transfer(self, move: Move) -> Transfer:
        if move.who not in self.transfers:
            raise Refused(str(move), f"nothing of {move.who} is being copied", "transfer it first")
        return self.transfers[move.who]


def _first(name: str) -> int:
    """The first token of a request's prompt."""
    return 10 + 100 * NAMES.index(name[0])
