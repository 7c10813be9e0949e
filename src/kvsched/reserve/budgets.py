"""Read off a replay's records: the pool over time, and for what the head of the queue waited."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from kvsched.reserve import records as rec
from kvsched.reserve.config import Config


class Budget(NamedTuple):
    """Blocks from ``t`` on, until the next one: each block is in one of the four."""

    t: int
    allocated: int
    promised: int
    draining: int
    slack: int


class Wait(NamedTuple):
    """The head of the queue must wait from ``start`` to ``end``, for one reason."""

    start: int
    end: int
    id: str
    binding: str


@dataclass(slots=True)
class _Held:
    credit: int
    computed: int = 0
    pages: int = 0


def budgets(records: Iterable[rec.Record], config: Config) -> Iterator[Budget]:
    """The pool after each boundary at which anything is recorded.

    ``promised`` blocks are those not taken yet, ``slack`` those that could still be promised: the
    invariant says that it is never below 0. Without ``prefix_cache``, whose sharing the records
    do not tell.
    """
    held: dict[str, _Held] = {}
    draining = 0
    for t, group in groupby(records, key=lambda record: record.t):
        for record in group:
            draining += _follow(record, held, config)
        allocated = sum(one.pages for one in held.values())
        promised = sum(max(0, one.credit - one.pages) for one in held.values())
        slack = config.blocks - allocated - promised - draining
        yield Budget(t, allocated, promised, draining, slack)


def _follow(record: rec.Record, held: dict[str, _Held], config: Config) -> int:
    """Take one record in; by how many pages what drains has grown."""
    match record:
        case rec.Admitted():
            held[record.id] = _Held(record.reserve)
        case rec.Dispatch():
            for part in record.rows:
                one = held[part.id]
                one.computed += part.tokens
                one.pages = config.blocks_for(one.computed)
        case rec.Completed() | rec.Truncated() | rec.Cancelled() | rec.Preempted():
            gone = held.pop(record.id, None)
            return gone.pages if gone is not None else 0
        case rec.Released():
            return -record.pages
    return 0


def waits(records: Iterable[rec.Record]) -> Iterator[Wait]:
    """For what the head of the queue waited, one reason after the other."""
    since: rec.AdmissionBlocked | None = None
    for record in records:
        match record:
            case rec.AdmissionBlocked() | rec.Admitted():
                ends = since is not None
            case rec.Cancelled():
                ends = since is not None and since.id == record.id
            case _:
                continue
        if ends and since is not None and since.t < record.t:
            yield Wait(since.t, record.t, since.id, since.binding)
        if isinstance(record, rec.AdmissionBlocked):
            since = record
        elif ends:
            since = None
