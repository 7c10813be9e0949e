"""Pages with reference counts, sharing, and transfers that pin them.

A page is *referenced* while a table names it; *draining* when none does but a transfer, running or
aborted, may still read or write it; else *free*. At all times

    free + draining + referenced = total.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kvsched.invariants import InvariantViolation


@dataclass(frozen=True, slots=True)
class Transfer:
    """An asynchronous copy. It pins both sides until its drain is acknowledged."""

    number: int
    source: tuple[int, ...]
    destination: tuple[int, ...]


class Allocator:
    """Pages 0 … ``total - 1``. It knows nothing of requests.

    ``refs`` and ``pins`` count, by page, the tables that name it and the transfers that touch it.
    ``free`` is handed out from its head. Every change asserts the conservation of pages.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.refs: Counter[int] = Counter()
        self.pins: Counter[int] = Counter()
        self.free = list(range(total))
        self.transfers: dict[int, Transfer] = {}
        self._begun = 0

    @property
    def referenced(self) -> set[int]:
        """Pages that a table names."""
        return {page for page, count in self.refs.items() if count}

    @property
    def draining(self) -> set[int]:
        """Pages no table names, and a transfer pins."""
        return {page for page, count in self.pins.items() if count and not self.refs[page]}

    def take(self, count: int) -> list[int] | None:
        """``count`` pages, one reference each; None, and nothing changed, if too few are free."""
        if count > len(self.free):
            return None
        pages, self.free = self.free[:count], self.free[count:]
        self.refs.update(pages)
        self.check()
        return pages

    def share(self, pages: Iterable[int]) -> None:
        """One more reference to each of these referenced pages."""
        for page in pages:
            assert self.refs[page], f"page {page} is not referenced"
            self.refs[page] += 1
        self.check()

    def drop(self, pages: Iterable[int]) -> list[int]:
        """One reference less to each; return those that are free by it."""
        freed = []
        for page in pages:
            assert self.refs[page], f"page {page} is not referenced"
            self.refs[page] -= 1
            if not self.refs[page] and not self.pins[page]:
                freed.append(page)
        self.free += freed
        self.check()
        return freed

    def may_write(self, page: int) -> bool:
        """Does nobody else read it: no other table, no transfer?"""
        return self.refs[page] == 1 and not self.pins[page]

    def recoverable(self, pages: Iterable[int]) -> int:
        """How many of a table's pages would be free if it dropped them now."""
        return sum(map(self.may_write, pages))

    def begin(self, source: Sequence[int], destination: Sequence[int]) -> Transfer:
        """Pin both sides of a transfer."""
        transfer = Transfer(self._begun, tuple(source), tuple(destination))
        self._begun += 1
        self.transfers[transfer.number] = transfer
        self.pins.update((*source, *destination))
        self.check()
        return transfer

    def acknowledge(self, number: int) -> list[int]:
        """The device says that a transfer touches nothing any more; return the pages free by it."""
        transfer = self.transfers.pop(number)
        pages = (*transfer.source, *transfer.destination)
        self.pins.subtract(pages)
        freed = [page for page in pages if not self.refs[page] and not self.pins[page]]
        self.free += freed
        self.check()
        return freed

    def check(self) -> None:
        """Raise InvariantViolation unless every page is in one place, and one only."""
        places = [set(self.free), self.draining, self.referenced]
        sizes = [len(self.free), *map(len, places[1:])]
        if sum(sizes) != self.total or set().union(*places) != set(range(self.total)):
            free, draining, referenced = sizes
            raise InvariantViolation(
                f"free {free} + draining {draining} + referenced {referenced} = {self.total} "
                "does not hold"
            )
