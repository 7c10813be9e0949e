"""Which moves between statuses a run made, read off its log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from kvsched.log import (
    Abort,
    Admit,
    Arrive,
    ChunkEnd,
    Continue,
    Finish,
    Load,
    Log,
    Preempt,
    Promote,
    Resume,
)
from kvsched.vllm.status import (
    ABORTED,
    LENGTH_CAPPED,
    PREEMPTED,
    REMOTE,
    REPETITION,
    RUNNING,
    STOPPED,
    STREAM,
    WAITING,
    RequestStatus,
)

Move = tuple[RequestStatus | None, RequestStatus]

_CHUNK_END = {"stop": STOPPED, "length": LENGTH_CAPPED, "repetition": REPETITION}


def _arrival(event: Arrive) -> list[RequestStatus]:
    status = RequestStatus[event.status]
    return [WAITING] if status is WAITING else [WAITING, status]


def _chunk_end(event: ChunkEnd) -> list[RequestStatus]:
    end = _CHUNK_END[event.reason]
    return [end, STREAM] if event.status == STREAM.name else [end]


_TARGETS: dict[type, Callable[[Any], list[RequestStatus]]] = {
    Arrive: _arrival,
    Admit: lambda e: [RUNNING],
    Resume: lambda e: [RUNNING],
    Load: lambda e: [REMOTE] if e.asynchronous else [],
    Promote: lambda e: [RequestStatus[e.status]],
    Preempt: lambda e: [PREEMPTED],
    ChunkEnd: _chunk_end,
    Continue: lambda e: [WAITING],
    Finish: lambda e: [RequestStatus[e.status]],
    Abort: lambda e: [ABORTED] if e.status is not None else [],
}
"""The statuses an event takes its request through."""


def count_transitions(log: Log) -> Counter[Move]:
    """How often each move was made, intermediate ones within one call included.

    A source of None is the constructor. A stop that a rejected grammar overrides within the same
    update is not in the log: such a request goes to FINISHED_ERROR straight from RUNNING.
    """
    moves: Counter[Move] = Counter()
    status: dict[str, RequestStatus | None] = {}
    for entry in log.entries:
        event: Any = entry.event
        targets = _TARGETS.get(type(event))
        if targets is None:
            continue
        if isinstance(event, Arrive):
            status[event.id] = None
        for target in targets(event):
            moves[status[event.id], target] += 1
            status[event.id] = target
    return moves
