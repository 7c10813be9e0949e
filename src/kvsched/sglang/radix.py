"""The radix tree: which token prefixes have KV, who holds them, and what is evicted first.

It knows tokens and pages, no requests. SGLang 0.5.18 mem_cache/radix_cache.py.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from kvsched.request import Runs
from kvsched.sglang.keys import cut, drop, length, shared


class Node:
    """One edge and its end: ``key`` are the tokens after the parent's, ``pages`` hold their KV.

    ``lock_ref`` counts the requests whose prefix ends here or below; ``last_access`` is a stamp of
    the tree's own counter.
    """

    __slots__ = ("children", "key", "last_access", "length", "lock_ref", "pages", "parent")

    def __init__(self, parent: Node | None, key: Runs, pages: Sequence[int], stamp: int) -> None:
        self.parent = parent
        self.key = key
        self.length = length(key)
        self.pages = tuple(pages)
        self.children: dict[Runs, Node] = {}
        self.lock_ref = 0
        self.last_access = stamp


class RadixTree:
    """Prefixes at page granularity. ``evictable`` and ``protected`` count tokens, the root none.

    Children are told apart by their first page, and keep their place when one is split.
    """

    def __init__(self, page_size: int = 1) -> None:
        self.page_size = page_size
        self.root = Node(None, (), (), 0)
        self.evictable = 0
        self.protected = 0
        self._leaves: dict[Node, None] = {}
        self._clock = 0

    def match(self, runs: Runs) -> tuple[int, Node]:
        """The longest known prefix of ``runs`` in whole pages, and the node where it ends.

        One new stamp for every node touched, root and a partly matched child included; a node
        that is matched in part is split there. Less than a page touches nothing.
        """
        matched, node, _ = self._walk(self._whole_pages(runs))
        return matched, node

    def insert(self, runs: Runs, pages: Sequence[int] = ()) -> int:
        """Add ``runs``, whose KV lies in ``pages``; how many of the tokens were present before.

        The tree takes over the pages of the others.
        """
        runs = self._whole_pages(runs)
        present, node, rest = self._walk(runs)
        if rest:
            leaf = Node(node, rest, pages[present // self.page_size :], self._tick())
            node.children[self._page(rest)] = leaf
            self.evictable += leaf.length
            self._settle(node)
            self._settle(leaf)
        return present

    def lock(self, node: Node) -> None:
        """Keep the path to ``node`` from being evicted."""
        while node.parent is not None:
            if node.lock_ref == 0:
                self.evictable -= node.length
                self.protected += node.length
            node.lock_ref += 1
            self._settle(node)
            node = node.parent

    def unlock(self, node: Node) -> None:
        """Take one lock of the path back."""
        while node.parent is not None:
            node.lock_ref -= 1
            if node.lock_ref == 0:
                self.evictable += node.length
                self.protected -= node.length
            self._settle(node)
            node = node.parent

    def evict(self, tokens: int) -> list[int]:
        """Remove whole leaves, least recently touched first, until ``tokens`` are gone.

        A parent left childless and unlocked joins them (radix_cache.py:592). Returns the pages.
        """
        order = [(node.last_access, i, node) for i, node in enumerate(self._leaves)]
        heapq.heapify(order)
        pages: list[int] = []
        evicted = 0
        while evicted < tokens and order:
            _, _, leaf = heapq.heappop(order)
            parent = self._remove(leaf)
            pages += leaf.pages
            evicted += leaf.length
            if parent in self._leaves:
                heapq.heappush(order, (parent.last_access, -evicted, parent))
        return pages

    def pages_to(self, node: Node) -> list[int]:
        """The pages of a prefix that ends at ``node``, first page first."""
        path = []
        while node.parent is not None:
            path.append(node)
            node = node.parent
        return [page for step in reversed(path) for page in step.pages]

    def all_pages(self) -> list[int]:
        """Every page of the tree."""
        pages: list[int] = []
        nodes = [self.root]
        while nodes:
            node = nodes.pop()
            pages += node.pages
            nodes += node.children.values()
        return pages

    def _walk(self, rest: Runs) -> tuple[int, Node, Runs]:
        """Go down as far as ``rest`` leads: tokens matched, node reached, tokens left."""
        node, matched = self.root, 0
        if not rest:
            return matched, node, rest
        stamp = node.last_access = self._tick()
        while rest:
            child = node.children.get(self._page(rest))
            if child is None:
                break
            child.last_access = stamp
            same = shared(child.key, rest)
            same -= same % self.page_size
            node = child if same == child.length else self._split(child, same)
            matched += same
            rest = drop(rest, same)
        return matched, node, rest

    def _split(self, child: Node, at: int) -> Node:
        """Put a node in the middle of an edge; the child keeps its stamp and its identity.

        The new parent's stamp is later than the walk's (radix_cache.py:704).
        """
        assert child.parent is not None
        upper_pages = child.pages[: at // self.page_size]
        upper = Node(child.parent, cut(child.key, 0, at), upper_pages, self._tick())
        upper.lock_ref = child.lock_ref
        child.parent.children[self._page(child.key)] = upper
        child.key = drop(child.key, at)
        child.length -= at
        child.pages = child.pages[at // self.page_size :]
        child.parent = upper
        upper.children[self._page(child.key)] = child
        return upper

    def _remove(self, leaf: Node) -> Node:
        parent = leaf.parent
        assert parent is not None
        del parent.children[self._page(leaf.key)]
        del self._leaves[leaf]
        self.evictable -= leaf.length
        self._settle(parent)
        return parent

    def _settle(self, node: Node) -> None:
        """Keep the set of what may be evicted now: unlocked leaves, never the root."""
        if node.parent is not None and not node.children and node.lock_ref == 0:
            self._leaves[node] = None
        else:
            self._leaves.pop(node, None)

    def _whole_pages(self, runs: Runs) -> Runs:
        if self.page_size == 1:
            return runs
        tokens = length(runs)
        return cut(runs, 0, tokens - tokens % self.page_size)

    def _page(self, runs: Runs) -> Runs:
        return cut(runs, 0, self.page_size)

    def _tick(self) -> int:
        self._clock += 1
        return self._clock
