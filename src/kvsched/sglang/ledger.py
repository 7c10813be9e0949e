"""Who holds which page, as the log tells it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kvsched.log import Allocate, Cache, Evict, Free
from kvsched.sglang import events as own
from kvsched.sglang.config import Config
from kvsched.sglang.pages import PagePool


class Ledger:
    """Page tables by request, the tree's pages, and the free ones in their order.

    ``owners`` maps a page of the tree to the request that filled it.
    """

    def __init__(self, config: Config) -> None:
        self.page_size = config.page_size
        self.pool = PagePool(config.num_pages)
        self.tables: dict[str, list[int]] = {}
        self.owners: dict[int, str] = {}
        self._holders: dict[int, int] = {}
        self._held = 0
        self._erased: list[dict[str, int]] = []

    @property
    def free(self) -> int:
        """Tokens in free pages."""
        return len(self.pool) * self.page_size

    @property
    def protected(self) -> int:
        """Tokens in pages of the tree that stand in somebody's table."""
        return self._held * self.page_size

    @property
    def evictable(self) -> int:
        """Tokens in pages of the tree that nobody holds."""
        return (len(self.owners) - self._held) * self.page_size

    def allocate(self, event: Allocate) -> None:
        """Found pages, then new ones, at the end of a table."""
        self.pool.take(len(event.blocks))
        self._append(event.id, (*event.hits, *event.blocks))

    def grow(self, event: own.Grow) -> None:
        """A new page for each of several."""
        self.pool.take(len(event.pages))
        for request_id, page in zip(event.ids, event.pages, strict=True):
            self._append(request_id, (page,))

    def cache(self, event: Cache) -> None:
        """Pages the tree takes over."""
        for page in event.blocks:
            self.owners[page] = event.id
            self._held += page in self._holders

    def adopt(self, event: own.Adopt) -> None:
        """Pages of the tree in place of a request's own."""
        table = self.tables[event.id]
        part = slice(event.first, event.first + len(event.pages))
        self._let_go(table[part])
        self._hold(event.pages)
        table[part] = event.pages

    def give(self, event: Free) -> None:
        """Pages nobody holds any more."""
        self.pool.give(event.back)

    def evict(self, event: Evict) -> None:
        """Pages the tree gives up."""
        self._erased.append(dict(Counter(self.owners.pop(page) for page in event.blocks)))
        self.pool.give(event.blocks)

    def take_erased(self) -> list[dict[str, int]]:
        """Who had filled the pages of each eviction since the last call, and how many."""
        erased, self._erased = self._erased, []
        return erased

    def leave(self, event: own.Leave) -> None:
        """A table goes."""
        self._let_go(self.tables.pop(event.id, ()))

    def _append(self, request_id: str, pages: tuple[int, ...]) -> None:
        self.tables.setdefault(request_id, []).extend(pages)
        self._hold(pages)

    def _hold(self, pages: Iterable[int]) -> None:
        for page in pages:
            count = self._holders.get(page, 0)
            self._holders[page] = count + 1
            self._held += count == 0 and page in self.owners

    def _let_go(self, pages: Iterable[int]) -> None:
        for page in pages:
            count = self._holders.pop(page) - 1
            if count:
                self._holders[page] = count
            else:
                self._held -= page in self.owners
