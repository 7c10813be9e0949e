"""The pool of blocks: conserved, distinct, and handed out in one order only."""

from __future__ import annotations

from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from kvsched.vllm.block_pool import NULL_BLOCK, BlockPool, HashChain


class TestHashChain:
    """Names stand for everything from the first token on."""

    def test_equal_content_after_equal_parents_has_one_name(self) -> None:
        chain = HashChain()
        first = chain.name(0, 7)
        assert chain.name(0, 7) == first
        assert chain.name(first, 7) != first

    def test_equal_content_after_different_parents_has_two(self) -> None:
        chain = HashChain()
        a, b = chain.name(0, 1), chain.name(0, 2)
        assert chain.name(a, 5) != chain.name(b, 5)

    @given(st.lists(st.lists(st.integers(0, 1), max_size=4), max_size=8))
    def test_names_are_equal_exactly_if_everything_before_is(self, paths: list[list[int]]) -> None:
        chain = HashChain()
        names = {}
        for path in paths:
            name = 0
            for content in path:
                name = chain.name(name, content)
            names[tuple(path)] = name
        assert len(set(names.values())) == len(names)


class TestFreeQueue:
    """A block at a time."""

    def test_blocks_are_handed_out_from_1_on_and_never_the_null_block(self) -> None:
        pool = BlockPool(5)
        assert pool.take(4) == ([1, 2, 3, 4], [])
        assert NULL_BLOCK not in pool.free
        assert not pool.free

    def test_release_splits_by_hash_tail_first(self) -> None:
        pool = BlockPool(8)
        table, _ = pool.take(4)
        pool.register(1, 10)
        pool.register(3, 11)
        assert pool.release(table) == ([4, 2], [3, 1])
        assert list(pool.free) == [4, 2, 5, 6, 7, 3, 1]

    def test_a_shared_block_is_free_when_the_last_holder_leaves(self) -> None:
        pool = BlockPool(4)
        pool.take(1)
        pool.register(1, 10)
        pool.touch([1])
        assert pool.release([1]) == ([], [])
        assert pool.release([1]) == ([], [1])

    def test_touch_takes_a_block_out_of_the_middle(self) -> None:
        pool = BlockPool(5)
        table, _ = pool.take(3)
        for block in table:
            pool.register(block, block)
        pool.release(table)
        assert list(pool.free) == [4, 3, 2, 1]
        pool.touch([2])
        assert list(pool.free) == [4, 3, 1]

    def test_a_block_taken_loses_its_hash(self) -> None:
        pool = BlockPool(2)
        pool.take(1)
        pool.register(1, 10)
        pool.release([1])
        assert pool.lookup(10) == 1
        assert pool.take(1) == ([1], [1])
        assert pool.lookup(10) is None

    def test_of_duplicates_the_first_registered_is_found(self) -> None:
        pool = BlockPool(4)
        pool.take(3)
        pool.register(3, 10)
        pool.register(1, 10)
        assert pool.lookup(10) == 3
        assert pool.forget(3)
        assert pool.lookup(10) == 1
        assert not pool.forget(3)
        assert pool.forget(1)
        assert pool.lookup(10) is None


class PoolMachine(RuleBasedStateMachine):
    """Against a model: a list for the free queue, a count and a hash for each block."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(9)
        self.free = deque(range(1, 9))
        self.hashes: dict[int, int] = {}
        self.tables: list[list[int]] = []

    def held(self, block: int) -> int:
        return sum(table.count(block) for table in self.tables)

    @rule(count=st.integers(0, 3))
    def take(self, count: int) -> None:
        if count > len(self.free):
            return
        expected = [self.free.popleft() for _ in range(count)]
        lost = [block for block in expected if self.hashes.pop(block, None) is not None]
        assert self.pool.take(count) == (expected, lost)
        self.tables.append(expected)

    @precondition(lambda self: any(self.tables))
    @rule(data=st.data(), name=st.integers(1, 4))
    def register(self, data: st.DataObject, name: int) -> None:
        block = data.draw(st.sampled_from([b for table in self.tables for b in table]))
        if block not in self.hashes:
            self.pool.register(block, name)
            self.hashes[block] = name

    @rule(name=st.integers(1, 4))
    def hit(self, name: int) -> None:
        block = self.pool.lookup(name)
        oldest = next((b for b, h in self.hashes.items() if h == name), None)
        assert block == oldest
        if block is not None:
            if self.held(block) == 0:
                self.free.remove(block)
            self.pool.touch([block])
            self.tables.append([block])

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        table = self.tables.pop(data.draw(st.integers(0, len(self.tables) - 1)))
        gone = [block for block in reversed(table) if self.held(block) == 0]
        front = [block for block in gone if block not in self.hashes]
        back = [block for block in gone if block in self.hashes]
        assert self.pool.release(table) == (front, back)
        self.free.extendleft(reversed(front))
        self.free.extend(back)

    def teardown(self) -> None:
        assert list(self.pool.free) == list(self.free)
        assert all(self.pool.ref_cnt[block] == self.held(block) for block in range(1, 9))


TestPoolMachine = PoolMachine.TestCase
TestPoolMachine.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, derandomize=True
)
