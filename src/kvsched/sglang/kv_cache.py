"""KV memory: what is found of a prefix, what a pass takes, and what comes back.

The pages of a request are its own, but for the first ``cache_protected_len`` tokens, which are
the tree's. SGLang 0.5.18 mem_cache/common.py, allocation.py, radix_cache.py, chunk_cache.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvsched.log import Allocate, Cache, Evict, Free, Log
from kvsched.sglang.config import Config
from kvsched.sglang.events import Adopt, Grow, Leave, write
from kvsched.sglang.pages import PagePool
from kvsched.sglang.radix import RadixTree
from kvsched.sglang.req import Req


class KVCache:
    """Pool and tree. Without a radix cache (``tree`` None) nothing is found and nothing kept.

    ``filled_by``: who filled a page of the tree, kept to tell own prefix hits from shared ones; of
    any other page it says nothing.
    """

    def __init__(self, config: Config, log: Log) -> None:
        self.page_size = config.page_size
        self.log = log
        self.pool = PagePool(config.num_pages)
        self.tree = RadixTree(config.page_size) if config.radix else None
        self.filled_by: dict[int, Req] = {}

    @property
    def available(self) -> int:
        """Tokens in free pages."""
        return len(self.pool) * self.page_size

    @property
    def evictable(self) -> int:
        """Tokens in the tree that nobody holds."""
        return self.tree.evictable if self.tree is not None else 0

    @property
    def protected(self) -> int:
        """Tokens in the tree that somebody holds."""
        return self.tree.protected if self.tree is not None else 0

    @property
    def free_pages(self) -> int:
        """Pages that nobody holds; the engine counts what it could evict as free."""
        return (self.available + self.evictable) // self.page_size

    def ceil(self, tokens: int) -> int:
        """Tokens rounded up to whole pages."""
        return -(-tokens // self.page_size) * self.page_size

    def floor(self, tokens: int) -> int:
        """Tokens rounded down to whole pages."""
        return tokens - tokens % self.page_size

    # -- what is found ----------------------------------------------------------------------

    def match(self, r: Req, tokens: int) -> None:
        """Look for the first ``tokens`` tokens of ``r``; nothing is locked by it."""
        if self.tree is None:
            r.prefix_len = 0
            return
        r.prefix_len, r.last_node = self.tree.match(r.tokens(tokens))
        r.cache_protected_len = r.prefix_len

    def own_hits(self, r: Req) -> int:
        """Tokens of what was found that ``r`` itself had computed, before it was retracted."""
        if self.tree is None or r.last_node is None:
            return 0
        found = self.tree.pages_to(r.last_node)
        return self.page_size * sum(self.filled_by.get(page) is r for page in found)

    def lock(self, r: Req) -> None:
        """Hold what was found."""
        if self.tree is not None and r.last_node is not None:
            self.tree.lock(r.last_node)

    def unlock(self, r: Req) -> None:
        """Hold it no longer."""
        if self.tree is not None and r.last_node is not None:
            self.tree.unlock(r.last_node)

    # -- what a pass takes ------------------------------------------------------------------

    def evict_for(self, tokens: int, by: str) -> None:
        """Make ``tokens`` free if the tree has them to give; it may not (common.py:114)."""
        missing = tokens - self.available
        if self.tree is None or missing <= 0:
            return
        pages = self.tree.evict(missing)
        if pages:
            self.pool.give(pages)
            self.log.add(Evict(by, tuple(pages)))

    def extend(self, rows: Sequence[Req]) -> None:
        """Pages for the ranges of a prefill pass; the adder has seen to it that there are enough.

        With pages of several tokens one more page per request is evicted for than is needed
        (allocation.py:281).
        """
        spare = self.page_size * len(rows) if self.page_size > 1 else 0
        computed = sum(end - start for start, end in (r.extend_range for r in rows))
        self.evict_for(computed + spare, rows[0].id)
        for r in rows:
            start, end = r.extend_range
            hits: list[int] = []
            if not r.has_slot and self.tree is not None and r.last_node is not None:
                hits = self.tree.pages_to(r.last_node)
            taken = self.pool.take((self.ceil(end) - self.ceil(start)) // self.page_size)
            r.pages += hits
            r.pages += taken
            r.has_slot = True
            r.kv_committed_len = end
            self.log.add(Allocate(r.id, tuple(hits), tuple(taken), len(self.pool)))

    def decode_need(self, rows: Sequence[Req]) -> int:
        """Tokens of the pages the next token of each row takes (schedule_batch.py:2792)."""
        page = self.page_size
        return page * sum(1 for r in rows if r.kv_committed_len % page == 0)

    def fits(self, rows: Sequence[Req]) -> bool:
        """Can each row have its next token, after evicting for it?"""
        need = self.decode_need(rows)
        self.evict_for(need, rows[0].id if rows else "")
        return self.available >= need

    def grow(self, rows: Sequence[Req]) -> None:
        """One more token for each row.

        A page for each row is evicted for, although only rows at a page's end take one
        (allocation.py:463).
        """
        page = self.page_size
        self.evict_for(page * len(rows), rows[0].id)
        takers = [r for r in rows if r.kv_committed_len % page == 0]
        taken = self.pool.take(len(takers))
        for r, new in zip(takers, taken, strict=True):
            r.pages.append(new)
        for r in rows:
            r.kv_committed_len += 1
        if takers:
            write(self.log, Grow(tuple(r.id for r in takers), tuple(taken), len(self.pool)))

    # -- what is kept, what comes back ------------------------------------------------------

    def cache_unfinished(self, r: Req) -> None:
        """Give what is computed to the tree, and go on under its lock (radix_cache.py:515).

        Where the tree already had the tokens, its pages replace the request's own.
        """
        computed = r.extend_range[1]
        r.prefix_len = computed
        if self.tree is None:
            return
        runs = r.tokens(self.floor(computed))
        first = r.cache_protected_len // self.page_size
        whole = computed // self.page_size
        own = r.pages[first:whole]
        present = self.tree.insert(runs, r.pages[:whole])
        self.unlock(r)
        _, r.last_node = self.tree.match(runs)
        self.lock(r)
        r.pages[:whole] = self.tree.pages_to(r.last_node)
        doubles = max(0, present // self.page_size - first)
        r.cache_protected_len = self.floor(computed)
        self._keep(r, own[doubles:])
        if doubles:
            write(self.log, Adopt(r.id, first, tuple(r.pages[first : first + doubles])))
            self._give(r, own[:doubles])

    def release(self, r: Req, insert: bool) -> None:
        """Take everything back; with ``insert`` the tree keeps what it has not (common.py:195).

        Without, what the tree got earlier stays there, unlocked, until it is evicted.
        """
        kept: list[int] = []
        back = r.pages
        if self.tree is not None:
            whole = r.kv_committed_len // self.page_size
            runs = r.tokens(whole * self.page_size)
            first = r.cache_protected_len // self.page_size
            end = self.tree.insert(runs, r.pages[:whole]) // self.page_size if insert else whole
            doubles = max(first, end)
            kept = r.pages[doubles:whole]
            back = r.pages[first:doubles] + r.pages[whole:]
            self.unlock(r)
        r.pages = []
        r.kv_committed_len = 0
        r.cache_protected_len = 0
        r.last_node = None
        r.has_slot = False
        self._keep(r, kept)
        self._give(r, back)
        write(self.log, Leave(r.id))

    def _keep(self, r: Req, pages: Sequence[int]) -> None:
        if pages:
            self.filled_by.update(dict.fromkeys(pages, r))
            self.log.add(Cache(r.id, tuple(pages)))

    def _give(self, r: Req, pages: Sequence[int]) -> None:
        if not pages:
            return
        self.pool.give(pages)
        self.log.add(Free(r.id, (), tuple(pages)))
