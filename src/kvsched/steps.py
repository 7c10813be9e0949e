"""Every step of a run, rebuilt from its log.

The fold knows no scheduling rule. It applies facts: who entered which queue, which blocks were
taken, hashed or given back. One thing is implied and not written: a running request with one
token left to compute computes it, unless an Idle event says otherwise.
"""

from __future__ import annotations

import zlib
from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeVar

from kvsched.contract import Denial
from kvsched.log import (
    Abort,
    Admit,
    Allocate,
    Arrive,
    Cache,
    Chunk,
    Deny,
    Entry,
    Event,
    Evict,
    Finish,
    Free,
    Idle,
    Log,
    Phase,
    Preempt,
    Resume,
    Undeny,
)
from kvsched.queues import Queue, Ranked, make_queue

E = TypeVar("E", bound=Event)


class Lane(Ranked):
    """One request as the log shows it."""

    __slots__ = ("blocks", "num_computed_tokens", "num_preemptions", "num_tokens", "status")

    def __init__(self, event: Arrive) -> None:
        self.id = event.id
        self.priority = event.priority
        self.arrival_time = event.arrival_time
        self.status = event.status
        self.num_tokens = event.num_prompt_tokens
        self.num_computed_tokens = 0
        self.num_preemptions = 0
        self.blocks: list[int] = []


@dataclass(slots=True)
class StepRecord:
    """One step. Lists are in the order in which things happened, queues head first.

    ``entries`` are the step's log entries. ``failures``: ids whose allocation was refused, once
    per refusal. ``blocks``: the whole table of an admitted request, the appended blocks of a
    running one, nothing of a victim's. ``live`` maps id to (status, computed, tokens,
    preemptions) after ``schedule()``. ``free`` and ``cached`` count blocks; ``*_end`` fields
    stand after ``update()``. ``erased``: for each Evict, who had filled the blocks, and how many.
    """

    step: int
    now: int
    entries: list[Entry]
    scheduled: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    denial: Denial | None = None
    erased: list[dict[str, int]] = field(default_factory=list)
    blocks: dict[str, list[int]] = field(default_factory=dict)
    ended_before: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    live: dict[str, tuple[str, int, int, int]] = field(default_factory=dict)
    free_before: int = 0
    free: int = 0
    free_crc: int = 0
    cached: int = 0
    emitted: list[str] = field(default_factory=list)
    free_end: int = 0
    free_crc_end: int = 0

    def of(self, *kinds: type[E]) -> list[E]:
        """The step's events of these kinds, in order."""
        return [entry.event for entry in self.entries if isinstance(entry.event, kinds)]


class Board:
    """The state of a run, moved forward one event at a time."""

    def __init__(self, log: Log) -> None:
        config = log.config
        self.lanes: dict[str, Lane] = {}
        self.waiting: Queue[Lane] = make_queue(config["policy"])
        self.running: list[Lane] = []
        self.free: OrderedDict[int, None] = OrderedDict.fromkeys(range(1, config["num_gpu_blocks"]))
        self.cached: dict[int, str] = {}
        self.denial: Denial | None = None
        self.ended: list[str] = []
        self.idle: frozenset[str] = frozenset()
        self.chunks: dict[str, int] = {}

    def free_crc(self) -> int:
        """``zlib.crc32`` of the free queue's ids, head first, decimal, joined by commas."""
        return zlib.crc32(",".join(map(str, self.free)).encode())

    def apply(self, event: Event, record: StepRecord) -> None:
        """Apply one event of any phase."""
        match event:
            case Arrive():
                self.lanes[event.id] = lane = Lane(event)
                self.waiting.add(lane)
            case Abort():
                if event.status is not None:
                    self._leave(self.lanes.pop(event.id))
            case Chunk():
                self.chunks[event.id] = event.tokens
            case Idle():
                self.idle = frozenset(event.ids)
            case Admit() | Resume():
                self._admit(event)
            case Allocate():
                self._allocate(event, record)
            case Evict():
                owners = Counter(self.cached.pop(block) for block in event.blocks)
                record.erased.append(dict(owners))
            case Cache():
                self.cached.update(dict.fromkeys(event.blocks, event.id))
            case Free():
                self._free(event)
            case Preempt():
                self._preempt(event, record)
            case Deny():
                self.denial = event.denial
            case Undeny():
                self.denial = None
            case Finish():
                lane = self.lanes.pop(event.id)
                lane.status = event.status
                self.running.remove(lane)
                self.ended.append(lane.id)

    def compute(self, record: StepRecord) -> None:
        """End of ``schedule()``: advance everyone who computes in this step."""
        for lane in self.running:
            left = lane.num_tokens - lane.num_computed_tokens
            tokens = self.chunks.get(lane.id, 1 if left == 1 else 0)
            if tokens and lane.id not in self.idle:
                lane.num_computed_tokens += tokens
                record.scheduled[lane.id] = tokens
        self.chunks, self.idle = {}, frozenset()

    def sample(self, record: StepRecord) -> None:
        """Start of ``update()``: whoever computed its last token gets one more."""
        for request_id in record.scheduled:
            lane = self.lanes[request_id]
            if lane.num_computed_tokens == lane.num_tokens:
                lane.num_tokens += 1
                record.emitted.append(request_id)

    def _admit(self, event: Admit) -> None:
        lane = self.waiting.pop()
        lane.status = "RUNNING"
        lane.num_computed_tokens = event.computed
        self.running.append(lane)
        self.chunks[event.id] = event.tokens

    def _allocate(self, event: Allocate, record: StepRecord) -> None:
        for block in (*event.hits, *event.blocks):
            self.free.pop(block, None)
        taken = [*event.hits, *event.blocks]
        self.lanes[event.id].blocks += taken
        record.blocks.setdefault(event.id, []).extend(taken)

    def _free(self, event: Free) -> None:
        for block in event.back:
            self.free[block] = None
        for block in reversed(event.front):
            self.free[block] = None
            self.free.move_to_end(block, last=False)

    def _preempt(self, event: Preempt, record: StepRecord) -> None:
        lane = self.lanes[event.id]
        lane.status = "PREEMPTED"
        lane.num_computed_tokens = 0
        lane.num_preemptions = event.preemptions
        lane.blocks = []
        self.running.remove(lane)
        self.waiting.requeue(lane)
        self.chunks.pop(event.id, None)
        record.blocks.pop(event.id, None)
        record.failures.append(event.denial.id)

    def _leave(self, lane: Lane) -> None:
        if lane.status == "RUNNING":
            self.running.remove(lane)
        else:
            self.waiting.remove(lane)
        self.ended.append(lane.id)


def rebuild(log: Log) -> Iterator[StepRecord]:
    """The steps of a run, in order. Needs a log of level EVENTS."""
    board = Board(log)
    by_step = {step: list(entries) for step, entries in groupby(log.entries, lambda e: e.step)}
    for step, now in enumerate(log.times):
        yield _step(board, StepRecord(step, now, by_step.get(step, [])))


def _step(board: Board, record: StepRecord) -> StepRecord:
    record.free_before = len(board.free)
    for entry in record.entries:
        if entry.phase is not Phase.UPDATE:
            board.apply(entry.event, record)
    record.ended_before, board.ended = sorted(board.ended), []
    board.compute(record)
    _after_schedule(board, record)
    board.sample(record)
    for entry in record.entries:
        if entry.phase is Phase.UPDATE:
            board.apply(entry.event, record)
    record.free_end, record.free_crc_end = len(board.free), board.free_crc()
    return record


def _after_schedule(board: Board, record: StepRecord) -> None:
    record.denial = board.denial
    if board.denial is not None and board.denial.of_allocator:
        record.failures.append(board.denial.id)
    record.waiting = [lane.id for lane in board.waiting]
    record.running = [lane.id for lane in board.running]
    record.live = {
        lane.id: (lane.status, lane.num_computed_tokens, lane.num_tokens, lane.num_preemptions)
        for lane in board.lanes.values()
    }
    record.free, record.free_crc = len(board.free), board.free_crc()
    record.cached = len(board.cached)
