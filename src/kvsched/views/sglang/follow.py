"""A run followed step by step for the player: the board, and what it takes to draw beside it.

A request that was thrown out left to the tree what the tree had of it. What a resume would find is
the longest prefix of those pages that the tree still has, and it only shrinks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kvsched.log import Admit, Evict, Log, Preempt
from kvsched.sglang.board import Board, Pass
from kvsched.sglang.events import Leave
from kvsched.sglang.records import record_of
from kvsched.sglang.steps import Iteration, rebuild
from kvsched.steps import StepRecord


class Watch(Board):
    """A board that remembers what was left behind.

    ``after``: tokens of the tree that each request thrown out could read after ``schedule()``.
    """

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.after: dict[str, int] = {}
        self._tables: dict[str, list[int]] = {}
        self._left: dict[str, list[int]] = {}

    def apply(self, event: Any) -> None:
        """As the board, with an eye on what is given back and erased."""
        match event:
            case Leave():
                self._tables[event.id] = self.ledger.tables.get(event.id, [])
            case Preempt():
                self._left[event.id] = self._found(self._tables[event.id])
            case Admit():
                self._left.pop(event.id, None)
        super().apply(event)
        if isinstance(event, Evict):
            self._left = {i: self._found(pages) for i, pages in self._left.items()}

    def launch(self, step: int) -> Pass:
        """As the board; this is also the moment that the player shows."""
        size = self.ledger.page_size
        self.after = {
            i: size * min(len(pages), (self.lanes[i].num_tokens - 1) // size)
            for i, pages in self._left.items()
        }
        return super().launch(step)

    def _found(self, pages: list[int]) -> list[int]:
        """The first pages, up to one that the tree has no more."""
        gone = (place for place, page in enumerate(pages) if page not in self.ledger.owners)
        return pages[: next(gone, len(pages))]


class Moment(NamedTuple):
    """A step as the common record and as the iteration, and what each victim would find."""

    record: StepRecord
    found: dict[str, int]
    it: Iteration


def follow(log: Log) -> Iterator[Moment]:
    """The steps of a run, in order."""
    watch = Watch(log)
    for it in rebuild(log, watch):
        yield Moment(record_of(it, watch), watch.after, it)
