"""What the engine loop draws its events from: a list of times, or clients who wait for answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol, runtime_checkable

from kvsched.errors import InputError
from kvsched.log import Abort, Finish, Log, Refuse
from kvsched.request import Request
from kvsched.workload.limits import check
from kvsched.workload.script import Arrival, WorkloadEvent, in_order


@runtime_checkable
class Source(Protocol):
    """Hands out events as they fall due; true while it has any left."""

    def due(self, now: int) -> list[WorkloadEvent]:
        """The events up to ``now`` that were not handed out before, in order."""

    def next_at(self) -> int | None:
        """When the next event falls due whatever the scheduler does; None: not before it acts."""

    def __bool__(self) -> bool: ...


class Calendar:
    """Events whose times are known beforehand. InputError for a request that no client sends."""

    def __init__(self, events: Iterable[WorkloadEvent]) -> None:
        self._events = deque(in_order(events))
        for event in self._events:
            if isinstance(event, Arrival):
                check(event.request)

    def due(self, now: int) -> list[WorkloadEvent]:
        due = []
        while self._events and self._events[0].at <= now:
            due.append(self._events.popleft())
        return due

    def next_at(self) -> int | None:
        return self._events[0].at if self._events else None

    def __bool__(self) -> bool:
        return bool(self._events)


class ClosedLoop:
    """``concurrency`` clients; each sends its next request when its last one has ended.

    The clients share one list of requests and start together at time 0, as those of
    ``vllm bench serve --max-concurrency`` do. A request's ``arrival_time`` is set when it is sent.
    Whose request ended is read off ``log``, the run's own. InputError for a request that no
    client sends.
    """

    def __init__(self, requests: Iterable[Request], concurrency: int, log: Log) -> None:
        if concurrency < 1:
            raise InputError("concurrency", f"{concurrency} is below 1", "use at least one client")
        self._unsent = deque(requests)
        for request in self._unsent:
            check(request)
        self._idle_clients = concurrency
        self._log = log
        self._read = 0

    def due(self, now: int) -> list[WorkloadEvent]:
        self._read_log()
        sent: list[WorkloadEvent] = []
        while self._unsent and self._idle_clients:
            self._idle_clients -= 1
            sent.append(Arrival(now, replace(self._unsent.popleft(), arrival_time=now)))
        return sent

    def next_at(self) -> int | None:
        self._read_log()
        return 0 if self._unsent and self._idle_clients else None

    def __bool__(self) -> bool:
        return bool(self._unsent)

    def _read_log(self) -> None:
        for entry in self._log.entries[self._read :]:
            event = entry.event
            if isinstance(event, Finish | Refuse) or (isinstance(event, Abort) and event.status):
                self._idle_clients += 1
        self._read = len(self._log.entries)
