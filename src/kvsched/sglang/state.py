"""The state of a request: SGLang keeps none, it follows from where the request is found.

vLLM writes twelve statuses; here a table is read from the top, and the first line that holds wins.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kvsched.sglang.core import Core
    from kvsched.sglang.req import Req


class State(StrEnum):
    """What a request can be found as."""

    WAITING = "WAITING"
    """In the queue, never retracted: no memory, no outputs."""
    CHUNKING = "CHUNKING"
    """Between two chunks of its prefill; no other request can be."""
    PREFILLED = "PREFILLED"
    """In the pass that ends its prefill, and in nothing else until the next iteration."""
    RUNNING = "RUNNING"
    """In the decode batch."""
    RUNNING_MIXED = "RUNNING_MIXED"
    """Decoding within a prefill pass; the decode batch is empty meanwhile."""
    RETRACTED = "RETRACTED"
    """In the queue again: its memory is gone, its outputs are kept."""
    FINISHED_LINGER = "FINISHED_LINGER"
    """Done, and still in a batch until somebody sorts it out; it takes part in sums."""
    FINISHED = "FINISHED"
    """Done and in no container."""
    OOM_ABORTED = "OOM_ABORTED"
    """The last one left of a batch that did not fit; it never finishes."""
    GONE = "GONE"
    """Its client was told that it will not be served."""
    LOST = "LOST"
    """In no container, and nobody was told: the bug of 0.5.18 to 0.5.21."""


HOLDING = frozenset({State.CHUNKING, State.PREFILLED, State.RUNNING, State.RUNNING_MIXED})
"""The states with a slot and memory; no other has either."""


class Place(NamedTuple):
    """Where a request is found, and the flags it carries.

    ``in_batch``: in the pass of the last ``schedule()``; ``riding``: as one of its decode rows.
    ``gave_up``: aborted for lack of memory; ``told``: its client knows that it is not served.
    """

    finished: bool = False
    waiting: bool = False
    retracted: bool = False
    chunked: bool = False
    running: bool = False
    in_batch: bool = False
    riding: bool = False
    gave_up: bool = False
    told: bool = False


def state_at(place: Place) -> State:
    """The first line of the table that holds."""
    p = place
    table = (
        (State.FINISHED_LINGER, p.finished and (p.running or p.in_batch or p.chunked)),
        (State.FINISHED, p.finished),
        (State.RETRACTED, p.waiting and p.retracted),
        (State.WAITING, p.waiting),
        (State.CHUNKING, p.chunked),
        (State.RUNNING, p.running),
        (State.GONE, p.told),
        (State.OOM_ABORTED, p.gave_up),
        (State.RUNNING_MIXED, p.riding),
        (State.PREFILLED, p.in_batch),
        (State.LOST, True),
    )
    return next(state for state, holds in table if holds)


def derived_state(request: Req, scheduler: Core) -> State:
    """Where ``request`` stands now."""
    r, batch = request, scheduler.last_batch
    return state_at(
        Place(
            finished=r.finished is not None,
            waiting=r in scheduler.waiting,
            retracted=r.is_retracted,
            chunked=r is scheduler.chunked_req,
            running=r in scheduler.running,
            in_batch=batch is not None and r in batch.reqs,
            riding=batch is not None and batch.prefills > 0 and r in batch.reqs[batch.prefills :],
            gave_up=r.is_retracted and r.to_finish is not None,
            told=r.abort_sent,
        )
    )
