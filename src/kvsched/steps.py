"""Every step of a run, rebuilt from its log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypeVar

from kvsched.board import Board, LaneState
from kvsched.contract import Denial
from kvsched.errors import InputError
from kvsched.log import (
    Admit,
    Allocate,
    Deliver,
    Entry,
    Event,
    Level,
    Log,
    Phase,
    Preempt,
    Skip,
    TakeIn,
)

E = TypeVar("E", bound=Event)


@dataclass(slots=True)
class StepRecord:
    """One step. Lists are in the order in which things happened, queues head first.

    ``entries`` are the step's log entries. ``made``: a batch was made. ``updated``: the step of
    the batch whose output was taken in, None if none was. ``failures``: ids whose allocation was
    refused, once per refusal. ``blocks``: the whole table of an admitted request, the appended
    blocks of a running one, nothing of a victim's. ``live``: every request's numbers after
    ``schedule()``. ``sampling``: tokens that will come back; ``drafts``: guesses among the
    scheduled tokens; ``emitted``: tokens that reached their client. ``prefilling``: ids whose
    prefill or load is in flight. ``free`` and ``cached`` count blocks, ``slots`` paused sessions.
    ``holders``: blocks held by requests that do not run, ``loaded`` those of them whose load has
    ended. ``*_end`` fields stand after ``update()``. ``erased``: for each Evict, who had filled
    the blocks, and how many.
    """

    step: int
    now: int
    entries: list[Entry]
    made: bool = True
    updated: int | None = None
    scheduled: dict[str, int] = field(default_factory=dict)
    sampling: dict[str, int] = field(default_factory=dict)
    drafts: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    denial: Denial | None = None
    erased: list[dict[str, int]] = field(default_factory=list)
    blocks: dict[str, list[int]] = field(default_factory=dict)
    ended_before: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    prefilling: list[str] = field(default_factory=list)
    live: dict[str, LaneState] = field(default_factory=dict)
    holders: dict[str, int] = field(default_factory=dict)
    loaded: frozenset[str] = frozenset()
    slots: int = 0
    free_before: int = 0
    free: int = 0
    free_crc: int = 0
    cached: int = 0
    emitted: dict[str, int] = field(default_factory=dict)
    waiting_end: list[str] = field(default_factory=list)
    skipped_end: list[str] = field(default_factory=list)
    running_end: list[str] = field(default_factory=list)
    live_end: dict[str, LaneState] = field(default_factory=dict)
    slots_end: int = 0
    free_end: int = 0
    free_crc_end: int = 0
    cached_end: int = 0

    def of(self, kind: type[E], phase: Phase | None = None) -> list[E]:
        """The step's events of one kind, of one phase or all, in order."""
        return self.of_any((kind,), phase)

    def of_any(self, kinds: tuple[type, ...], phase: Phase | None = None) -> list[Any]:
        """The step's events of any of these kinds, of one phase or all, in order."""
        return [
            entry.event
            for entry in self.entries
            if isinstance(entry.event, kinds) and phase in (None, entry.phase)
        ]


def rebuild(log: Log, board: Board | None = None) -> Iterator[StepRecord]:
    """The steps of a run, in order.

    ``board``: a fresh one that watches more than the steps tell; it is moved along.
    Raises InputError for a log of milestones alone, which cannot tell them.
    """
    if log.level is not Level.EVENTS:
        raise InputError("log", "keeps milestones alone", "run with a log of Level.EVENTS")
    board = board if board is not None else Board(log)
    by_step = {step: list(entries) for step, entries in groupby(log.entries, lambda e: e.step)}
    for step, now in enumerate(log.times):
        record = StepRecord(step, now, by_step.get(step, []))
        _forward(board, record)
        yield record


def _forward(board: Board, record: StepRecord) -> None:
    """Move the board over one step, and write down what it shows on the way."""
    record.free_before = len(board.free)
    record.made = not record.of(Skip)
    _apply(board, record, Phase.ARRIVALS, Phase.SCHEDULE)
    if record.made:
        batch = board.compute(record.step)
        record.scheduled, record.sampling, record.drafts = batch[1:]
    _after_schedule(board, record)
    _apply(board, record, Phase.MID)
    if not board.asynchronous or record.of(TakeIn):
        unlike = {event.id: event.tokens for event in record.of(Deliver)}
        batch = board.batches.popleft()
        record.updated = batch.step
        record.emitted = board.deliver(batch, unlike)
    _apply(board, record, Phase.UPDATE)
    _after_update(board, record)


def _apply(board: Board, record: StepRecord, *phases: Phase) -> None:
    for entry in record.entries:
        if entry.phase in phases:
            board.apply(entry.event)


def _after_schedule(board: Board, record: StepRecord) -> None:
    if record.made:
        record.ended_before, board.ended = sorted(board.ended), []
    record.erased, board.erased = board.erased, []
    record.denial = board.denial
    victims = record.of(Preempt)
    record.failures = [event.denial.id for event in victims if event.denial is not None]
    if board.denial is not None and board.denial.of_allocator:
        record.failures.append(board.denial.id)
    record.blocks = _appended(board, record)
    record.waiting = [lane.id for lane in board.queues["waiting"]]
    record.skipped = [lane.id for lane in board.queues["skipped"]]
    record.running = [lane.id for lane in board.running]
    record.prefilling = sorted(board.prefilling)
    record.live = board.live()
    record.holders, record.loaded = board.holders(), frozenset(board.reported)
    record.slots = board.paused_sessions
    record.free, record.free_crc = len(board.free), board.free_crc()
    record.cached = len(board.cached)


def _after_update(board: Board, record: StepRecord) -> None:
    record.waiting_end = [lane.id for lane in board.queues["waiting"]]
    record.skipped_end = [lane.id for lane in board.queues["skipped"]]
    record.running_end = [lane.id for lane in board.running]
    record.live_end = board.live()
    record.slots_end = board.paused_sessions
    record.free_end, record.free_crc_end = len(board.free), board.free_crc()
    record.cached_end = len(board.cached)


def _appended(board: Board, record: StepRecord) -> dict[str, list[int]]:
    """Blocks by request: what the runner must be told. A load's table is told when it runs."""
    blocks: dict[str, list[int]] = {}
    for event in record.of(Allocate, Phase.SCHEDULE):
        if event.id in record.scheduled:
            blocks.setdefault(event.id, []).extend((*event.hits, *event.blocks))
    for admission in record.of(Admit):
        blocks[admission.id] = list(board.lanes[admission.id].blocks)
    return blocks
