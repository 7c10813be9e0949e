"""A run followed step by step for the player: the board, and what it takes to draw beside it.

A request that was thrown out left blocks behind. What a resume would find of them is the longest
prefix whose content nobody has erased yet, and it only shrinks. A second copy of the same content
in another block, which a log does not show, is not counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kvsched.board import Batch, Board, Lane
from kvsched.log import Admit, Allocate, Event, Evict, Free, Log, Preempt, Uncache
from kvsched.steps import StepRecord, rebuild


class Asked(NamedTuple):
    """What an admission asked the pool for, and what was there.

    ``need`` new blocks and ``cached`` ones out of the free queue, of ``free``; ``have``: blocks
    that it held already, or found with others holding them.
    """

    need: int
    cached: int
    free: int
    have: int


class Watch(Board):
    """A board that remembers what was left behind, and what admissions asked for.

    ``found``: tokens of the cache that each request thrown out could read now. ``asked``: the
    step's admissions by id, in order. ``after``: ``found`` as it stood after ``schedule()``.
    """

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.size: int = log.config["block_size"]
        self.asked: dict[str, Asked] = {}
        self.after: dict[str, int] = {}
        self._asks: dict[str, Asked] = {}
        self._left: dict[str, dict[int, int]] = {}
        self._prefix: dict[str, int] = {}
        self._tables: dict[str, list[int]] = {}

    def apply(self, event: Event) -> None:
        """As the board, with an eye on what is given back, erased and asked for."""
        match event:
            case Allocate():
                self._asks[event.id] = self._ask(event)
            case Free() if event.id in self.lanes:
                self._tables[event.id] = self.lanes[event.id].blocks
            case Preempt():
                self._leave(self.lanes[event.id])
            case Evict() | Uncache():
                self._erase(event.blocks)
            case Admit():
                self._left.pop(event.id, None)
                lane = self.lanes[event.id]
                none = Asked(0, 0, len(self.free), len(lane.blocks))
                self.asked[event.id] = self._asks.get(event.id, none)
        super().apply(event)

    def begin(self) -> None:
        """Forget what the last step's admissions asked."""
        self.asked, self._asks, self._tables = {}, {}, {}

    def compute(self, step: int) -> Batch:
        """As the board; this is also the moment that the player shows."""
        batch = super().compute(step)
        self.after = {
            i: self.size * min(self._prefix[i], (self.lanes[i].num_tokens - 1) // self.size)
            for i in self._left
            if i in self.lanes
        }
        return batch

    def free_crc(self) -> int:
        """No checksum: the player compares none, and it would cost as much as all the rest."""
        return 0

    def _ask(self, event: Allocate) -> Asked:
        cached = sum(block in self.free for block in event.hits)
        have = len(self.lanes[event.id].blocks) + len(event.hits)
        return Asked(len(event.blocks), cached, len(self.free), have)

    def _leave(self, lane: Lane) -> None:
        table = lane.blocks or self._tables.get(lane.id, [])
        self._left[lane.id] = {block: place for place, block in enumerate(table)}
        gone = (place for place, block in enumerate(table) if block not in self.cached)
        self._prefix[lane.id] = next(gone, len(table))

    def _erase(self, blocks: tuple[int, ...]) -> None:
        for request_id, places in self._left.items():
            for block in blocks:
                if block in places:
                    self._prefix[request_id] = min(self._prefix[request_id], places[block])


class Moment(NamedTuple):
    """A step, with what each waiting request would find and each admission had asked."""

    record: StepRecord
    found: dict[str, int]
    asked: dict[str, Asked]


def follow(log: Log) -> Iterator[Moment]:
    """The steps of a run, in order."""
    watch = Watch(log)
    for record in rebuild(log, watch):
        yield Moment(record, watch.after, watch.asked)
        watch.begin()
