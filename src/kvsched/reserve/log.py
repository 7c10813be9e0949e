"""The simulator's log: it keeps records."""

from __future__ import annotations

from collections.abc import Callable

from kvsched.log import Event, Log
from kvsched.reserve.records import Record


class Records(Log):
    """The log of a replay: the loop stamps the time, the scheduler writes records.

    They go to ``write``, by default into ``kept``.
    """

    __slots__ = ("kept", "now", "write")

    def __init__(self, write: Callable[[Record], None] | None = None) -> None:
        super().__init__()
        self.kept: list[Record] = []
        self.now = 0
        self.write = write if write is not None else self.kept.append

    def begin(self, step: int, now: int) -> None:
        self.step, self.now = step, now

    def end(self, now: int) -> None:
        self.now = now

    def add(self, event: Event) -> None:
        """What the loop says of a refusal is in a record already."""
