"""The pool of KV pages: which are free, and in what order they are handed out.

The engine's decisions depend on how many pages are free, never on which. The identities are ours,
so that a plan names its storage: pages 1 … N are taken first in, first out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator


class PoolExhausted(RuntimeError):
    """More pages were taken than were free: an error in the scheduler, never in its input."""


class PagePool:
    """Pages 1 … ``num_pages``. Pages never used are not stored, so a huge pool costs nothing."""

    def __init__(self, num_pages: int) -> None:
        self.num_pages = num_pages
        self._unused = 1
        self._returned: deque[int] = deque()

    def __len__(self) -> int:
        """How many pages are free."""
        return self.num_pages + 1 - self._unused + len(self._returned)

    def __iter__(self) -> Iterator[int]:
        """The free pages in the order in which they would be taken."""
        yield from range(self._unused, self.num_pages + 1)
        yield from self._returned

    def take(self, count: int) -> list[int]:
        """The next ``count`` free pages; the caller has checked that there are enough."""
        if count > len(self):
            raise PoolExhausted(f"{count} pages wanted, {len(self)} are free")
        start = self._unused
        self._unused = min(start + count, self.num_pages + 1)
        pages = list(range(start, self._unused))
        pages += [self._returned.popleft() for _ in range(count - len(pages))]
        return pages

    def give(self, pages: Iterable[int]) -> None:
        """Put pages at the end of the free list."""
        self._returned.extend(pages)
