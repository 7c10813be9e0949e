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
    Propose,
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


def second_format(record: StepRecord, config: dict[str, Any]) -> dict[str, Any]:
    """Fields of ``vllm-golden-2``, as far as this step has them."""
    fields = {
        "step": record.step,
        "ev": _events(record, Phase.ARRIVALS),
        "scheduled": record.made,
        "update": record.updated,
        "ev_mid": _events(record, Phase.MID),
        "free_end": record.free_end,
        "free_crc_end": record.free_crc_end,
        "cached_end": record.cached_end,
        "waiting_end": record.waiting_end,
        "skipped_end": record.skipped_end,
        "running_end": record.running_end,
        "slots_end": record.slots_end,
        "live_end": _live(record.live_end),
    }
    if record.made:
        fields |= _made(record, config)
    if record.updated is not None:
        fields |= _taken_in(record, config)
    return fields


def _made(record: StepRecord, config: dict[str, Any]) -> dict[str, Any]:
    """What ``schedule()`` did. Model Runner V2 reports resumed requests as new ones, last."""
    fields = {
        **_scheduled(record),
        "tried": [list(e) for e in record.of(Tried)],
        "inflight": record.prefilling,
        "sampling": [list(item) for item in record.sampling.items()],
        "slots": record.slots,
        "live": _live(record.live),
    }
    if config["pipeline_parallel_size"] > 1:
        fields |= {"new": fields["new"] + fields["resumed"], "resumed": []}
    if config["num_speculative_tokens"]:
        fields["drafts"] = record.drafts
    if config["kv_role"]:
        fields |= {
            "reserved": [e.blocks for e in record.of(Reserve)],
            "kv_ask": [list(e) for e in record.of(Ask)],
            "kv_load": [[e.id, e.tokens, e.asynchronous, list(e.blocks)] for e in record.of(Load)],
        }
    return fields


def _taken_in(record: StepRecord, config: dict[str, Any]) -> dict[str, Any]:
    """What ``update()`` did."""
    fields: dict[str, Any] = {
        "emitted": [list(item) for item in record.emitted.items()],
        "finished": _finished(record),
    }
    if config["num_speculative_tokens"] and not config["async_scheduling"] and record.scheduled:
        proposed = {e.id: e.drafts for e in record.of(Propose)}
        fields["proposed"] = [[i, proposed.get(i, 0)] for i in record.scheduled]
    if config["kv_role"]:
        reports = record.of(Report)
        fields["kv_done"] = {
            "recv": [i for e in reports for i in e.recving],
            "sent": [i for e in reports for i in e.sending],
            "invalid": [block for e in reports for block in e.invalid_blocks],
        }
    return fields


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


def _live(live: dict[str, LaneState]) -> dict[str, list[Any]]:
    """Each request's numbers in the order of ``LaneState``, flags as 0 and 1."""
    return {i: [state.status, *map(int, state[1:])] for i, state in live.items()}


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
