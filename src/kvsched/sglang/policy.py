"""The order in which waiting requests are tried. Every sort is stable.

SGLang 0.5.18 managers/schedule_policy.py (S below).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import inf
from random import Random

from kvsched.sglang.config import CACHE_AWARE, Config
from kvsched.sglang.kv_cache import KVCache
from kvsched.sglang.radix import Node, RadixTree
from kvsched.sglang.req import Req

LPM_LIMIT = 128
IN_BATCH_PREFIX_CACHING_CHECK_THRESHOLD = 32
IN_BATCH_PREFIX_CACHING_DEPRIORITIZE_THRESHOLD = 32


class SchedulePolicy:
    """Sorts the waiting queue in place. ``deprioritized``: ids put last in the last sort.

    With a radix cache, lpm and dfs-weight look every waiting request up, which counts as a touch.
    """

    def __init__(self, config: Config, kv: KVCache, random: Random) -> None:
        self.config = config
        self.kv = kv
        self.random = random
        self.deprioritized: set[str] = set()
        self.orders: dict[str, Callable[[list[Req], Sequence[Req]], None]] = {
            "fcfs": self.fcfs,
            "lof": self.lof,
            "random": self.shuffle,
            "routing-key": self.routing_key,
            "lpm": self.lpm,
            "dfs-weight": self.dfs_weight,
        }

    def active(self, waiting: Sequence[Req]) -> str:
        """The policy in force: lpm gives up on a queue of more than 128 (S:290)."""
        policy = self.config.schedule_policy
        return "fcfs" if policy == "lpm" and len(waiting) > LPM_LIMIT else policy

    def sort(self, waiting: list[Req], running: Sequence[Req]) -> None:
        """Order the queue for one pass."""
        active = self.active(waiting)
        self.deprioritized = set()
        if active in CACHE_AWARE:
            self.match_prefixes(waiting)
        if active == self.config.schedule_policy:
            self.orders[active](waiting, running)

    # -- the orders -------------------------------------------------------------------------

    def fcfs(self, waiting: list[Req], running: Sequence[Req]) -> None:
        """As it stands; by (priority, entry) under priority scheduling (S:432)."""
        if self.config.enable_priority_scheduling:
            sign = self.config.priority_sign
            waiting.sort(key=lambda r: (r.priority * sign, r.entry_order))

    def lof(self, waiting: list[Req], running: Sequence[Req]) -> None:
        """The longest allowed output first, within a priority (S:409)."""
        sign = self.config.priority_sign if self.config.enable_priority_scheduling else 0
        waiting.sort(key=lambda r: (r.priority * sign, -r.max_new_tokens))

    def shuffle(self, waiting: list[Req], running: Sequence[Req]) -> None:
        """A new order each pass (S:426)."""
        self.random.shuffle(waiting)

    def routing_key(self, waiting: list[Req], running: Sequence[Req]) -> None:
        """Keys that run already first, the most frequent of them before the others (S:443)."""
        counts = Counter(r.routing_key for r in running if r.routing_key)
        if counts:
            waiting.sort(key=lambda r: _key_rank(r.routing_key or "", counts))

    def lpm(self, waiting: list[Req], running: Sequence[Req]) -> None:
        """The longest cached prefix first; the deprioritised last (S:373). Priority plays no part.

        A request whose prompt is cached as a whole counts one token less: one must be computed.
        """
        last = self.deprioritized
        waiting.sort(key=lambda r: inf if r.id in last else -r.num_matched_prefix_tokens)

    def dfs_weight(self, waiting: list[Req], running: Sequence[Req]) -> None:
        """Down the tree, subtrees with the most waiting requests first (S:386).

        So neighbours share prefixes. A node's own requests come after those below it.
        """
        if self.kv.tree is None:
            return
        root = self.kv.tree.root
        own: dict[Node, list[Req]] = {root: []}
        weight: Counter[Node] = Counter()
        for r in waiting:
            node: Node | None = r.last_node
            assert node is not None
            own.setdefault(node, []).append(r)
            while node is not None:
                weight[node] += 1
                node = node.parent
        waiting[:] = [r for node in _children_first(root, weight) for r in own.get(node, ())]

    # -- prefixes ---------------------------------------------------------------------------

    def match_prefixes(self, waiting: Sequence[Req]) -> None:
        """Look up everyone in queue order, and find who had better wait for whom (S:314).

        Of several that share an uncached prefix only the first is tried early: it will cache the
        prefix for the others. They are found in a side tree of what waits in front of them.
        """
        aside = RadixTree()
        for r in waiting:
            self.kv.match(r, r.num_tokens)
            r.num_matched_prefix_tokens = min(r.prefix_len, r.num_tokens - 1)
            if r.prefix_len <= IN_BATCH_PREFIX_CACHING_CHECK_THRESHOLD:
                runs = r.tokens(r.num_tokens)
                found, _ = aside.match(runs)
                if found >= IN_BATCH_PREFIX_CACHING_DEPRIORITIZE_THRESHOLD:
                    self.deprioritized.add(r.id)
                else:
                    aside.insert(runs)


def _key_rank(key: str, counts: Counter[str]) -> tuple[int, int, str]:
    return (0, -counts[key], key) if counts[key] else (1, 0, key)


def _children_first(root: Node, weight: Counter[Node]) -> Iterator[Node]:
    """Every node above or at a waiting request: children by weight, then the node itself."""
    stack = [(root, False)]
    while stack:
        node, seen = stack.pop()
        if seen:
            yield node
            continue
        stack.append((node, True))
        children = [child for child in node.children.values() if weight[child]]
        children.sort(key=lambda child: -weight[child])
        stack += [(child, False) for child in reversed(children)]
