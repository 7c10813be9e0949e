"""KV blocks: reference counts, content hashes, and the order in which free ones are handed out.

The pool knows nothing about requests. vLLM 0.28.0 v1/core/block_pool.py.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from kvsched.request import BlockContent

NULL_BLOCK = 0


class HashChain:
    """Names for block contents: equal names mean equal tokens from the first one on.

    A name is the index of a (parent name, own content) pair, so two contents never collide and
    names do not depend on Python's hash seed. The root's name is 0.
    """

    __slots__ = ("_names",)

    def __init__(self) -> None:
        self._names: dict[tuple[int, BlockContent], int] = {}

    def name(self, parent: int, content: BlockContent) -> int:
        """The name of a block with ``content`` after the block named ``parent``."""
        return self._names.setdefault((parent, content), len(self._names) + 1)


class BlockPool:
    """Blocks 0 … ``num_blocks - 1``; block 0 is the null block and is never handed out.

    A block in use has ``ref_cnt`` > 0; every other one stands in the free queue. A block may
    carry a hash in either place. ``cached`` maps a hash to the blocks that carry it, oldest
    first: twins prefilled in lockstep hold duplicates, and a lookup takes the first.
    """

    def __init__(self, num_blocks: int) -> None:
        self.ref_cnt = [0] * num_blocks
        self.block_hash: list[int | None] = [None] * num_blocks
        self.free: OrderedDict[int, None] = OrderedDict.fromkeys(range(1, num_blocks))
        self.cached: dict[int, dict[int, None]] = {}

    def lookup(self, block_hash: int) -> int | None:
        """The block first registered under this hash, or None."""
        blocks = self.cached.get(block_hash)
        return next(iter(blocks)) if blocks else None

    def touch(self, blocks: Iterable[int]) -> None:
        """Take cached blocks into use, out of the middle of the free queue if they lie there."""
        for block in blocks:
            if self.ref_cnt[block] == 0:
                del self.free[block]
            self.ref_cnt[block] += 1

    def take(self, count: int) -> tuple[list[int], list[int]]:
        """Pop ``count`` blocks from the head; the second list is those that lost a hash by it.

        The caller has checked that there are enough.
        """
        blocks = [self.free.popitem(last=False)[0] for _ in range(count)]
        evicted = [block for block in blocks if self.forget(block)]
        for block in blocks:
            self.ref_cnt[block] = 1
        return blocks, evicted

    def register(self, block: int, block_hash: int) -> None:
        """Give a block its hash. Several blocks may carry the same one."""
        self.block_hash[block] = block_hash
        self.cached.setdefault(block_hash, {})[block] = None

    def forget(self, block: int) -> bool:
        """Take a block's hash away; False if it had none."""
        block_hash = self.block_hash[block]
        if block_hash is None:
            return False
        self.block_hash[block] = None
        blocks = self.cached[block_hash]
        del blocks[block]
        if not blocks:
            del self.cached[block_hash]
        return True

    def release(self, table: Sequence[int]) -> tuple[list[int], list[int]]:
        """Drop one reference to each block, last first.

        Those now unreferenced go to the front of the free queue if they carry no hash, else to
        its back, each group tail first. So what cannot be found again is reused first, and of
        what can, the prefix outlives the tail (single_type_kv_cache_manager.py, free). Returns
        the two groups in the order in which they now stand in the queue.
        """
        front: list[int] = []
        back: list[int] = []
        for block in reversed(table):
            self.ref_cnt[block] -= 1
            if self.ref_cnt[block] == 0:
                (front if self.block_hash[block] is None else back).append(block)
        for block in back:
            self.free[block] = None
        for block in reversed(front):
            self.free[block] = None
            self.free.move_to_end(block, last=False)
        return front, back
