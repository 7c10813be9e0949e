"""Blocks that could not be filled: who is set back, who loses a token, who ends with an error."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from kvsched.log import Admit, Cache, Deliver, Finish, Load, Progress, Promote, Uncache
from kvsched.vllm.status import REMOTE

POLICY = "kv_load_failure_policy"
rule = partial(pytest.mark.rule, engine="vLLM", version="0.28.0", flag=POLICY, default="fail")
SCHEDULER = "vllm/v1/core/sched/scheduler.py"
INVALIDATE = "kvsched.vllm.loads.Loads.invalidate"
RECOMPUTE = {POLICY: "recompute"}
FAIL = {POLICY: "fail"}


def set_back(step: Any) -> list[tuple[str, int]]:
    return [(event.id, event.num_computed_tokens) for event in step.of(Progress)]


def two_loads(hand: Any, **knobs: Any) -> Any:
    """K and L share their first two blocks, which were in the cache; both load one more."""
    run = hand(num_gpu_blocks=20, **knobs)
    run.add("A", [(7, 9)])
    run.step()
    for name, own in (("K", 700), ("L", 800)):
        run.add(name, [(7, 8), (own, 5)], offer=(12,))
    run.step()
    return run


class TestALoadThatFailed:
    """It keeps what came before its first bad block."""

    @rule(source=f"{SCHEDULER}:2734-2747", ours="kvsched.vllm.loads.Loads.promote")
    def test_it_keeps_the_whole_table_and_what_came_before(self, hand: Any, case2: Any) -> None:
        """After a failed load everything before its first bad block counts, the table stays."""
        run = hand(**RECOMPUTE)
        run.add("K", 16, offer=(16,))
        run.step()
        run.loaded("K", 2, 3)
        assert set_back(run.step()) == [("K", 8)]
        step = run.step()
        assert step.of(Cache)[0] == Cache("K", (1, 2))
        assert [(e.computed, e.tokens) for e in step.of(Admit)] == [(8, 8)]
        assert step.blocks == {"K": [1, 2, 3, 4]}
        recorded = case2("kv_fail_recompute_fcfs").steps
        (event,) = [event for step in recorded for event in step.of(Progress)]
        assert event.num_computed_tokens > 0

    @rule(source=f"{SCHEDULER}:2747-2751", ours="kvsched.vllm.loads.Loads.promote")
    def test_with_nothing_left_it_is_looked_up_and_asked_for_in_the_same_walk(
        self, hand: Any, case2: Any
    ) -> None:
        """If the first block is bad the table is given back, and the same walk asks again."""
        run = hand(**RECOMPUTE)
        run.add("K", 16, offer=(16, True, 0, 2))
        run.step()
        run.loaded("K", 0)
        run.step()
        step = run.step()
        assert [event.status for event in step.of(Promote)] == ["WAITING"]
        assert [event.blocks for event in step.of(Load)] == [(4, 3, 2, 1)]
        assert step.live["K"][:2] == (REMOTE.name, 16)
        again = case2("kv_fail_first_block_fcfs").steps[3]
        assert ([e.id for e in again.of(Promote)], [e.id for e in again.of(Load)]) == (["k"], ["k"])

    def test_the_last_token_is_not_counted_twice(self, hand: Any) -> None:
        """Only a load that did not fail is set back by one token at its promotion."""
        run = hand(**RECOMPUTE)
        run.add("K", 16, offer=(16,))
        run.step()
        run.loaded("K", 3)
        run.step()
        assert set_back(run.step()) == []


class TestTwoScans:
    """The loading first, then the running; a shared block is recomputed by the first."""

    @rule(source=f"{SCHEDULER}:2868-2922", ours=INVALIDATE)
    def test_a_shared_bad_block_is_recomputed_by_the_first(self, hand: Any) -> None:
        """Of several loads that share a bad block the first recomputes it, the others keep it."""
        run = two_loads(hand, **RECOMPUTE)
        run.world.received += ["K", "L"]
        run.lost("K", 1)
        step = run.step()
        assert (step.skipped, set_back(step)) == (["K", "L"], [("K", 4), ("L", 12), ("A", 4)])

    @rule(source=(f"{SCHEDULER}:2946-2957", f"{SCHEDULER}:2964-2968"), ours=INVALIDATE)
    def test_each_scan_starts_anew(self, hand: Any) -> None:
        """The loading and the running are two scans: a running request recomputes it as well."""
        run = two_loads(hand, **RECOMPUTE)
        run.world.received += ["K", "L"]
        run.lost("A", 1)
        assert set_back(run.step()) == [("K", 4), ("L", 12), ("A", 4)]

    @rule(source=f"{SCHEDULER}:2878-2884")
    def test_only_what_was_computed_before_this_step_is_looked_at(self, hand: Any) -> None:
        """A bad block that holds only this step's tokens affects nobody."""
        run = hand(long_prefill_token_threshold=8, **RECOMPUTE)
        run.add("A", 20)
        run.step()
        run.world.invalid = [3]
        step = run.step()
        assert (run.table("A"), set_back(step)) == ([1, 2, 3, 4], [])
        run.world.invalid = [3]
        assert set_back(run.step()) == [("A", 8)]


class TestRunningRequests:
    """They lose the output of this step."""

    @rule(source=f"{SCHEDULER}:1810-1812", ours=INVALIDATE)
    @pytest.mark.parametrize("policy", ["recompute", "fail"])
    def test_an_affected_one_loses_this_steps_token(self, hand: Any, policy: str) -> None:
        """A running request with a bad block loses this step's token, under either policy."""
        run = hand(**{POLICY: policy})
        run.add("K", 13, offer=(8, False))
        run.add("A", 4)
        run.at(lambda: run.lost("K", 1), mid=True)
        run.step()
        step = run.step()
        assert step.of(Deliver) == [Deliver("K", 0)]
        assert step.emitted == {"A": 1}
        assert set_back(step) == [("K", 4)]

    def test_it_computes_the_rest_again(self, hand: Any, case2: Any) -> None:
        run = hand(**RECOMPUTE)
        run.add("K", 13, offer=(8, False))
        run.step()
        run.lost("K", 1)
        assert run.step().emitted == {}
        assert run.step().scheduled == {"K": 10}
        recorded = case2("kv_sync_fail_error_fcfs").steps
        assert sum(len(step.of(Finish)) for step in recorded) > 0


class TestThePolicyFail:
    """kv_load_failure_policy=fail: whoever is affected ends with an error."""

    @rule(source=(f"{SCHEDULER}:2048-2056", f"{SCHEDULER}:2982-2990"), ours=INVALIDATE)
    def test_all_affected_end_after_the_outputs(self, hand: Any, case2: Any) -> None:
        """Under ``fail`` loading and running requests with a bad block end with an error."""
        run = two_loads(hand, **FAIL)
        run.world.received += ["K", "L"]
        run.lost("A", 1)
        step = run.step()
        assert [(e.id, e.status, e.reason) for e in step.of(Finish)] == [
            (name, "FINISHED_ERROR", "error") for name in "AKL"
        ]
        assert (step.live_end, step.free_end) == ({}, 19)
        for name in ("kv_fail_error_fcfs", "kv_sync_fail_error_fcfs"):
            ends = {e.status for step in case2(name).steps for e in step.of(Finish)}
            assert "FINISHED_ERROR" in ends

    @rule(source=(f"{SCHEDULER}:2906-2908", f"{SCHEDULER}:2979-2980"))
    def test_a_running_requests_blocks_cannot_be_found_from_the_bad_one_on(self, hand: Any) -> None:
        """Under ``fail`` a running request's blocks lose their hashes from its bad one on."""
        run = hand(**FAIL)
        run.add("K", 13, offer=(8, False))
        run.at(lambda: run.lost("K", 1), mid=True)
        run.step()
        step = run.step()
        assert step.of(Uncache) == [Uncache((2, 3))]
        assert step.cached_end == 1

    @rule(source=(f"{SCHEDULER}:2891-2900", f"{SCHEDULER}:2906-2908"))
    def test_but_not_those_of_one_that_only_shares_it(self, hand: Any) -> None:
        """One whose bad blocks an earlier request recomputes keeps the hashes of its own."""
        run = hand(num_gpu_blocks=20, **FAIL)
        run.add("K", [(7, 13)], offer=(8, False))
        run.add("B", [(7, 8), (900, 9)])
        run.at(lambda: run.lost("K", 1), mid=True)
        run.step()
        step = run.step()
        assert [event.id for event in step.of(Finish)] == ["B", "K"]
        assert step.of(Uncache) == [Uncache((2, 3))]
        assert step.cached_end == 1 + 2
