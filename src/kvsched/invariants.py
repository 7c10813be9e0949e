"""What must hold at every step boundary, whatever the scheduler. Numbered, so tests can name them.

A scheduler shows itself as a ``Snapshot``; an invariant looks at it and answers with what is
wrong, or None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kvsched.log import Abort, Admit, ChunkEnd, Finish, Log, Preempt


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A scheduler between two calls.

    ``usable``: ids of the blocks that may be handed out. ``free``: the free queue. ``ref_cnt``:
    references by block id. ``tables``: block table by request. ``containers``: the queues by
    name, each a list of request ids. ``live``: every unfinished request. ``tokens`` and ``slots``
    are the step's budgets, ``scheduled`` what the last plan gave.
    """

    usable: range
    free: Sequence[int]
    ref_cnt: Sequence[int]
    tables: Mapping[str, Sequence[int]]
    containers: Mapping[str, Sequence[str]]
    live: frozenset[str]
    tokens: int
    slots: int
    scheduled: Mapping[str, int]


class Invariant(NamedTuple):
    """A numbered statement and the function that looks for its violation."""

    number: int
    statement: str
    violation: Callable[[Snapshot], str | None]


class InvariantViolation(AssertionError):
    """A scheduler broke a numbered invariant: an error in the scheduler, never in its input."""


def check(snapshot: Snapshot) -> None:
    """Raise InvariantViolation, naming number and numbers, if any invariant does not hold."""
    for invariant in INVARIANTS:
        wrong = invariant.violation(snapshot)
        if wrong is not None:
            raise InvariantViolation(f"I{invariant.number} {invariant.statement}: {wrong}")


def _blocks_are_conserved(s: Snapshot) -> str | None:
    used = {block for block in s.usable if s.ref_cnt[block] > 0}
    both = used.intersection(s.free)
    lost = set(s.usable) - used - set(s.free)
    if both or lost:
        return f"in use and free: {sorted(both)}, neither: {sorted(lost)}"
    return None


def _free_blocks_are_distinct(s: Snapshot) -> str | None:
    twice = [block for block, count in Counter(s.free).items() if count > 1]
    foreign = [block for block in s.free if block not in s.usable]
    return f"twice {twice}, foreign {foreign}" if twice or foreign else None


def _references_are_tables(s: Snapshot) -> str | None:
    held = Counter(block for table in s.tables.values() for block in table)
    wrong = [b for b in s.usable if s.ref_cnt[b] != held[b]]
    return f"blocks {wrong}" if wrong else None


def _one_place_each(s: Snapshot) -> str | None:
    places = Counter(i for ids in s.containers.values() for i in ids)
    wrong = sorted(i for i in s.live | set(places) if places[i] != (i in s.live))
    return f"requests {wrong}" if wrong else None


def _slots_hold(s: Snapshot) -> str | None:
    running = len(s.containers["running"])
    return f"{running} running in {s.slots} slots" if running > s.slots else None


def _budget_holds(s: Snapshot) -> str | None:
    spent = sum(s.scheduled.values())
    return f"{spent} tokens from a budget of {s.tokens}" if spent > s.tokens else None


def _every_row_computes(s: Snapshot) -> str | None:
    empty = [i for i, count in s.scheduled.items() if count < 1]
    return f"requests {empty}" if empty else None


INVARIANTS: tuple[Invariant, ...] = (
    Invariant(1, "a block is in use or free, never both or neither", _blocks_are_conserved),
    Invariant(2, "the free queue holds each usable block at most once", _free_blocks_are_distinct),
    Invariant(3, "a block's references are the tables it stands in", _references_are_tables),
    Invariant(4, "an unfinished request stands in exactly one place", _one_place_each),
    Invariant(5, "no more requests run than there are slots", _slots_hold),
    Invariant(6, "a step schedules no more tokens than its budget", _budget_holds),
    Invariant(7, "a scheduled request computes at least one token", _every_row_computes),
)


def waiting_never_preempts(log: Log) -> str | None:
    """I8, over a log: whoever causes a preemption is running at that moment.

    Returns the first violation in words, or None. A simulator that let waiting requests evict
    runners turned 32 s of replay into 26 minutes (ai-dynamo/dynamo issue 9718).
    """
    running: set[str] = set()
    for entry in log.entries:
        event = entry.event
        if isinstance(event, Admit):
            running.add(event.id)
        elif isinstance(event, Finish | Abort | ChunkEnd):
            running.discard(event.id)
        elif isinstance(event, Preempt):
            if event.denial is not None and event.denial.id not in running:
                return (
                    f"I8 step {entry.step}: {event.denial.id} is not running and evicts {event.id}"
                )
            running.discard(event.id)
    return None
