"""Every iteration of a run, rebuilt from its log.

The fold knows no scheduling rule, it applies facts. Two things are implied and not written: where
no row was admitted all who run compute one token; and when a pass has landed, each of its rows
gets a token, but for a chunk that is not the last and for who finished or was retracted meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kvsched.contract import Denial
from kvsched.errors import InputError
from kvsched.log import Admit, Arrive, Entry, Finish, Level, Log, Phase, Preempt
from kvsched.sglang.board import Board, Lane, Pass

if TYPE_CHECKING:
    from collections.abc import Sequence

E = TypeVar("E")


@dataclass(slots=True)
class Iteration:
    """One iteration. Queues head first, rows in the order of the batch.

    ``kind``: extend, mixed, decode or idle. ``rows``: id, first token and end of each. ``live``
    maps id to (derived state, tokens with KV, tokens, retractions). ``free``, ``evictable`` and
    ``protected`` count tokens. All stand after ``schedule()``; ``*_end`` after ``update()``.
    ``ratio_before``: ``new_token_ratio`` at the start. ``emitted``: who got a token, ``dropped``:
    whose token came back too late. ``erased``: for each Evict, who had filled the pages, and how
    many. ``finished``: who ended, however.
    """

    step: int
    now: int
    entries: list[Entry]
    kind: str = "idle"
    rows: list[tuple[str, int, int]] = field(default_factory=list)
    chunked: str | None = None
    ratio_before: float = 0.0
    ratio: float = 0.0
    free: int = 0
    evictable: int = 0
    protected: int = 0
    waiting: list[str] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    full: bool = False
    live: dict[str, tuple[str, int, int, int]] = field(default_factory=dict)
    denial: Denial | None = None
    erased: list[dict[str, int]] = field(default_factory=list)
    emitted: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    ratio_end: float = 0.0
    free_end: int = 0
    evictable_end: int = 0

    @property
    def scheduled(self) -> dict[str, int]:
        """Tokens computed by each row."""
        return {request_id: end - start for request_id, start, end in self.rows}

    @property
    def arrivals(self) -> list[Arrive]:
        """Who came, in order."""
        return self.of(Arrive)

    @property
    def admitted(self) -> list[Admit]:
        """Who left the queue for a pass, Resume for who was thrown out before."""
        return self.of(Admit)

    @property
    def preempted(self) -> list[Preempt]:
        """Who was thrown out, for memory or for a place."""
        return self.of(Preempt)

    @property
    def finished(self) -> list[Finish]:
        """Who ended in this iteration, however."""
        return self.of(Finish)

    def of(self, *kinds: type[E]) -> list[E]:
        """The iteration's events of these kinds, in order."""
        events = [cast(Any, entry.event) for entry in self.entries]
        return [event for event in events if isinstance(event, kinds)]


def rebuild(log: Log, board: Board | None = None) -> Iterator[Iteration]:
    """The iterations of a run, in order.

    ``board``: a fresh one that watches more than the iterations tell; it is moved along.
    Raises InputError for a log of milestones alone, which cannot tell them.
    """
    if log.level is not Level.EVENTS:
        raise InputError("log", "keeps milestones alone", "run with a log of Level.EVENTS")
    board = board if board is not None else Board(log)
    by_step = {step: list(entries) for step, entries in groupby(log.entries, lambda e: e.step)}
    for step, now in enumerate(log.times):
        yield _iteration(board, Iteration(step, now, by_step.get(step, [])))


def _iteration(board: Board, it: Iteration) -> Iteration:
    split = next(
        (i for i, entry in enumerate(it.entries) if entry.phase > Phase.SCHEDULE), len(it.entries)
    )
    board.rows = []
    it.ratio_before = board.ratio
    for entry in it.entries[:split]:
        board.apply(entry.event)
    launched = board.launch(it.step)
    _after_schedule(board, launched, it)
    for entry in it.entries[split:]:
        board.apply(entry.event)
    it.emitted, it.dropped = board.take_emitted(), board.take_dropped()
    it.erased = board.ledger.take_erased()
    pages = board.ledger
    it.ratio_end, it.free_end, it.evictable_end = board.ratio, pages.free, pages.evictable
    return it


def _after_schedule(board: Board, launched: Pass, it: Iteration) -> None:
    it.kind = launched.kind
    it.rows = launched.rows
    it.chunked = board.chunked
    it.ratio, it.full, it.denial = board.ratio, board.full, board.denial
    pages = board.ledger
    it.free, it.evictable, it.protected = pages.free, pages.evictable, pages.protected
    it.waiting = _ids(board.waiting)
    it.running = _ids(board.running)
    it.live = {
        lane.id: (board.state(lane).value, lane.computed, lane.num_tokens, lane.retractions)
        for lane in board.present()
    }


def _ids(lanes: Sequence[Lane]) -> list[str]:
    return [lane.id for lane in lanes]
