"""What happens in SGLang's scheduler and in no other: the events of its own.

The log's common events are written too, in pages where vLLM's are in blocks; ``steps.py``
rebuilds every iteration from both.
"""

from __future__ import annotations

from typing import NamedTuple, cast

from kvsched import log as logs
from kvsched.log import Event, Log


class Budgets(NamedTuple):
    """What an adder has left, in tokens.

    ``total``: memory beyond what everyone is expected to need, ``current``: beyond what this pass
    takes; ``inputs``: of the pass, ``chunk``: of the chunk (None with chunking off).
    """

    total: float
    current: float
    inputs: int
    chunk: int | None


class Sorted(NamedTuple):
    """The waiting queue stands in this order from now on."""

    ids: tuple[str, ...]


class Opening(NamedTuple):
    """An admission pass begins, with these budgets."""

    budgets: Budgets


class Offer(NamedTuple):
    """``id`` was offered to the adder; ``extent`` is what it computes, None if it was refused.

    ``asked`` tokens of memory were compared with ``left``; both None where it was not asked for.
    """

    id: str
    extent: tuple[int, int] | None
    verdict: str
    budgets: Budgets
    asked: int | None
    left: float | None


class Continued(NamedTuple):
    """The chunked request computes ``extent``; ``truncated``: its prompt still does not end."""

    id: str
    extent: tuple[int, int]
    truncated: bool
    budgets: Budgets


class Displace(NamedTuple):
    """``id`` asked for the places of running requests of worse priority; ``victims`` gave them."""

    id: str
    victims: tuple[str, ...]
    budgets: Budgets


class Chunked(NamedTuple):
    """``id`` stands between two chunks of its prefill from now on; None: nobody does."""

    id: str | None


class Merge(NamedTuple):
    """Requests whose prefill is done join the end of the running batch."""

    ids: tuple[str, ...]


class Drop(NamedTuple):
    """Finished requests leave the running batch."""

    ids: tuple[str, ...]


class Ride(NamedTuple):
    """The running batch computes one token each within the prefill pass, and leaves ``running``."""

    ids: tuple[str, ...]


class Grow(NamedTuple):
    """Each of ``ids`` took the page at the same place of ``pages``; ``free`` are left."""

    ids: tuple[str, ...]
    pages: tuple[int, ...]
    free: int


class Adopt(NamedTuple):
    """From page ``first`` on, the tree's ``pages`` replace the request's own, which are freed."""

    id: str
    first: int
    pages: tuple[int, ...]


class Retract(NamedTuple):
    """The next tokens did not fit: ``victims`` left, in this order, and ``kept`` is the batch.

    ``aborted``: the last one left, if not even it could go on. ``ratio`` is the new estimate,
    ``gain`` the tokens it freed.
    """

    victims: tuple[str, ...]
    kept: tuple[str, ...]
    aborted: tuple[str, ...]
    ratio: float
    gain: int


class Requeue(NamedTuple):
    """Victims stand in the waiting queue again, from position ``at`` on: in the engine, its end."""

    ids: tuple[str, ...]
    at: int


class Lose(NamedTuple):
    """Preempted requests are in no container any more: the bug of 0.5.18 to 0.5.21."""

    ids: tuple[str, ...]


class Leave(NamedTuple):
    """``id`` holds no memory and no slot any more."""

    id: str


class Landed(NamedTuple):
    """The pass of ``step`` came back. Each of its rows that is still wanted got its token."""

    step: int


class Full(NamedTuple):
    """``batch_is_full`` of the running batch: while it is set, nobody new is tried."""

    full: bool


class Ratio(NamedTuple):
    """``new_token_ratio`` has this value from now on."""

    value: float


SGLangEvent = (
    Sorted
    | Opening
    | Offer
    | Continued
    | Displace
    | Chunked
    | Merge
    | Drop
    | Ride
    | Grow
    | Adopt
    | Retract
    | Requeue
    | Lose
    | Leave
    | Landed
    | Full
    | Ratio
)


MILESTONES = logs.MILESTONES | {Ride, Landed}
"""Kept at every level: with these, who computes and who gets a token follows in each step."""


def write(log: Log, event: SGLangEvent) -> None:
    """Add an event the common log has no name for."""
    log.add(cast(Event, event))
