"""A rebuilt step under the field names of the recordings (``FORMAT.md`` beside them)."""

from __future__ import annotations

from typing import Any

from kvsched.board import LaneState
from kvsched.log import (
    Abort,
    Admit,
    Arrive,
    Ask,
    ChunkEnd,
    Event,
    Finish,
    Inbox,
    Load,
    PauseState,
    Phase,
    Preempt,
    Report,
    Reserve,
    ResetCache,
    Resume,
    Tried,
)
from kvsched.steps import StepRecord
from kvsched.vllm.status import ABORTED


def first_format(record: StepRecord) -> dict[str, Any]:
    """Fields of ``vllm-golden-1``."""
    return {
        "step": record.step,
        "ev": _events(record, Phase.ARRIVALS),
        **_scheduled(record),
        "live": {i: list(state[:4]) for i, state in record.live.items()},
        "emitted": list(record.emitted),
        "finished": [[e.id, e.reason] for e in record.of(Finish)],
        "free_end": record.free_end,
        "free_crc_end": record.free_crc_end,
    }


def second_format(record: StepRecord, connector: bool, delivery: bool = False) -> dict[str, Any]:
    """Fields of ``vllm-golden-2``, of a synchronous run.

    ``delivery``: the connector must deliver every KV block, so that each preemption sets the flag
    ``drop_stale_output``, not a reset's only (scheduler.py:683). It has no effect in such a run.
    """
    fields = {
        "step": record.step,
        "ev": _events(record, Phase.ARRIVALS),
        "scheduled": True,
        **_scheduled(record),
        "tried": [list(e) for e in record.of(Tried)],
        "inflight": record.prefilling,
        "sampling": [list(item) for item in record.sampling.items()],
        "slots": record.slots,
        "live": _live(record.live, record.scheduled, delivery),
        "update": record.step,
        "emitted": [list(item) for item in record.emitted.items()],
        "finished": _finished(record),
        "ev_mid": _events(record, Phase.MID),
        "free_end": record.free_end,
        "free_crc_end": record.free_crc_end,
        "cached_end": record.cached_end,
        "waiting_end": record.waiting_end,
        "skipped_end": record.skipped_end,
        "running_end": record.running_end,
        "slots_end": record.slots_end,
        "live_end": _live(record.live_end, {}, delivery),
    }
    return {**fields, **_connector(record)} if connector else fields


def _scheduled(record: StepRecord) -> dict[str, Any]:
    admitted = record.of(Admit)
    return {
        "sched": [list(item) for item in record.scheduled.items()],
        "new": [e.id for e in admitted if not isinstance(e, Resume)],
        "resumed": [e.id for e in record.of(Resume)],
        "preempted": [e.id for e in record.of(Preempt, Phase.SCHEDULE)],
        "alloc_fail": record.failures,
        "hits": {e.id: e.computed for e in admitted},
        "blocks": record.blocks,
        "finished_prev": record.ended_before,
        "free": record.free,
        "free_crc": record.free_crc,
        "cached": record.cached,
        "waiting": record.waiting,
        "skipped": record.skipped,
        "running": record.running,
    }


def _connector(record: StepRecord) -> dict[str, Any]:
    reports = record.of(Report)
    return {
        "reserved": [e.blocks for e in record.of(Reserve)],
        "kv_ask": [list(e) for e in record.of(Ask)],
        "kv_load": [[e.id, e.tokens, e.asynchronous, list(e.blocks)] for e in record.of(Load)],
        "kv_done": {
            "recv": [i for e in reports for i in e.recving],
            "sent": [i for e in reports for i in e.sending],
            "invalid": [block for e in reports for block in e.invalid_blocks],
        },
    }


def _live(
    live: dict[str, LaneState], in_flight: dict[str, int], delivery: bool
) -> dict[str, list[Any]]:
    """Status, computed, tokens, preemptions; placeholders, in flight, stale, drop, drafts."""
    return {
        i: [*state[:4], 0, in_flight.get(i, 0), 0, int(_drops(state, delivery)), 0]
        for i, state in live.items()
    }


def _drops(state: LaneState, delivery: bool) -> bool:
    return state.drop_stale_output or (delivery and state.num_preemptions > 0)


def _finished(record: StepRecord) -> list[list[Any]]:
    """Ends and ends of chunks, errors of the whole step last; aborts are not listed."""
    return [
        [e.id, e.reason, e.stop_reason]
        for e in record.of_any((Finish, ChunkEnd))
        if e.status != ABORTED.name
    ]


def _events(record: StepRecord, phase: Phase) -> list[list[Any]]:
    kinds = (Arrive, Abort, Inbox, ResetCache, PauseState)
    return [_event(record, event, phase) for event in record.of_any(kinds, phase)]


def _event(record: StepRecord, event: Event, phase: Phase) -> list[Any]:
    match event:
        case Arrive():
            return ["add", event.id]
        case Abort():
            return ["abort", event.id, event.status]
        case Inbox():
            return [event.op, event.id, event.status]
        case ResetCache():
            outcome = {"true": True, "false": False}.get(event.outcome, event.outcome)
            return ["reset", outcome, [e.id for e in record.of(Preempt, phase)]]
        case PauseState():
            return ["pause", event.state]
    raise AssertionError(event)
