"""The twelve statuses of a vLLM request, and every move between them.

Source: vLLM 0.28.0, read as facts. Q = v1/request.py, S = v1/core/sched/scheduler.py,
U = v1/core/sched/utils.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum, auto
from typing import NamedTuple


class RequestStatus(IntEnum):
    """In the engine's order (Q:351-367): everything after PREEMPTED counts as finished."""

    WAITING = auto()
    WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR = auto()
    WAITING_FOR_REMOTE_KVS = auto()
    WAITING_FOR_STREAMING_REQ = auto()
    RUNNING = auto()
    PREEMPTED = auto()
    FINISHED_STOPPED = auto()
    FINISHED_LENGTH_CAPPED = auto()
    FINISHED_ABORTED = auto()
    FINISHED_IGNORED = auto()
    FINISHED_ERROR = auto()
    FINISHED_REPETITION = auto()

    @property
    def is_finished(self) -> bool:
        """The ordering trick of Q:374: a comparison, so a status added below is terminal."""
        return self > RequestStatus.PREEMPTED


WAITING = RequestStatus.WAITING
GRAMMAR = RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR
REMOTE = RequestStatus.WAITING_FOR_REMOTE_KVS
STREAM = RequestStatus.WAITING_FOR_STREAMING_REQ
RUNNING = RequestStatus.RUNNING
PREEMPTED = RequestStatus.PREEMPTED
STOPPED = RequestStatus.FINISHED_STOPPED
LENGTH_CAPPED = RequestStatus.FINISHED_LENGTH_CAPPED
ABORTED = RequestStatus.FINISHED_ABORTED
ERROR = RequestStatus.FINISHED_ERROR
REPETITION = RequestStatus.FINISHED_REPETITION

BLOCKED = frozenset({GRAMMAR, REMOTE, STREAM})
"""Statuses that wait for something outside the scheduler (S:2139)."""

FINISH_REASON = {
    STOPPED: "stop",
    LENGTH_CAPPED: "length",
    ABORTED: "abort",
    RequestStatus.FINISHED_IGNORED: "length",
    ERROR: "error",
    REPETITION: "repetition",
    STREAM: "stop",
}
"""What the client is told (Q:385-393)."""


class Transition(NamedTuple):
    """One legal move. ``source`` None is the constructor; ``where`` is vLLM 0.28.0 file:line.

    ``passing``: both moves around ``source`` are made within one update, so that nobody sees it
    between two calls of the engine.
    """

    source: IntEnum | None
    target: IntEnum
    trigger: str
    where: str
    passing: bool = False


def _moves(
    sources: tuple[RequestStatus | None, ...],
    target: RequestStatus,
    trigger: str,
    where: str,
    passing: bool = False,
) -> list[Transition]:
    return [Transition(source, target, trigger, where, passing) for source in sources]


_STOPPABLE = (RUNNING, PREEMPTED, STREAM)
_LIVE = (WAITING, PREEMPTED, RUNNING, GRAMMAR, REMOTE, STREAM)

TRANSITIONS: tuple[Transition, ...] = (
    *_moves((None,), WAITING, "constructor", "Q:98"),
    *_moves((WAITING,), GRAMMAR, "the request carries a structured-output constraint", "Q:115"),
    *_moves((WAITING, PREEMPTED), RUNNING, "admitted", "S:1135"),
    *_moves(
        (WAITING, PREEMPTED),
        REMOTE,
        "the connector offers an asynchronous load and its blocks were allocated",
        "S:1086",
    ),
    *_moves((REMOTE,), WAITING, "load reported finished, never preempted", "S:2780"),
    *_moves((REMOTE,), PREEMPTED, "load reported finished, preempted before", "S:2778"),
    *_moves((GRAMMAR,), WAITING, "grammar ready when the queue is walked", "S:2790"),
    *_moves((RUNNING,), PREEMPTED, "allocation failure, or reset_prefix_cache", "S:1355"),
    *_moves(_STOPPABLE, STOPPED, "EOS or a stop token", "U:105, U:109"),
    *_moves(_STOPPABLE, LENGTH_CAPPED, "max_tokens or max_model_len reached", "U:116"),
    *_moves((RUNNING, PREEMPTED), REPETITION, "repetition detected", "U:126"),
    *_moves((RUNNING, PREEMPTED), ERROR, "the grammar rejects the new tokens", "S:1917"),
    *_moves(
        (STOPPED, LENGTH_CAPPED, REPETITION),
        ERROR,
        "the grammar rejects the tokens of a stop",
        "S:1917",
        passing=True,
    ),
    *_moves((GRAMMAR,), ERROR, "grammar compilation failed", "S:2383 from S:2038"),
    *_moves((REMOTE,), ERROR, "invalid blocks, kv_load_failure_policy=fail", "S:2383 from S:2040"),
    *_moves(_LIVE, ABORTED, "abort, or closing a paused session", "S:2383"),
    *_moves(
        (STOPPED, LENGTH_CAPPED, REPETITION),
        STREAM,
        "a resumable request stops and no chunk is queued",
        "S:2176",
        passing=True,
    ),
    *_moves(
        (STOPPED, LENGTH_CAPPED, REPETITION),
        WAITING,
        "a resumable request stops and its next chunk is queued",
        "S:1467 from S:2174",
        passing=True,
    ),
    *_moves((STREAM,), WAITING, "a chunk arrives while paused", "S:1467 from S:2311"),
)
"""Every assignment of ``status`` in 0.28.0. FINISHED_IGNORED is no target: nothing assigns it."""

LEGAL = frozenset((move.source, move.target) for move in TRANSITIONS)


def misplaced(statuses: type[IntEnum], transitions: Iterable[Transition]) -> list[str]:
    """Statuses that can be left between two calls and yet count as finished by their place."""
    left = {move.source.name for move in transitions if move.source and not move.passing}
    return [s.name for s in statuses if s > statuses["PREEMPTED"] and s.name in left]


class IllegalTransition(AssertionError):
    """A move the table does not have: an error in the scheduler, never in its input."""


def check_transition(
    request_id: str, source: RequestStatus | None, target: RequestStatus
) -> RequestStatus:
    """Return ``target`` if the table allows the move, else raise IllegalTransition."""
    if (source, target) not in LEGAL:
        name = source.name if source is not None else "(new)"
        raise IllegalTransition(f"{request_id}: {name} -> {target.name} is not in TRANSITIONS")
    return target
