"""Iterations as the common step records: what every engine's run can be looked at by.

Blocks are pages here; as in vLLM those count as free that only the cache holds. Statuses are the
derived states, that of a Finish too. A request that ended and only lingers in a batch is not on
the record, nor is one that was lost.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvsched.board import LaneState
from kvsched.log import Event, Finish, Log
from kvsched.sglang.board import Board
from kvsched.sglang.core import ABORT
from kvsched.sglang.retract import OUT_OF_MEMORY
from kvsched.sglang.state import State
from kvsched.sglang.steps import Iteration, rebuild
from kvsched.steps import StepRecord

HERE = frozenset({"WAITING", "CHUNKING", "PREFILLED", "RUNNING", "RUNNING_MIXED", "RETRACTED"})
PREFILLING = frozenset({State.CHUNKING.value, State.PREFILLED.value})


def records(log: Log) -> Iterator[StepRecord]:
    """The steps of a run, in order."""
    board = Board(log)
    for it in rebuild(log, board):
        yield record_of(it, board)


def record_of(it: Iteration, board: Board) -> StepRecord:
    """One iteration; ``board`` stands at its end."""
    live = {request_id: state for request_id, state in it.live.items() if state[0] in HERE}
    size = board.ledger.page_size
    return StepRecord(
        step=it.step,
        now=it.now,
        entries=[entry._replace(event=_ended(entry.event)) for entry in it.entries],
        scheduled=it.scheduled,
        denial=it.denial,
        erased=it.erased,
        waiting=it.waiting,
        running=[request_id for request_id in it.running if request_id in live],
        prefilling=[request_id for request_id, state in live.items() if state[0] in PREFILLING],
        live={
            request_id: LaneState(status, computed, num_tokens, retractions)
            for request_id, (status, computed, num_tokens, retractions) in live.items()
        },
        free=(it.free + it.evictable) // size,
        cached=(it.evictable + it.protected) // size,
        emitted=dict.fromkeys(it.emitted, 1),
        free_end=(it.free_end + it.evictable_end) // size,
    )


def _ended(event: Event) -> Event:
    """A Finish with the state it led to."""
    if not isinstance(event, Finish):
        return event
    state = State.FINISHED
    if event.status == ABORT:
        state = State.OOM_ABORTED if event.reason == OUT_OF_MEMORY else State.GONE
    return event._replace(status=state.value)
