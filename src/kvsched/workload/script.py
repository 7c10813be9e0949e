"""A workload written out: what happens when."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kvsched.request import Request


class Arrival(NamedTuple):
    """``request`` reaches the scheduler at time ``at``."""

    at: int
    request: Request


class Cancel(NamedTuple):
    """The client of ``id`` gives up at time ``at``."""

    at: int
    id: str


WorkloadEvent = Arrival | Cancel


def in_order(events: Iterable[WorkloadEvent]) -> list[WorkloadEvent]:
    """By time; at one time arrivals before cancellations, else as listed."""
    return sorted(events, key=lambda event: (event.at, isinstance(event, Cancel)))
