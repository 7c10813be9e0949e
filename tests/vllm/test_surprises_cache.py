"""What vLLM 0.28.0's prefix cache and free queue do that the usual account leaves out."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from kvsched.contract import WHOLE_SEQUENCE, Denial
from kvsched.log import Admit, Allocate, Cache, Evict, Finish, Free, Preempt, Resume

rule = partial(pytest.mark.rule, engine="vLLM", version="0.28.0")
CACHED = partial(rule, flag="enable_prefix_caching", default=True)
CORE = "vllm/v1/core"
SHARED = (700, 12)  # three blocks of four


def hits(step: Any, name: str) -> int:
    """Tokens found in the cache at this step's admission of the request."""
    return next(event.computed for event in step.of(Admit) if event.id == name)


class TestHashedWhenScheduled:
    """A block gets its hash when its pass is scheduled, before the KV exists."""

    @CACHED(source=f"{CORE}/kv_cache_manager.py:562-566")
    def test_a_request_of_the_same_step_hits_blocks_not_computed_yet(self, drive: Any) -> None:
        """Full blocks are registered when scheduled: a later admission of the step hits them."""
        run = drive()
        run.add("A", [SHARED, (1, 1)])
        run.add("B", [SHARED, (9, 1)])
        step = run.step()
        assert step.scheduled == {"A": 13, "B": 1}
        assert step.blocks == {"A": [1, 2, 3, 4], "B": [1, 2, 3, 5]}

    @CACHED(source="vllm/v1/core/sched/scheduler.py:659-666")
    def test_a_pass_taken_back_leaves_a_hash_on_blocks_nobody_wrote(self, case: Any) -> None:
        """A refunded victim's blocks keep their hashes: a later hit finds KV never computed."""
        steps = case("prio_phantom_hash").steps
        assert [(e.id, e.refunded, e.tokens_lost) for e in steps[3].of(Preempt)] == [("L", 8, 24)]
        assert hits(steps[6], "L") == 28

    @CACHED(source=f"{CORE}/single_type_kv_cache_manager.py:424")
    def test_twins_in_lockstep_keep_two_copies_of_one_block(self, drive: Any) -> None:
        """Blocks of equal content are not merged; a lookup takes the copy registered first."""
        run = drive(num_gpu_blocks=20, long_prefill_token_threshold=4)
        run.add("x", [SHARED, (1, 1)])
        run.add("y", [SHARED, (1, 1)])
        first, second = run.steps(2)
        assert (first.blocks["x"], first.blocks["y"]) == ([1], [1, 2])
        assert (second.blocks["x"], second.blocks["y"]) == ([3], [4])
        run.add("z", [SHARED, (9, 1)])
        found = next(e for e in run.step().of(Allocate) if e.id == "z")
        assert found.hits == (1, 2, 4)


class TestLookup:
    """What is found, for whom, and what it costs."""

    @CACHED(source=f"{CORE}/kv_cache_manager.py:232")
    @pytest.mark.parametrize(("prompt", "found"), [(16, 12), (17, 16), (4, 0), (5, 4)])
    def test_the_last_token_is_always_computed(self, drive: Any, prompt: int, found: int) -> None:
        """At most floor((tokens - 1) / block size) blocks hit: the last token is recomputed."""
        run = drive(num_gpu_blocks=20)
        run.add("A", [(700, 20)])
        run.add("B", [(700, prompt)])
        assert hits(run.step(), "B") == found

    def test_the_walk_stops_at_the_first_block_not_found(self, drive: Any) -> None:
        run = drive(num_gpu_blocks=20)
        run.add("A", [(700, 13)])
        run.add("B", [(700, 4), (0, 4), (708, 5)])
        assert hits(run.step(), "B") == 4

    def test_a_block_is_known_by_all_tokens_before_it(self, drive: Any) -> None:
        """Equal content after another prefix is another block."""
        run = drive(num_gpu_blocks=20)
        run.add("A", [(700, 4), (800, 5)])
        run.add("B", [(900, 4), (950, 5)])
        run.add("C", [(700, 4), (950, 5)])
        assert hits(run.step(), "C") == 4

    def test_outputs_are_part_of_the_identity(self, drive: Any) -> None:
        run = drive()
        run.add("A", [(700, 6)], out=7)
        run.finish()
        run.add("B", [(700, 6), (1_000_000, 7)])
        assert hits(run.step(), "B") == 12

    @CACHED(source=f"{CORE}/single_type_kv_cache_manager.py:220-227")
    def test_hit_blocks_nobody_holds_count_as_demand(self, drive: Any) -> None:
        """Cached blocks in the free queue are demand: taking them removes them from it."""
        run = drive()
        run.add("A", [(700, 28)], out=1)
        run.step()
        run.add("C", 3)
        run.add("B", [(700, 29)])
        step = run.step()
        assert step.scheduled == {"C": 3}
        assert step.denial == Denial("B", WHOLE_SEQUENCE, need=1, cached=7, free=7, have=7)

    def test_hit_blocks_somebody_holds_are_free_of_charge(self, drive: Any) -> None:
        run = drive()
        run.add("A", [(700, 28)])
        run.add("B", [(700, 29)])
        step = run.step()
        assert (hits(step, "B"), step.free) == (28, 0)

    def test_hits_are_taken_before_new_blocks_are_popped(self, drive: Any) -> None:
        """Else the hit block at the head of the free queue would be handed out as a new one."""
        run = drive()
        run.add("A", [(700, 9)], out=1)
        run.step()
        run.add("C", 24, out=1)
        run.step()
        assert list(run.scheduler.snapshot(run.plan).free)[:3] == [2, 1, 8]
        run.add("B", [(700, 8), (1, 1)])
        assert run.step().blocks == {"B": [1, 2, 8]}

    def test_a_denied_attempt_changes_nothing(self, drive: Any) -> None:
        run = drive()
        run.add("A", [(700, 20)], out=2)
        run.step()
        run.add("B", [(700, 12), (1, 30)])
        before, denied = run.step(), run.scheduler.snapshot(run.plan)
        assert before.denial is not None
        run.abort("B")
        run.step()
        after = run.scheduler.snapshot(run.plan)
        assert list(after.free) == list(denied.free)

    def test_with_caching_off_nothing_is_hashed_or_found(self, drive: Any) -> None:
        run = drive(enable_prefix_caching=False)
        run.add("A", [SHARED, (1, 1)])
        run.add("B", [SHARED, (9, 1)])
        step = run.step()
        assert (hits(step, "B"), step.cached) == (0, 0)


class TestFreeQueue:
    """Who gives back what, where it goes, and who gets it next."""

    @CACHED(source=(f"{CORE}/block_pool.py:719", f"{CORE}/single_type_kv_cache_manager.py:497-516"))
    def test_unhashed_blocks_go_to_the_front_hashed_ones_behind(self, drive: Any) -> None:
        """Blocks without a hash are reused first; hashed ones queue at the end, tail first."""
        run = drive()
        run.add("A", 10, out=1)
        assert run.step().of(Free) == [Free("A", front=(3,), back=(2, 1))]
        assert list(run.scheduler.snapshot(run.plan).free) == [3, 4, 5, 6, 7, 8, 2, 1]

    @CACHED(source=f"{CORE}/block_pool.py:719")
    def test_with_caching_off_the_pool_is_a_stack(self, drive: Any) -> None:
        """With caching off, the blocks freed last are handed out first, tail first."""
        run = drive(enable_prefix_caching=False)
        run.add("A", 10, out=1)
        assert run.step().of(Free) == [Free("A", front=(3, 2, 1), back=())]
        run.add("B", 5)
        assert run.step().blocks == {"B": [3, 2]}

    @rule(flag="", default=None, source="vllm/v1/core/sched/scheduler.py:1733")
    def test_who_finishes_first_in_a_step_decides_later_block_ids(self, drive: Any) -> None:
        """Within a step requests end in scheduling order, which orders the free queue."""
        run = drive()
        run.add("A", 6, out=1)
        run.add("B", 6, out=1)
        assert [event.id for event in run.step().of(Finish)] == ["A", "B"]
        assert list(run.scheduler.snapshot(run.plan).free) == [4, 2, 5, 6, 7, 8, 1, 3]

    def test_taking_a_cached_block_erases_it(self, drive: Any) -> None:
        run = drive()
        run.add("A", [(700, 9)], out=1)
        run.step()
        run.add("B", 28)
        taken = run.step()
        assert [(e.by, e.blocks) for e in taken.of(Evict)] == [("B", (2,))]
        assert taken.erased == [{"A": 1}]
        run.abort("B")
        run.add("C", [(700, 9)])
        assert hits(run.step(), "C") == 4

    def test_a_victim_finds_its_own_blocks_again(self, drive: Any) -> None:
        run = drive()
        run.add("A", 7, out=3)
        run.add("B", 24, out=4)
        steps = run.finish()
        back = next(event for step in steps for event in step.of(Resume))
        assert (back.id, back.own_hits, back.shared_hits) == ("B", 20, 0)  # A took the sixth

    def test_what_a_victim_had_from_others_stays_shared(self, drive: Any) -> None:
        run = drive()
        run.add("A", [(700, 8), (1, 7)], out=12)
        run.add("B", [(700, 8), (50, 8)], out=12)
        run.finish()
        back = run.log.of(Resume)[0].event
        assert (back.id, back.shared_hits) == ("B", 8)
        assert back.own_hits == back.computed - 8 > 0

    def test_a_victim_that_lost_its_blocks_fills_and_names_new_ones(self, drive: Any) -> None:
        run = drive()
        run.add("A", 15)
        run.add("B", [(700, 15)], out=4)
        run.finish()
        run.add("C", [(700, 16)])
        back = run.log.of(Resume)[0].event
        assert (back.id, back.computed) == ("B", 0)
        assert hits(run.step(), "C") == 12

    def test_a_hit_block_stays_named_after_who_filled_it(self, drive: Any) -> None:
        run = drive()
        run.add("A", [SHARED, (1, 4)])
        run.add("B", [SHARED, (50, 5)])
        assert run.step().of(Cache) == [Cache("A", (1, 2, 3, 4)), Cache("B", (5,))]

    @rule(flag="", default=None, source=f"{CORE}/sched/utils.py:116")
    @pytest.mark.parametrize(("prompt", "out", "preempts"), [(17, 16, False), (18, 16, True)])
    def test_the_last_token_is_never_written(
        self, drive: Any, prompt: int, out: int, preempts: bool
    ) -> None:
        """P prompt and N output tokens need ceil((P + N - 1) / block size) blocks."""
        run = drive()
        run.add("A", prompt, out)
        steps = run.steps(out)
        assert bool([e for step in steps for e in step.of(Preempt)]) is preempts
        assert run.scheduler.has_work() is preempts
