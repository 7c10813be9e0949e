"""Orders from outside: session chunks and closes, prefix-cache resets, pauses.

vLLM 0.28.0 v1/core/sched/scheduler.py (S:500, 2301-2316, 2511).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsched.contract import Close, Control, NextChunk, Pause, Reset
from kvsched.log import Inbox, PauseState, ResetCache
from kvsched.vllm.status import ABORTED, STREAM

if TYPE_CHECKING:
    from kvsched.vllm.scheduler import Scheduler


def carry_out(scheduler: Scheduler, op: Control) -> None:
    """Carry out one order. An order for an id that is not there has no effect."""
    match op:
        case NextChunk():
            _next_chunk(scheduler, op)
        case Close():
            _close(scheduler, op.id)
        case Reset():
            _reset(scheduler, op.running)
        case Pause():
            scheduler.paused = op.state
            scheduler.log.add(PauseState(op.state))


def _next_chunk(scheduler: Scheduler, chunk: NextChunk) -> None:
    r = scheduler.requests.get(chunk.id)
    scheduler.log.add(Inbox(chunk.id, "chunk", r.status.name if r is not None else None))
    if r is not None:
        scheduler.sessions.next_chunk(r, chunk)


def _close(scheduler: Scheduler, request_id: str) -> None:
    """A paused session ends as aborted; another one once it reaches its next stop."""
    r = scheduler.requests.get(request_id)
    scheduler.log.add(Inbox(request_id, "close", r.status.name if r is not None else None))
    if r is None:
        return
    if r.status is STREAM:
        scheduler.remove(r)
        scheduler.finish(r, ABORTED)
    elif r.inbox is not None:
        r.inbox.append(None)


def _reset(scheduler: Scheduler, running: bool) -> None:
    """Empty the prefix cache, which only works if no block is in use.

    With ``running``, everybody is preempted first, from the tail, so ``waiting`` ends in the old
    order. If paused sessions or loads still hold blocks, vLLM raises RuntimeError after that.
    """
    if running:
        while scheduler.running:
            scheduler.preempt(scheduler.running.pop(), None)
    emptied = scheduler.kv.reset()
    outcome = "true" if emptied else ("error" if running else "false")
    scheduler.log.add(ResetCache(outcome))
