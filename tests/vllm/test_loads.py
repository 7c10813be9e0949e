"""KV that comes from elsewhere: what a load holds, what is kept back for it, when it counts."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from kvsched.contract import RESERVED, WHOLE_SEQUENCE, Denial
from kvsched.log import Abort, Admit, Cache, Finish, Forget, Load, Preempt, Promote, Reserve
from kvsched.vllm.status import REMOTE

rule = partial(pytest.mark.rule, engine="vLLM", version="0.28.0", flag="", default=None)
SCHEDULER = "vllm/v1/core/sched/scheduler.py"
MANAGER = "vllm/v1/core/kv_cache_manager.py"
GATE_OFF = {"scheduler_reserve_full_isl": False}


def loading(hand: Any, prompt: int = 12, tokens: int = 12, **knobs: Any) -> Any:
    """K's load has begun in step 0, into blocks 1 and following."""
    run = hand(**knobs)
    run.add("K", prompt, out=4, offer=(tokens,))
    run.step()
    return run


class TestWhatALoadHolds:
    """Blocks, and nothing else."""

    @rule(
        source=(f"{SCHEDULER}:1086", f"{SCHEDULER}:930-936"), ours="kvsched.vllm.loads.Loads.begin"
    )
    def test_no_slot_and_no_budget(self, hand: Any, case2: Any) -> None:
        """An asynchronous load takes blocks, but no slot and no token of the budget."""
        run = hand(max_num_seqs=1, max_num_batched_tokens=8)
        run.add("K", 12, offer=(12,))
        run.add("A", 8)
        step = run.step()
        assert (step.scheduled, step.running, step.skipped) == ({"A": 8}, ["A"], ["K"])
        assert step.holders == {"K": 3}
        recorded = case2("kv_no_budget_needed_fcfs")
        begins = next(step for step in recorded.steps if step.of(Load))
        budget = recorded.recording.config["max_num_batched_tokens"]
        assert sum(begins.scheduled.values()) == budget
        assert begins.of(Load)[0].id not in begins.scheduled

    @rule(source=f"{SCHEDULER}:1349")
    def test_a_loading_request_is_never_a_victim(self, hand: Any, case2: Any) -> None:
        """Victims are taken from the running: a load keeps its blocks while a runner loses its."""
        run = loading(hand, 16, 16, policy="priority")
        run.add("A", 15, priority=-1)
        run.steps(2)
        step = run.step()
        assert [(e.id, e.denial.id) for e in step.of(Preempt)] == [("A", "A")]
        assert step.live["K"][:2] == (REMOTE.name, 16)
        recorded = case2("kv_loading_not_victim_priority").steps
        assert {event.id for step in recorded for event in step.of(Preempt)} == {"a"}

    @rule(source=f"{MANAGER}:475-491", flag="scheduler_reserve_full_isl", default=True)
    def test_the_whole_sequence_must_fit_before_a_load_begins(self, hand: Any) -> None:
        """The whole-sequence gate applies to a load too, although it computes nothing yet."""
        run = hand()
        run.add("K", 36, offer=(4,))
        assert run.step().denial == Denial("K", WHOLE_SEQUENCE, need=9, free=8)
        run = hand(**GATE_OFF)
        run.add("K", 36, offer=(4,))
        assert [len(event.blocks) for event in run.step().of(Load)] == [1]

    def test_a_synchronous_load_runs_in_the_same_step(self, hand: Any) -> None:
        run = hand()
        run.add("K", 13, offer=(8, False))
        step = run.step()
        assert (step.scheduled, step.of(Cache)) == ({"K": 5}, [Cache("K", (1, 2, 3))])
        assert step.of(Admit)[0].computed == 8


class TestBlocksKeptBack:
    """``reserved_blocks``: what work in flight still lacks is not given to a new load."""

    @rule(
        source=(f"{SCHEDULER}:1025-1031", f"{MANAGER}:522-530"),
        ours="kvsched.vllm.Scheduler.reserved",
    )
    def test_prefills_in_flight_hold_back_a_load(self, hand: Any, case2: Any) -> None:
        """A load must leave the blocks that prefills and loads in flight still lack."""
        run = hand(long_prefill_token_threshold=8)
        run.add("P", 20)
        run.step()
        run.add("K", 16, offer=(16,))
        step = run.step()
        assert step.denial == Denial("K", RESERVED, need=4, free=4, reserved=1)
        recorded = case2("kv_reserved_priority").steps[1]
        assert recorded.denial == Denial("k", RESERVED, need=12, free=21, reserved=11)

    @rule(
        source=(f"{MANAGER}:475-491", f"{MANAGER}:522-530"),
        flag="scheduler_reserve_full_isl",
        default=True,
    )
    def test_they_do_not_enter_the_gate(self, hand: Any) -> None:
        """Reserved blocks enter the second test only: the whole-sequence gate ignores them."""
        run = hand(long_prefill_token_threshold=8)
        run.add("P", 20)
        run.step()
        run.add("K", 16, offer=(4,))
        step = run.step()
        assert step.of(Reserve) == [Reserve("K", 1)]
        assert [(e.id, len(e.blocks)) for e in step.of(Load)] == [("K", 1)]

    @rule(source=f"{SCHEDULER}:1025")
    @pytest.mark.parametrize("offer", [None, (8, False)], ids=["no load", "synchronous load"])
    def test_they_hold_back_asynchronous_loads_only(self, hand: Any, offer: Any) -> None:
        """Others may take the blocks kept back: ordinary requests and synchronous loads."""
        run = hand(long_prefill_token_threshold=8)
        run.add("P", 20)
        run.step()
        run.add("W", 12, offer=offer)
        step = run.step()
        assert ([event.id for event in step.of(Admit)], step.of(Reserve)) == (["W"], [])

    @rule(source=(f"{SCHEDULER}:1102", f"{SCHEDULER}:2717-2722"))
    def test_a_load_that_failed_keeps_blocks_back_from_itself(self, hand: Any) -> None:
        """A load asked for again counts itself: over half the pool, it waits for ever."""
        run = loading(hand, 20, 20, kv_load_failure_policy="recompute")
        run.world.offers["K"] = run.world.offers["K"]._replace(times=2)
        run.loaded("K", 0)
        run.step()
        for step in run.steps(3):
            assert step.denial == Denial("K", RESERVED, need=5, free=8, reserved=5)
            assert step.holders == {}


class TestWhenALoadCounts:
    """At the promotion, which is part of the walk."""

    @rule(
        source=(f"{MANAGER}:551-553", f"{SCHEDULER}:2752-2755"),
        flag="enable_prefix_caching",
        default=True,
    )
    def test_blocks_are_found_only_after_the_promotion(self, hand: Any, case2: Any) -> None:
        """Loaded blocks get their hashes when the request is promoted, not when they arrive."""
        shared = [(7, 9)]
        run = hand(num_gpu_blocks=20)
        run.add("K", shared, offer=(9,))
        run.loaded("K")
        step = run.step()
        assert (step.cached, step.cached_end, len(step.of(Load))) == (0, 0, 1)
        run.add("B", shared)
        step = run.step()
        assert step.of(Cache)[0] == Cache("K", (1, 2))
        assert {event.id: event.computed for event in step.of(Admit)} == {"K": 8, "B": 8}
        assert case2("kv_not_cached_until_done_priority").stop == "all_done"

    @rule(source=f"{SCHEDULER}:2756-2762")
    def test_a_full_hit_computes_its_last_token_again(self, hand: Any, case2: Any) -> None:
        """If all tokens were loaded, the last one is computed again, to sample the next."""
        run = loading(hand)
        run.loaded("K")
        run.step()
        assert [(e.tokens, e.computed) for e in run.step().of(Admit)] == [(1, 11)]
        recorded = case2("kv_full_hit_fcfs")
        assert any(e.tokens == 1 for step in recorded.steps for e in step.of(Admit))

    @rule(source=f"{SCHEDULER}:2756-2762", ours="kvsched.vllm.loads.Loads.promote")
    def test_a_one_token_prompt_is_loaded_for_ever(self, hand: Any, case2: Any) -> None:
        """A loaded one-token prompt falls back to 0 computed tokens, so it is loaded again."""
        run = hand()
        run.add("K", 1, offer=(1, True, 0, 1000))
        for _ in range(20):
            run.loaded("K")
            run.step()
        assert [load[3] for load in run.world.loads] == [[1]] * 20
        recorded = case2("kv_one_token_fcfs")
        assert sum(len(step.of(Load)) for step in recorded.steps) == 3

    @rule(source=f"{SCHEDULER}:872-877")
    def test_after_a_load_there_is_no_new_lookup(self, hand: Any) -> None:
        """A request that was loaded is not looked up again, however much lies in the cache."""
        run = hand(num_gpu_blocks=20)
        run.add("K", [(7, 17)], offer=(4,))
        run.add("A", [(7, 17)], out=1)
        run.loaded("K")
        run.step()
        step = run.step()
        assert [(e.id, e.computed, e.tokens) for e in step.of(Admit)] == [("K", 4, 13)]

    @rule(source=f"{SCHEDULER}:836-841", ours="kvsched.vllm.loads.Loads.find")
    def test_a_connector_that_cannot_say_yet_is_asked_at_every_walk(self, hand: Any) -> None:
        """A connector that cannot say yet sets the request aside; it is asked again each step."""
        run = hand()
        run.add("K", 12, offer=(8, True, 2))
        run.add("W", 4)
        steps = run.steps(3)
        assert run.world.asked == [("K", 0)] * 3
        assert steps[0].skipped == ["K"]
        assert list(steps[0].scheduled) == ["W"]
        assert [len(step.of(Load)) for step in steps] == [0, 0, 1]

    @rule(source=f"{SCHEDULER}:2777-2780")
    def test_a_reload_after_a_preemption_is_a_resume(self, hand: Any, case2: Any) -> None:
        """A victim may load its KV again; it then comes back as PREEMPTED, not as WAITING."""
        events = [
            e for step in case2("kv_preempt_and_reload_priority").steps for e in step.of(Promote)
        ]
        assert {event.status for event in events} >= {"PREEMPTED"}


class TestTheDeadlockBehindTheHead:
    """Blocks held by those who wait, and a walk that ends at its head."""

    @rule(source=(f"{SCHEDULER}:1047", f"{SCHEDULER}:1086"))
    @pytest.mark.parametrize("policy", ["fcfs", "priority"])
    def test_a_finished_load_behind_a_head_that_does_not_fit(self, case2: Any, policy: str) -> None:
        """A head that needs the blocks of finished loads behind it waits for ever: deadlock."""
        recorded = case2(f"kv_deadlock_{policy}")
        last = recorded.steps[-1]
        assert (recorded.stop, last.running, last.scheduled) == ("stalled", [], {})
        assert last.denial.id == "g"
        assert last.holders["k"] == 10
        assert "k" in last.loaded

    def test_in_six_steps(self, hand: Any) -> None:
        run = hand(**GATE_OFF)
        run.add("g", 28, grammar="pending")
        run.add("K", 16, offer=(16,))
        run.loaded("K")
        run.step()
        run.world.grammars["g"] = "ready"
        for step in run.steps(6):
            assert (step.scheduled, step.denial.id, step.loaded) == ({}, "g", {"K"})
        run.abort("g")
        assert run.step().scheduled == {"K": 1}


class TestTheEndOfALoadingRequest:
    """A transfer in progress outlives its request."""

    @rule(
        source=(f"{SCHEDULER}:2374-2384", f"{SCHEDULER}:2818-2822"),
        ours="kvsched.vllm.loads.Loads.holds",
    )
    def test_an_abort_while_loading_keeps_the_blocks_until_the_report(self, hand: Any) -> None:
        """Aborted while it loads, a request keeps its blocks until the load is reported."""
        run = loading(hand)
        run.abort("K")
        step = run.step()
        assert (step.of(Abort)[0].held, step.free) == (True, 5)
        assert step.live_end["K"].status == "FINISHED_ABORTED"
        assert step.ended_before == ["K"]
        run.world.received.append("K")
        step = run.step()
        assert (step.of(Forget), step.free_end, step.live_end) == ([Forget("K")], 8, {})

    def test_an_abort_after_the_report_frees_them_at_once(self, hand: Any, case2: Any) -> None:
        run = loading(hand, max_num_seqs=1)
        run.loaded("K")
        run.step()
        run.abort("K")
        step = run.step()
        assert (step.of(Abort)[0].held, step.free) == (False, 8)
        assert case2("kv_abort_loaded_priority").steps[4].of(Abort)[0].held is False

    @rule(source=(f"{SCHEDULER}:2389-2400", f"{SCHEDULER}:2823-2825"))
    def test_a_send_keeps_the_blocks_of_a_finished_request(self, hand: Any, case2: Any) -> None:
        """A connector may keep a finished request's blocks until they are sent."""
        run = hand()
        run.world.keeps = {"A"}
        run.add("A", 8, out=1)
        step = run.step()
        assert [(e.id, e.held) for e in step.of(Finish)] == [("A", True)]
        step = run.step()
        assert (step.ended_before, step.free, step.live["A"].status) == (
            ["A"], 6, "FINISHED_LENGTH_CAPPED",
        )  # fmt: skip
        run.world.sent.append("A")
        assert run.step().free_end == 8
        held = case2("kv_send_delay_fcfs").steps
        assert next(step.step for step in held if step.of(Finish)) == 2
        assert [step.step for step in held if step.of(Forget)] == [6]
