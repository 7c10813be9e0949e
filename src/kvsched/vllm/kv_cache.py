"""Who holds which blocks: prefix lookup, allocation (predicate, then commit), and giving back.

vLLM 0.28.0 v1/core/kv_cache_manager.py and single_type_kv_cache_manager.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

from kvsched.contract import BLOCK, RESERVED, WATERMARK, WHOLE_SEQUENCE, Denial
from kvsched.log import Allocate, Cache, Evict, Free, Log, Uncache
from kvsched.vllm.block_pool import BlockPool
from kvsched.vllm.config import Config
from kvsched.vllm.state import RequestState


class Found(NamedTuple):
    """What a waiting request need not compute.

    ``computed`` tokens in all: ``hits`` blocks of the local cache, ``external`` tokens to load.
    An asynchronous load takes blocks now and runs later.
    """

    computed: int
    hits: Sequence[int] = ()
    external: int = 0
    asynchronous: bool = False


class KVCacheManager:
    """The allocator. A refusal is a Denial and changes nothing; None means it was done.

    ``filled_by``: who gave a block the hash it carries, kept to tell own prefix hits from shared
    ones; of a block without a hash it says nothing.
    """

    def __init__(self, config: Config, log: Log) -> None:
        self.config = config
        self.block_size = config.block_size
        self.log = log
        self.lookahead = config.num_lookahead_tokens
        self.pool = BlockPool(config.num_gpu_blocks)
        self.filled_by: dict[int, RequestState] = {}

    def get_computed_blocks(self, r: RequestState) -> list[int]:
        """Cached blocks that hold the longest known prefix of ``r``.

        At most floor((tokens - 1) / block_size) of them, so that the last token is always
        computed and gives the next one.
        """
        hits: list[int] = []
        most = (r.num_tokens - 1) // self.block_size
        for block_hash in islice(r.block_hashes, most):
            block = self.pool.lookup(block_hash)
            if block is None:
                break
            hits.append(block)
        return hits

    def own(self, r: RequestState, hits: Sequence[int]) -> int:
        """How many of these hit blocks ``r`` itself had filled, before it was preempted."""
        return sum(self.filled_by[block] is r for block in hits)

    def grow(
        self, r: RequestState, num_new_tokens: int, headroom: Callable[[RequestState], int]
    ) -> Denial | None:
        """Blocks for a running request's next tokens and drafts; most steps need none."""
        size = self.block_size
        end = r.num_computed_tokens + num_new_tokens
        held = len(r.block_table)
        if end + self.lookahead > held * size:
            need = -(-min(end + self.lookahead, self.config.max_model_len) // size) - held
            free, keep = len(self.pool.free), headroom(r)
            if need + keep > free:
                return Denial(r.id, BLOCK, need, headroom=keep, free=free, have=held)
            if need > 0:
                self._append(r, (), need)
        if r.chain is not None and end // size > r.num_cached_blocks:
            self.cache_full_blocks(r, end)
        return None

    def admit(
        self, r: RequestState, num_new_tokens: int, found: Found, headroom: int, reserved: int
    ) -> Denial | None:
        """Blocks for a waiting request; an asynchronous load takes blocks and no hashes."""
        denial = self.refusal(r, num_new_tokens, found, headroom, reserved)
        if denial is not None:
            return denial
        need = self._lacks(r, found, self._written(found, num_new_tokens))
        if found.hits:
            r.num_cached_blocks = len(found.hits)
        if need or found.hits:
            self._append(r, found.hits, need)
        if not found.asynchronous:
            # Only the first part is cut at max_model_len, which a session's chunks can exceed.
            computed = min(found.computed, self.config.max_model_len)
            self.cache_full_blocks(r, computed + num_new_tokens)
        return None

    def refusal(
        self, r: RequestState, num_new_tokens: int, found: Found, headroom: int, reserved: int
    ) -> Denial | None:
        """Would ``admit`` refuse? First the whole-sequence gate asks, then this chunk.

        Hit blocks nobody holds lie in the free queue and would leave it, so they count as demand.
        ``reserved`` blocks are spoken for by loads and prefills in flight; only the second test
        knows of them (kv_cache_manager.py:526).
        """
        have = len(r.block_table) + len(found.hits)
        cached = sum(1 for block in found.hits if self.pool.ref_cnt[block] == 0)
        if self.config.scheduler_reserve_full_isl:  # kv_cache_manager.py:475-491
            need = self._lacks(r, found, r.num_tokens)
            asked = Denial(r.id, WHOLE_SEQUENCE, need, cached, headroom, have=have)
            denial = self._test(asked, 0)
            if denial is not None:
                return denial
        need = self._lacks(r, found, self._written(found, num_new_tokens))
        return self._test(Denial(r.id, BLOCK, need, cached, headroom, have=have), reserved)

    def free(self, r: RequestState) -> None:
        """Take the whole table back; blocks keep their hashes and can still be found."""
        front, back = self.pool.release(r.block_table)
        r.block_table = []
        r.num_cached_blocks = 0
        if front or back:
            self.log.add(Free(r.id, tuple(front), tuple(back)))

    def _written(self, found: Found, num_new_tokens: int) -> int:
        """Tokens that the table must hold after the pass, drafts of the next one among them."""
        lookahead = 0 if found.asynchronous else self.lookahead
        return found.computed + num_new_tokens + lookahead

    def _lacks(self, r: RequestState, found: Found, tokens: int) -> int:
        """Blocks still to take for the first ``tokens`` tokens."""
        whole = -(-min(tokens, self.config.max_model_len) // self.block_size)
        return max(0, whole - len(r.block_table) - len(found.hits))

    def _test(self, asked: Denial, reserved: int) -> Denial | None:
        """None if what is asked fits, else the denial, named after what alone makes it fail."""
        free = len(self.pool.free)
        if asked.asked <= free - reserved:
            return None
        test = asked.test
        if asked.asked <= free:
            test = RESERVED
        elif asked.need + asked.cached <= free - reserved:
            test = WATERMARK
        return asked._replace(test=test, free=free, reserved=reserved)

    def _append(self, r: RequestState, hits: Sequence[int], need: int) -> None:
        """Hits are taken first: out of the free queue before its head is popped."""
        self.pool.touch(hits)
        blocks, evicted = self.pool.take(need)
        r.block_table.extend(hits)
        r.block_table.extend(blocks)
        if evicted:
            self.log.add(Evict(r.id, tuple(evicted)))
        self.log.add(Allocate(r.id, tuple(hits), tuple(blocks), len(self.pool.free)))

    def drop_hashes(self, r: RequestState, first: int) -> None:
        """Blocks of the table from index ``first`` on can no longer be found."""
        dropped = [block for block in r.block_table[first:] if self.pool.forget(block)]
        r.num_cached_blocks = min(r.num_cached_blocks, first)
        if dropped:
            self.log.add(Uncache(tuple(dropped)))

    def reset(self) -> bool:
        """Forget every hash, if no block is in use."""
        if len(self.pool.free) < self.config.num_gpu_blocks - 1:
            return False
        dropped = [block for block in self.pool.free if self.pool.forget(block)]
        self.log.add(Uncache(tuple(dropped)))
        return True

    def cache_full_blocks(self, r: RequestState, end: int) -> None:
        """Register full blocks at schedule time, before their KV exists.

        So a request admitted later in the same schedule() already hits them, and a pass that is
        taken back leaves a hash on a block nobody wrote (kv_cache_manager.py:562-566).
        """
        if r.chain is None:
            return
        full = min(end, r.num_tokens) // self.block_size
        if full <= r.num_cached_blocks:
            return
        blocks = r.block_table[r.num_cached_blocks : full]
        for block, block_hash in zip(blocks, r.block_hashes[r.num_cached_blocks :], strict=False):
            self.pool.register(block, block_hash)
            self.filled_by[block] = r
        r.num_cached_blocks = full
        self.log.add(Cache(r.id, tuple(blocks)))
