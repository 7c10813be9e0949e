"""The two waiting queues: arrival order with a front, and a heap on (priority, arrival, id).

Both offer the same verbs, so no scheduler loop asks which policy it runs. The log's rebuild of
steps uses the same classes on its own records, which is why they stand below every scheduler.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Generic, Protocol, TypeVar


class Ranked:
    """Something with a place in priority order: (priority, arrival_time, id), smallest first.

    vLLM 0.28.0 v1/request.py:337. The order is total because ids are unique.
    """

    __slots__ = ("arrival_time", "id", "priority")
    id: str
    arrival_time: int
    priority: int

    def __lt__(self, other: Ranked) -> bool:
        return (self.priority, self.arrival_time, self.id) < (
            other.priority,
            other.arrival_time,
            other.id,
        )


R = TypeVar("R", bound=Ranked)


class Queue(Protocol[R]):
    """What a scheduler may do with a queue of waiting requests."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[R]: ...
    def add(self, request: R) -> None: ...
    def requeue(self, request: R) -> None: ...
    def peek(self) -> R: ...
    def pop(self) -> R: ...
    def discard(self, request: R) -> None: ...


class FCFSQueue(Generic[R]):
    """First come, first served; ``requeue`` puts a victim at the front."""

    def __init__(self) -> None:
        self._items: deque[R] = deque()

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[R]:
        return iter(self._items)

    def add(self, request: R) -> None:
        self._items.append(request)

    def requeue(self, request: R) -> None:
        self._items.appendleft(request)

    def peek(self) -> R:
        return self._items[0]

    def pop(self) -> R:
        return self._items.popleft()

    def discard(self, request: R) -> None:
        """Take a request out wherever it stands, if it is in."""
        while request in self._items:
            self._items.remove(request)


class PriorityQueue(Generic[R]):
    """A binary heap; ``requeue`` is ``add``: a victim gets no bonus for having run before."""

    def __init__(self) -> None:
        self._heap: list[R] = []

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[R]:
        """In the order in which popping a copy would yield them."""
        heap = list(self._heap)
        while heap:
            yield heapq.heappop(heap)

    def add(self, request: R) -> None:
        heapq.heappush(self._heap, request)

    requeue = add

    def peek(self) -> R:
        return self._heap[0]

    def pop(self) -> R:
        return heapq.heappop(self._heap)

    def discard(self, request: R) -> None:
        """Take a request out, if it is in; the heap is built anew either way."""
        self._heap = [item for item in self._heap if item is not request]
        heapq.heapify(self._heap)


def make_queue(policy: str, items: Iterable[R] = ()) -> Queue[R]:
    """The queue of a policy, ``fcfs`` or ``priority``."""
    queue: Queue[R] = PriorityQueue() if policy == "priority" else FCFSQueue()
    for item in items:
        queue.add(item)
    return queue
