"""Every step of a run, rebuilt from its log.

The fold knows no scheduling rule. It applies facts: who entered which queue, which blocks were
taken, hashed or given back. One thing is implied and not written: a running request with one
token left to compute computes it, unless an Idle event says otherwise.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

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

    ``failures``: ids whose allocation was refused, once per refusal. ``blocks``: the whole table
    of an admitted request, the appended blocks of a running one, nothing of a victim's;
    ``allocated`` has the victims' too. ``live`` maps id to (status,
    computed, tokens, preemptions) after ``schedule()``. ``free`` and ``cached`` count blocks;
    ``*_end`` fields stand after ``update()``.
    """

    step: int
    now: int
    arrivals: list[Event] = field(default_factory=list)
    scheduled: dict[str, int] = field(default_factory=dict)
    admitted: list[Admit] = field(default_factory=list)
    preempted: list[Preempt] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    denial: Denial | None = None
    evicted: list[Evict] = field(default_factory=list)
    allocated: list[Allocate] = field(default_factory=list)
    blocks: dict[str, list[int]] = field(default_factory=dict)
    ended_before: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    live: dict[str, tuple[str, int, int, int]] = field(default_factory=dict)
    free: int = 0
    free_crc: int = 0
    cached: int = 0
    emitted: list[str] = field(default_factory=list)
    finished: list[Finish] = field(default_factory=list)
    free_end: int = 0
    free_crc_end: int = 0


class Board:
    """The state of a run, moved forward one event at a time."""

    def __init__(self, log: Log) -> None:
        config = log.config
        self.lanes: dict[str, Lane] = {}
        self.waiting: Queue[Lane] = make_queue(config["policy"])
        self.running: list[Lane] = []
        self.free: OrderedDict[int, None] = OrderedDict.fromkeys(range(1, config["num_gpu_blocks"]))
        self.cached: set[int] = set()
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
                record.arrivals.append(event)
            case Abort():
                record.arrivals.append(event)
                if event.status is not None:
                    self._leave(self.lanes.pop(event.id))
            case Chunk():
                self.chunks[event.id] = event.tokens
            case Idle():
                self.idle = frozenset(event.ids)
            case Admit() | Resume():
                self._admit(event)
                record.admitted.append(event)
            case Allocate():
                self._allocate(event, record)
            case Evict():
                self.cached.difference_update(event.blocks)
                record.evicted.append(event)
            case Cache():
                self.cached.update(event.blocks)
            case Free():
                self._free(event)
            case Preempt():
                self._preempt(event, record)
            case Deny():
                self.denial = event.denial
            case Undeny():
                self.denial = None
            case Finish():
                record.finished.append(event)
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
        record.allocated.append(event)

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
        lane.num_preemptions = event.count
        lane.blocks = []
        self.running.remove(lane)
        self.waiting.requeue(lane)
        self.chunks.pop(event.id, None)
        record.blocks.pop(event.id, None)
        record.preempted.append(event)
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
        yield _step(board, StepRecord(step, now), by_step.get(step, []))


def _step(board: Board, record: StepRecord, entries: list[Entry]) -> StepRecord:
    record.ended_before, board.ended = board.ended, []
    for entry in entries:
        if entry.phase is not Phase.UPDATE:
            board.apply(entry.event, record)
    record.ended_before, board.ended = sorted(record.ended_before + board.ended), []
    board.compute(record)
    _after_schedule(board, record)
    board.sample(record)
    for entry in entries:
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
