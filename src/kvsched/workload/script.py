"""A workload written out: what happens when."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kvsched.contract import Control
from kvsched.request import Request


class Arrival(NamedTuple):
    """``request`` reaches the scheduler at time ``at``."""

    at: int
    request: Request


class Cancel(NamedTuple):
    """The client of ``id`` gives up at time ``at``; ``mid``: while that step is on the device."""

    at: int
    id: str
    mid: bool = False


class Order(NamedTuple):
    """An order only some schedulers know, at time ``at``."""

    at: int
    op: Control
    mid: bool = False


WorkloadEvent = Arrival | Cancel | Order


def in_order(events: Iterable[WorkloadEvent]) -> list[WorkloadEvent]:
    """By time; at one time arrivals first, else as listed."""
    return sorted(events, key=lambda event: (event.at, not isinstance(event, Arrival)))
