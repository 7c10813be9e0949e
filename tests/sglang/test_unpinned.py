"""Rules that no recording pins: with one of them changed, all recordings would still match."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import pytest

from kvsched.contract import POLICY, RESERVATION, TOKEN, Denial
from kvsched.engine import run
from kvsched.log import Finish, Log
from kvsched.sglang import Config, Request, Scheduler
from kvsched.sglang.adder import Verdict
from kvsched.sglang.events import Continued, Displace, Lose, Offer
from kvsched.sglang.ignore_eos import Adder
from kvsched.sglang.kv_cache import KVCache
from kvsched.sglang.policy import SchedulePolicy
from kvsched.sglang.radix import Node, RadixTree
from kvsched.sglang.req import Req
from kvsched.sglang.retract import OUT_OF_MEMORY
from kvsched.workload import Arrival

rule = partial(pytest.mark.rule, engine="SGLang", version="0.5.18")
SRT = "python/sglang/srt"
POLICY_FILE = f"{SRT}/managers/schedule_policy.py"
RADIX = f"{SRT}/mem_cache/radix_cache.py"


def req(config: Config, name: str, prompt: Any, max_new: int = 16, out: int = 0, **own: Any) -> Req:
    """A request as the adder or a policy is given it; ``prompt`` is a length or runs."""
    number = sum(map(ord, name))
    runs = ((10_000 * number, prompt),) if isinstance(prompt, int) else prompt
    r = Req(Request(name, runs, max_new, **own), config)
    r.max_new_tokens = max_new
    for k in range(out):
        r.append(5_000_000 + 1000 * number + k)
    r.fill_len = r.num_tokens
    return r


class Room:
    """An adder over an empty pool, unless told otherwise."""

    def __init__(self, running: Any = (), ratio: float = 0.5, **knobs: Any) -> None:
        self.config = Config(**{"max_total_tokens": 1000, **knobs})
        self.kv = KVCache(self.config, Log())
        made = [req(self.config, f"run{i}", *row) for i, row in enumerate(running)]
        self.adder = Adder(self.config, self.kv, made, ratio)

    def add(self, name: str, prompt: Any, max_new: int = 16, **own: Any) -> tuple[Verdict, Any]:
        r = req(self.config, name, prompt, max_new, **own)
        self.kv.match(r, r.fill_len - 1)
        verdict = self.adder.add(r)
        return verdict, r.extend_range if r in self.adder.can_run else None


class TestChunked:
    """add_chunked is never refused."""

    @rule(
        flag="chunked_prefill_size",
        default=None,
        source=f"{POLICY_FILE}:997-1046",
        ours="kvsched.sglang.adder.PrefillAdder.add_chunked",
    )
    def test_a_chunk_with_no_memory_left_is_computed_in_full(self) -> None:
        """Where memory is short a chunk gets what there is; where there is none, all it asks."""
        for taken, tokens in ((940, 60), (1000, 64)):
            room = Room(chunked_prefill_size=64)
            room.kv.pool.take(taken)
            r = req(room.config, "A", 100)
            assert room.adder.add_chunked(r)
            assert r.extend_range == (0, tokens)

    def test_the_memory_it_gets_is_cut_to_whole_tokens(self) -> None:
        room = Room([(10, 101)], ratio=0.5, chunked_prefill_size=64)
        room.kv.pool.take(900)
        r = req(room.config, "A", 100)
        room.adder.add_chunked(r)
        assert room.adder.total_offset == 50.5 + r.extend_range[1] + 1
        assert r.extend_range == (0, 49)

    def test_exactly_the_chunk_is_the_last(self) -> None:
        room = Room(chunked_prefill_size=64)
        assert not room.adder.add_chunked(req(room.config, "A", 64))
        room = Room(chunked_prefill_size=64)
        assert room.adder.add_chunked(req(room.config, "A", 65))

    def test_in_a_loop_it_goes_before_whoever_the_policy_puts_first(self, drive: Any) -> None:
        run = drive(max_total_tokens=400, chunked_prefill_size=16, schedule_policy="lof")
        run.add("A", 40, 4)
        run.step()
        run.add("B", 10, 100)
        it = run.step()
        assert [event.id for event in it.of(Continued)] == ["A"]
        assert it.rows == [("A", 16, 32)]
        assert run.step().rows == [("A", 32, 40), ("B", 0, 8)]


class TestBudgets:
    """The adder's rarer tests."""

    def test_prefill_max_counts_the_admitted(self) -> None:
        room = Room(prefill_max_requests=2)
        assert [room.add(name, 8)[0] for name in "AB"] == [Verdict.CONTINUE] * 2
        assert room.add("C", 8) == (Verdict.OTHER, None)
        assert room.adder.denial is not None
        assert (room.adder.denial.test, room.adder.denial.asked) == (POLICY, 3)

    def test_prefill_max_holds_for_requests_that_ignore_eos_too(self) -> None:
        room = Room(prefill_max_requests=1, disable_radix_cache=True)
        assert room.add("A", 8, ignore_eos=True)[0] is Verdict.CONTINUE
        assert room.add("B", 8, ignore_eos=True) == (Verdict.OTHER, None)

    @pytest.mark.parametrize(
        ("chunk", "extent"), [(100, (0, 64)), (64, (0, 64)), (63, None), (128, (0, 128))]
    )
    def test_a_truncated_prompt_is_a_multiple_of_the_alignment(
        self, chunk: int, extent: Any
    ) -> None:
        room = Room(chunked_prefill_size=chunk, truncation_align_size=64)
        verdict, got = room.add("A", 400)
        assert got == extent
        assert (verdict is Verdict.OTHER) == (extent is None or chunk - (extent[1]) <= 0)

    def test_memory_of_this_pass_can_be_the_one_that_is_out(self) -> None:
        """rem_cur <= 0 alone, where running requests are expected to give tokens back."""
        room = Room([(10, 4, 16)], ratio=1.0, max_total_tokens=40)
        assert room.adder.total_left == 52
        room.adder.deduct(40, 0)
        assert room.adder.total_left > 0
        assert room.adder.current_left <= 0
        assert room.adder.state() is Verdict.NO_TOKEN

    def test_memory_that_is_just_spoken_for_ends_the_pass(self) -> None:
        room = Room(max_total_tokens=40)
        room.adder.deduct(30, 9)
        assert (room.adder.total_left, room.adder.current_left) == (0, 9)
        assert room.adder.state() is Verdict.NO_TOKEN

    @rule(
        flag="page_size",
        default=1,
        source=f"{POLICY_FILE}:1236-1237",
        ours="kvsched.sglang.adder.PrefillAdder.refuses",
    )
    def test_what_exactly_fills_the_memory_is_refused(self) -> None:
        """The memory test is strict: 8 prompt tokens, 16 outputs and a page need 26."""
        assert Room(max_total_tokens=25).add("A", 8)[0] is Verdict.NO_TOKEN
        assert Room(max_total_tokens=26).add("A", 8)[1] == (0, 8)

    def test_a_prefix_counts_as_free_until_it_is_locked(self) -> None:
        """A request can pass the first test by the very tokens that it then locks."""
        room = Room(max_total_tokens=30)
        assert room.kv.tree is not None
        room.kv.tree.insert(((0, 20),), room.kv.pool.take(20))
        free = room.adder.total_left
        assert room.add("A", ((0, 24),)) == (Verdict.NO_TOKEN, None)
        assert (room.adder.total_left, room.kv.protected) == (free, 0)

    def test_a_resumed_request_is_tested_for_less_than_it_is_charged(self) -> None:
        room = Room(max_total_tokens=1000)
        r = req(room.config, "A", 10, max_new=100, out=90)
        room.kv.match(r, r.fill_len - 1)
        assert room.adder.wants(r) == 100 + 10 + 1
        room.adder.add(r)
        assert room.adder.total_offset == 100 + 100 + 1

    def test_only_the_first_may_be_longer_than_the_input_budget(self) -> None:
        room = Room(max_prefill_tokens=20)
        assert room.add("A", 19)[0] is Verdict.CONTINUE
        assert room.add("B", 1) == (Verdict.OTHER, None)
        assert room.adder.denial is not None
        assert (room.adder.denial.test, room.adder.denial.asked) == (TOKEN, 2)
        assert Room(max_prefill_tokens=20).add("A", 500)[1] == (0, 500)


class TestIgnoreEos:
    """The played-out future."""

    def adder(self, pool: int, *running: Any) -> Room:
        return Room(running, disable_radix_cache=True, max_total_tokens=pool)

    @rule(
        flag="disable_radix_cache",
        default=False,
        source=f"{POLICY_FILE}:1075-1082",
        ours="kvsched.sglang.ignore_eos.Adder.add_ignore_eos",
    )
    def test_a_prompt_that_exactly_fills_the_memory_passes_the_first_test(self) -> None:
        """Here equal is not refused; only the future is played out strictly."""
        room = self.adder(20)
        assert room.add("A", 20, 1, ignore_eos=True) == (Verdict.NO_TOKEN, None)
        assert room.adder.endings is not None, "the second test refused"
        room = self.adder(20)
        assert room.add("A", 21, 1, ignore_eos=True) == (Verdict.NO_TOKEN, None)
        assert room.adder.endings is None, "the first test refused"

    def test_the_future_is_strict(self) -> None:
        """8 prompt tokens, 10 outputs and one more token must leave something."""
        assert self.adder(19).add("A", 8, 10, ignore_eos=True)[0] is Verdict.NO_TOKEN
        assert self.adder(20).add("A", 8, 10, ignore_eos=True)[1] == (0, 8)

    def test_endings_begin_with_the_newcomer_then_who_runs_then_who_was_admitted(self) -> None:
        """Of equal times the newcomer stands first, then the running; the sort is stable."""
        room = Room([(11, 20, 0)], ratio=1.0, disable_radix_cache=True)
        room.add("A", 12, 20)
        assert room.adder.endings is None
        room.add("B", 13, 20, ignore_eos=True)
        assert room.adder.endings == [(20, 13), (20, 11), (20, 12)]

    def test_of_equal_endings_the_newest_stands_first(self) -> None:
        running = [(11, 10, 0), (12, 20, 0), (13, 30, 0)]
        room = Room(running, ratio=1.0, disable_radix_cache=True)
        room.add("A", 8, 5, ignore_eos=True)
        room.add("B", 8, 20, ignore_eos=True)
        assert room.adder.endings == [(5, 8), (10, 11), (20, 8), (20, 12), (30, 13)]

    @rule(
        flag="disable_radix_cache",
        default=False,
        source=f"{POLICY_FILE}:1098-1103",
        ours="kvsched.sglang.ignore_eos.Adder",
    )
    def test_the_latest_ending_goes_before_the_last(self) -> None:
        """A quirk: one that ends after all others is put before the last of them."""
        room = self.adder(1000)
        for name, out in (("A", 10), ("B", 20), ("C", 30), ("D", 15)):
            room.add(name, 8, out, ignore_eos=True)
        assert room.adder.endings is not None
        assert [left for left, _ in room.adder.endings] == [15, 20, 30, 10]

    def test_a_refused_request_stays_among_the_endings(self) -> None:
        room = self.adder(100)
        room.add("A", 8, 10, ignore_eos=True)
        assert room.add("B", 8, 90, ignore_eos=True) == (Verdict.NO_TOKEN, None)
        assert room.adder.endings is not None
        assert (90, 8) in room.adder.endings
        assert room.adder.denial is not None
        assert room.adder.denial.test == RESERVATION
        assert room.adder.denial.asked > room.adder.denial.limit


class TestRadix:
    """Stamps, ties and short keys."""

    def tree(self, *prefixes: Any, page: int = 1) -> RadixTree:
        tree = RadixTree(page)
        for prefix in prefixes:
            tree.insert(prefix)
        return tree

    def child(self, node: Node, first: int) -> Node:
        return next(c for c in node.children.values() if c.key[0][0] == first)

    def test_a_walk_gives_every_node_on_it_one_stamp(self) -> None:
        tree = self.tree(((0, 10),), ((0, 4), (50, 4)))
        _, node = tree.match(((0, 10),))
        assert node.parent is not None
        assert node.last_access == node.parent.last_access == tree.root.last_access

    @rule(flag="", default=None, source=f"{RADIX}:704-727")
    def test_the_upper_half_of_a_split_is_younger_than_the_lower(self) -> None:
        """A split's new parent is stamped later than the walk; its child keeps the walk's stamp."""
        tree = self.tree(((0, 10),))
        matched, upper = tree.match(((0, 6),))
        (lower,) = upper.children.values()
        assert (matched, upper.length, lower.length) == (6, 6, 4)
        assert upper.last_access > lower.last_access == tree.root.last_access

    def test_a_new_leaf_is_younger_than_the_walk_to_it(self) -> None:
        tree = self.tree(((0, 4),), ((0, 8),))
        upper = self.child(tree.root, 0)
        (leaf,) = upper.children.values()
        assert leaf.last_access > upper.last_access

    @pytest.mark.parametrize("count", [1, 15])
    def test_less_than_a_page_touches_nothing(self, count: int) -> None:
        tree = self.tree(((0, 32),), page=16)
        before = tree.root.last_access
        assert tree.match(((0, count),)) == (0, tree.root)
        assert tree.insert(((0, count),)) == 0
        assert tree.root.last_access == before
        assert tree.match(((0, 17),))[0] == 16
        assert tree.root.last_access > before

    def test_pages_are_compared_as_wholes(self) -> None:
        tree = self.tree(((0, 32),), ((0, 20), (90, 12)), page=16)
        assert tree.match(((0, 31), (7, 9)))[0] == 16
        assert len(self.child(tree.root, 0).children) == 2

    @rule(flag="radix_eviction_policy", default="lru", source=f"{RADIX}:592-620")
    def test_whole_leaves_go_least_recently_touched_first(self) -> None:
        """Eviction takes whole leaves; a parent left alone joins them, by its own stamp."""
        tree = RadixTree()
        tree.insert(((0, 4),), range(1, 5))
        tree.insert(((0, 4), (50, 4)), range(1, 9))
        tree.insert(((100, 4),), range(11, 15))
        tree.match(((0, 4), (50, 4)))
        assert tree.evict(1) == [11, 12, 13, 14]
        assert tree.evict(5) == [5, 6, 7, 8, 1, 2, 3, 4]
        assert tree.evictable == 0

    def test_what_is_locked_stays_and_its_parent_with_it(self) -> None:
        tree = RadixTree()
        tree.insert(((0, 4),), range(1, 5))
        tree.insert(((0, 4), (50, 4)), range(1, 9))
        _, leaf = tree.match(((0, 4), (50, 4)))
        tree.lock(leaf)
        assert (tree.evictable, tree.protected, tree.evict(100)) == (0, 8, [])
        tree.unlock(leaf)
        assert (tree.evictable, tree.protected) == (8, 0)
        assert len(tree.evict(100)) == 8

    def test_a_lock_is_split_with_its_node(self) -> None:
        tree = self.tree(((0, 10),))
        _, node = tree.match(((0, 10),))
        tree.lock(node)
        tree.match(((0, 4),))
        assert (tree.evictable, tree.protected) == (0, 10)
        tree.unlock(node)
        assert (tree.evictable, tree.protected) == (10, 0)

    def test_a_split_child_keeps_its_place_among_its_siblings(self) -> None:
        tree = self.tree(((0, 8),), ((100, 8),), ((0, 4), (50, 4)))
        assert [child.key[0][0] for child in tree.root.children.values()] == [0, 100]

    @rule(flag="", default=None, source=f"{SRT}/managers/schedule_batch.py:1411-1416")
    def test_one_token_is_left_to_compute(self, drive: Any) -> None:
        """A prompt that is cached as a whole is matched but for its last token."""
        run = drive()
        run.add("A", ((0, 16),), 2)
        run.finish()
        run.add("B", ((0, 16),), 2)
        it = run.step()
        assert it.of(Offer)[0].extent == (15, 16)
        assert [(event.computed, event.tokens) for event in it.admitted] == [(15, 1)]

    def test_at_a_page_of_sixteen_a_whole_page_is_computed_again(self, drive: Any) -> None:
        run = drive(max_total_tokens=160, page_size=16)
        run.add("A", ((0, 32),), 2)
        run.finish()
        run.add("B", ((0, 32),), 2)
        assert run.step().of(Offer)[0].extent == (16, 32)


class TestPolicy:
    """Thresholds and the last components of sort keys."""

    def sort(self, policy: str, reqs: list[Req], config: Config, running: Any = ()) -> Any:
        asked = SchedulePolicy(config, KVCache(config, Log()), Random(0))
        queue = list(reqs)
        asked.sort(queue, running)
        return asked, [r.id for r in queue]

    def config(self, policy: str, **knobs: Any) -> Config:
        return Config(100_000, schedule_policy=policy, **knobs)

    @rule(
        flag="schedule_policy",
        default="fcfs",
        source=f"{POLICY_FILE}:314-371",
        ours="kvsched.sglang.policy.SchedulePolicy.match_prefixes",
    )
    @pytest.mark.parametrize(("shared", "late"), [(31, set()), (32, {"B"}), (33, {"B"})])
    def test_thirty_two_shared_tokens_put_the_second_last(self, shared: int, late: Any) -> None:
        """LPM lets the first of several with the same uncached prefix of 32 tokens cache it."""
        config = self.config("lpm")
        reqs = [
            req(config, "A", ((0, shared), (5_000, 10))),
            req(config, "B", ((0, shared), (6_000, 10))),
            req(config, "C", 50),
        ]
        asked, order = self.sort("lpm", reqs, config)
        assert asked.deprioritized == late
        assert order == (["A", "C", "B"] if late else ["A", "B", "C"])

    def test_the_side_tree_compares_tokens_also_where_pages_are_larger(self) -> None:
        config = self.config("lpm", page_size=64)
        reqs = [req(config, n, ((0, 40), (5_000 + i, 1))) for i, n in enumerate("AB")]
        assert self.sort("lpm", reqs, config)[0].deprioritized == {"B"}

    def test_who_is_put_last_does_not_enter_the_side_tree(self) -> None:
        """C shares 40 tokens with B, but only 10 with A."""
        config = self.config("lpm")
        a = req(config, "A", ((0, 40), (100, 60)))
        b = req(config, "B", ((0, 40), (200, 60)))
        c = req(config, "C", ((200, 60),))
        d = req(config, "D", ((0, 40), (200, 60)))
        asked, _ = self.sort("lpm", [a, b, c, d], config)
        assert asked.deprioritized == {"B", "D"}

    @pytest.mark.parametrize(("count", "active"), [(128, "lpm"), (129, "fcfs")])
    def test_the_cliff(self, count: int, active: str) -> None:
        config = self.config("lpm")
        reqs = [req(config, f"r{i}", 4) for i in range(count)]
        asked, order = self.sort("lpm", reqs, config)
        assert asked.active(reqs) == active
        assert order == [r.id for r in reqs]

    def test_above_the_cliff_nothing_is_looked_up(self) -> None:
        config = self.config("lpm")
        asked = SchedulePolicy(config, KVCache(config, Log()), Random(0))
        assert asked.kv.tree is not None
        asked.kv.tree.insert(((0, 50),), asked.kv.pool.take(50))
        reqs = [req(config, f"r{i}", ((0, 40),)) for i in range(129)]
        asked.sort(reqs, ())
        assert {r.num_matched_prefix_tokens for r in reqs} == {0}
        asked.sort(reqs[:128], ())
        assert {r.num_matched_prefix_tokens for r in reqs[:128]} == {39}

    @rule(
        flag="schedule_policy",
        default="fcfs",
        source=f"{POLICY_FILE}:443-470",
        ours="kvsched.sglang.policy.SchedulePolicy.routing_key",
    )
    def test_keys_of_equal_frequency_go_by_name(self) -> None:
        """routing-key orders by frequency in the running batch, then by the key itself."""
        config = self.config("routing-key")
        running = [req(config, f"run{k}", 4, routing_key=k) for k in ("b", "a", "c", "c", "")]
        keys = {"1": "b", "2": "a", "3": "z", "4": None, "5": "c", "6": "y"}
        reqs = [req(config, name, 4, routing_key=key) for name, key in keys.items()]
        _, order = self.sort("routing-key", reqs, config, running)
        assert order == ["5", "2", "1", "4", "6", "3"]

    def test_finished_requests_that_linger_count_by_their_key(self) -> None:
        config = self.config("routing-key")
        done = req(config, "done", 4, routing_key="b")
        done.finished = "FINISH_LENGTH"
        reqs = [req(config, "1", 4, routing_key="a"), req(config, "2", 4, routing_key="b")]
        assert self.sort("routing-key", reqs, config, [done])[1] == ["2", "1"]

    def test_without_a_radix_cache_every_prefix_is_empty(self) -> None:
        for policy in ("lpm", "dfs-weight"):
            config = self.config(policy, disable_radix_cache=True)
            reqs = [req(config, name, 40) for name in "BA"]
            assert self.sort(policy, reqs, config)[1] == ["B", "A"]


class TestTimeout:
    """The waiting timeout."""

    @rule(
        flag="SGLANG_REQ_WAITING_TIMEOUT",
        default=-1,
        source=f"{SRT}/managers/scheduler.py:2816-2844",
        ours="kvsched.sglang.Scheduler.timed_out",
    )
    def test_waiting_exactly_as_long_as_allowed_is_not_too_long(self, drive: Any) -> None:
        """A request is turned away once it has waited strictly longer than the timeout."""
        run = drive(req_waiting_timeout=5, max_total_tokens=16)
        r = run.add("A", 15, 5)
        run.step(now=101)
        assert not run.step(now=106).finished
        (ended,) = run.step(now=107).finished
        assert (ended.id, ended.status, ended.reason) == (
            "A",
            "FINISH_ABORT",
            "Request waiting timeout reached.",
        )
        assert r.abort_sent

    def test_a_retraction_starts_the_time_again(self, drive: Any) -> None:
        run = drive(req_waiting_timeout=30, max_total_tokens=40)
        for name in "AB":
            run.add(name, 8, 20)
        iterations = run.steps(60)
        (at,) = [it.step for it in iterations if it.preempted]
        assert at > 10
        assert not [
            event for it in iterations for event in it.finished if event.status == "FINISH_ABORT"
        ]
        assert run.reqs["B"].wait_queue_entry_time == at

    def test_time_zero_is_a_time(self, drive: Any) -> None:
        run = drive(req_waiting_timeout=5, max_total_tokens=16)
        run.add("A", 15, 5)
        assert not run.step(now=0).finished
        assert run.step(now=6).finished

    @pytest.mark.parametrize("limit", [0, -1, -100])
    def test_it_is_off_unless_positive(self, drive: Any, limit: int) -> None:
        run = drive(req_waiting_timeout=limit, max_total_tokens=16)
        run.add("A", 15, 5)
        run.step(now=0)
        assert not run.step(now=10**9).finished

    @pytest.mark.parametrize("later", [[], [10**9]])
    def test_a_run_that_stands_still_waits_for_the_timeout_and_no_longer(
        self, later: list[int]
    ) -> None:
        """Nothing fits, the next arrival is far off or never comes, the time is up in between."""
        log = Log()
        config = Config(16, req_waiting_timeout=5000)
        times = [0, 40, *later]
        events = [Arrival(at, Request(f"r{at}", ((at, 15),), 5, at)) for at in times]
        outcome = run(Scheduler(config, log), events, log)
        ends = {log.times[entry.step]: entry.event.id for entry in log.of(Finish)}
        assert ends == {at + 5001: f"r{at}" for at in times}
        assert outcome.verdict == "all_done"

    def test_a_chunked_request_is_not_in_the_queue(self, drive: Any) -> None:
        run = drive(max_total_tokens=100, req_waiting_timeout=1, chunked_prefill_size=4)
        run.add("A", 40, 2)
        for now in range(0, 100, 10):
            assert not run.step(now=now).finished


class TestOutOfMemory:
    """The last request of a batch, inside a loop."""

    def test_it_is_not_queued_again_and_its_memory_is_free(self, drive: Any) -> None:
        run = drive(max_total_tokens=32, disable_radix_cache=True)
        run.add("A", 8, 16)
        run.steps(3)
        ballast = len(run.scheduler.kv.pool)
        run.scheduler.kv.pool.take(ballast)
        (ended,) = run.step().finished
        assert (ended.id, ended.reason) == ("A", OUT_OF_MEMORY)
        assert run.scheduler.waiting == []
        assert run.scheduler.slots_taken == 0
        assert len(run.scheduler.kv.pool) == 32 - ballast


class TestPreemption:
    """What a preemption evicts, and what an untried request is taken to need."""

    KNOBS = {  # noqa: RUF012
        "enable_priority_scheduling": True,
        "schedule_low_priority_values_first": True,
        "priority_scheduling_preemption_threshold": 0,
    }

    def test_each_victim_makes_room_for_those_not_yet_gone(self, drive: Any) -> None:
        """Of four runners two go: room for 3 requests, then for 2."""
        run = drive(max_total_tokens=400, max_running_requests=4, **self.KNOBS)
        for i, name in enumerate("ABCD"):
            run.add(name, 8, 90, priority=10 + i)
        run.steps(3)
        assert len(run.scheduler.running) == 4
        asked: list[int] = []
        room = run.scheduler.room_for
        run.scheduler.room_for = lambda remaining: asked.append(remaining) or room(remaining)
        run.scheduler.ratio.current = 1.0
        run.add("E", 8, 130, priority=0)
        it = run.step()
        (displaced,) = it.of(Displace)
        assert displaced.victims == ("C", "D")
        assert asked == [3, 2]

    @pytest.mark.parametrize(("more", "victims"), [(0, ["C"]), (1, ["C", "B"])])
    def test_no_more_go_than_it_takes(self, drive: Any, more: int, victims: list[str]) -> None:
        """What the first victim was expected to need is exactly what the newcomer lacks."""
        run = drive(max_total_tokens=400, **self.KNOBS)
        for i, name in enumerate("ABC"):
            run.add(name, 8, 90, priority=10 + i)
        run.steps(3)
        assert len(run.scheduler.running) == 3
        run.scheduler.ratio.current = 1.0
        new = run.add("N", 8, 1, priority=0)
        adder = run.scheduler.make_adder()
        lacks = adder.reserve(run.reqs["C"]) + more
        new.max_new_tokens = int(adder.total_left + lacks)
        assert run.scheduler.shortfall(new, adder) == lacks
        assert [r.id for r in run.scheduler.victims_for(new, adder)] == victims

    @rule(
        flag="enable_priority_scheduling",
        default=False,
        source=f"{POLICY_FILE}:1459-1464",
        ours="kvsched.sglang.Scheduler.shortfall",
    )
    def test_a_request_never_tried_counts_no_input_and_a_victim_its_last_length(
        self, drive: Any
    ) -> None:
        """The newcomer's shortfall uses the length of its last attempt, 0 if there was none."""
        run = drive(max_total_tokens=400, **self.KNOBS)
        r = run.add("A", 100, 10)
        adder = run.scheduler.make_adder()
        assert run.scheduler.shortfall(r, adder) == 0 - 0 + 10 - 400
        run.steps(3)
        assert r.num_output_tokens == 3
        run.scheduler.running.remove(r)
        run.scheduler.retract(r, 0, Denial("A", "slot", 1))
        assert (r.fill_len, r.prefix_len) == (100, 0)
        assert run.scheduler.shortfall(r, run.scheduler.make_adder()) == 100 - 0 + 10 - 400

    @rule(
        flag="priority_scheduling_preemption_threshold",
        default=10,
        source=f"{POLICY_FILE}:1465-1477",
        ours="kvsched.sglang.Scheduler.outranks",
    )
    @pytest.mark.parametrize(("better", "preempts"), [(10, False), (11, True)])
    def test_exactly_the_threshold_better_is_not_enough(
        self, drive: Any, better: int, preempts: bool
    ) -> None:
        """A newcomer must be better by more than the threshold."""
        knobs = {**self.KNOBS, "priority_scheduling_preemption_threshold": 10}
        run = drive(max_running_requests=1, **knobs)
        run.add("A", 8, 20, priority=20)
        run.steps(2)
        run.add("B", 8, 20, priority=20 - better)
        it = run.step()
        assert [event.victims for event in it.of(Displace)] == [("A",) if preempts else ()]

    def lossy(self, drive: Any, **knobs: Any) -> Any:
        """B takes A's place, and is then refused for the prompt that was not counted."""
        run = drive(max_total_tokens=100, max_running_requests=1, **self.KNOBS, **knobs)
        run.add("A", 30, 20, priority=9)
        run.steps(3)
        run.add("B", 90, 20, priority=0)
        return run

    @rule(
        flag="enable_priority_scheduling",
        default=False,
        source=f"{SRT}/managers/scheduler.py:3368-3377",
        ours="kvsched.sglang.Scheduler.after_preempting_for_nobody",
    )
    def test_0_5_18_loses_who_was_preempted_for_nobody(self, drive: Any) -> None:
        """A preempted request whose place nobody took is in no container any more."""
        run = self.lossy(drive)
        run.reqs["B"].max_new_tokens = 20  # the cut at arrival would let it fit
        iterations = run.steps(3)
        assert [event.ids for it in iterations for event in it.of(Lose)] == [("A",)]
        assert iterations[-1].live["A"][0] == "LOST"
        assert iterations[-1].waiting == ["B"]
        assert run.scheduler.has_work()

    def test_0_5_22_puts_it_back(self, drive: Any) -> None:
        run = self.lossy(drive, fix22=True)
        run.reqs["B"].max_new_tokens = 20
        iterations = run.steps(2)
        assert iterations[0].waiting == ["B", "A"]
        assert not [event for it in iterations for event in it.of(Lose)]
