"""Requests that wait for something outside, and the second queue they stand in."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from kvsched.contract import SLOT, WHOLE_SEQUENCE
from kvsched.log import Admit, Arrive, Finish, Preempt, Promote, Resume, SetAside, Tried
from kvsched.vllm.status import GRAMMAR

rule = partial(pytest.mark.rule, engine="vLLM", version="0.28.0", flag="", default=None)
SCHEDULER = "vllm/v1/core/sched/scheduler.py"
NEXT_QUEUE = "kvsched.vllm.Scheduler.next_queue"
READY = "kvsched.vllm.waits.Waits.ready"


def admitted(step: Any) -> list[str]:
    return [event.id for event in step.of(Admit)]


def set_aside(step: Any) -> list[str]:
    return [event.id for event in step.of(SetAside)]


class TestTheSecondQueue:
    """Who waits for something outside stands in ``skipped``; who was passed over stays there."""

    @rule(source=f"{SCHEDULER}:2146", ours="kvsched.vllm.Scheduler.add")
    def test_a_grammar_request_is_queued_apart_even_if_its_grammar_is_ready(
        self, hand: Any, case2: Any
    ) -> None:
        """A request with a grammar enters the second queue, even if its grammar is ready."""
        run = hand()
        run.add("g", 4, grammar="ready")
        step = run.step()
        (arrival,) = step.of(Arrive)
        assert (arrival.status, arrival.queue) == (GRAMMAR.name, "skipped")
        assert (step.of(Promote)[0].status, admitted(step)) == ("WAITING", ["g"])
        recorded = case2("gram_ready_first_fcfs").steps
        first = next(step for step in recorded if any(e.id == "g" for e in step.of(Arrive)))
        assert first.of(Tried) == [Tried("g", GRAMMAR.name, promoted=True)]

    @rule(source=f"{SCHEDULER}:766-777", ours=READY)
    def test_a_blocked_head_does_not_stop_the_walk(self, hand: Any) -> None:
        """A request that still waits for something outside is passed over; the next is tried."""
        run = hand()
        run.add("g", 4, grammar="pending")
        run.add("w", 4)
        step = run.step()
        assert (set_aside(step), admitted(step), step.denial) == (["g"], ["w"], None)

    @pytest.mark.rule(
        engine="vLLM", version="0.28.0", flag="policy", default="fcfs",
        source=(f"{SCHEDULER}:2152-2154", f"{SCHEDULER}:748"), ours=NEXT_QUEUE,
    )  # fmt: skip
    def test_fcfs_is_not_arrival_order(self, hand: Any, case2: Any) -> None:
        """Under FCFS whoever was ever set aside goes before all others, earlier arrivals too."""
        run = hand(max_num_seqs=1)
        run.add("r", 4, out=3)
        run.step()
        for name, grammar in (("w", None), ("g", "ready")):
            run.add(name, 4, out=2, grammar=grammar)
            run.step()
        assert admitted(run.step()) == ["g"]
        recorded = case2("gram_vs_head_fcfs").steps
        assert [name for step in recorded for name in admitted(step)][:2] == ["r", "g"]

    def test_and_before_the_preempted(self, hand: Any) -> None:
        """Victims stand at the front of ``waiting``, which is the second to be asked."""
        run = hand(enable_prefix_caching=False)
        run.add("A", 15, out=4)
        run.add("B", 15, out=20)
        run.add("g", 4, out=2, grammar="pending")
        run.steps(2)
        step = run.step()
        assert [event.id for event in step.of(Preempt)] == ["B"]
        assert (step.waiting, step.skipped) == (["B"], ["g"])
        run.world.grammars["g"] = "ready"
        step = run.step()
        assert (admitted(step), step.denial.id) == (["g"], "B")

    @pytest.mark.rule(
        engine="vLLM", version="0.28.0", flag="policy", default="fcfs",
        source=f"{SCHEDULER}:2156-2162", ours=NEXT_QUEUE,
    )  # fmt: skip
    @pytest.mark.parametrize(
        ("of_w", "of_g", "first"), [((0, 1), (0, 2), "w"), ((1, 0), (0, 9), "g")]
    )
    def test_priority_compares_the_two_heads(
        self, hand: Any, of_w: tuple[int, int], of_g: tuple[int, int], first: str
    ) -> None:
        """Under priority the more urgent of the two heads is next, whichever queue it is in."""
        run = hand(policy="priority", max_num_seqs=1)
        run.add("w", 4, priority=of_w[0], arrival=of_w[1])
        run.add("g", 4, priority=of_g[0], arrival=of_g[1], grammar="ready")
        assert admitted(run.step()) == [first]

    def test_a_recorded_head_of_each_queue(self, case2: Any) -> None:
        recorded = case2("gram_vs_head_priority").steps
        assert [name for step in recorded for name in admitted(step)][:2] == ["r", "w"]

    @rule(source=(f"{SCHEDULER}:774-776", f"{SCHEDULER}:1161"))
    def test_who_was_passed_over_stands_in_front_of_who_was_not_reached(self, hand: Any) -> None:
        """Those passed over keep their order and stand before those the walk did not reach."""
        run = hand(max_num_seqs=1)
        run.add("g", 4, grammar="pending")
        run.add("h", 4, grammar="pending")
        run.add("r", 4, out=1, grammar="ready")
        run.add("i", 4, grammar="pending")
        step = run.step()
        assert (set_aside(step), admitted(step)) == (["g", "h"], ["r"])
        assert step.skipped == ["g", "h", "i"]

    @rule(source=f"{SCHEDULER}:1376")
    def test_a_victim_goes_to_the_first_queue(self, case2: Any) -> None:
        """A preempted request goes to the front of the first queue, even one with a grammar."""
        step = case2("gram_preempted_later_fcfs").steps[6]
        assert [event.id for event in step.of(Preempt)] == ["g"]
        assert (step.waiting, step.skipped) == (["g", "w"], [])
        assert step.live["g"].status == "PREEMPTED"


class TestAWalkThatEndsEarly:
    """A budget, the slots or an allocation end the walk; nobody behind is looked at."""

    @rule(source=f"{SCHEDULER}:1047")
    def test_a_promoted_head_that_does_not_fit_ends_the_walk(self, hand: Any, case2: Any) -> None:
        """A request that was promoted and does not fit ends the walk; it keeps its place."""
        run = hand()
        run.add("A", 16)
        run.step()
        run.add("g", 20, grammar="ready")
        run.add("h", 4, grammar="ready")
        run.add("w", 4)
        step = run.step()
        assert (step.denial.id, step.denial.test) == ("g", WHOLE_SEQUENCE)
        assert (step.skipped, step.waiting) == (["g", "h"], ["w"])
        assert (step.live["g"].status, step.live["h"].status) == ("WAITING", GRAMMAR.name)
        recorded = case2("gram_alloc_fail_fcfs").steps[2]
        assert (recorded.skipped, recorded.live["g"].status) == (["g", "g2"], "WAITING")

    @rule(source=(f"{SCHEDULER}:756", f"{SCHEDULER}:2785-2788"))
    def test_what_became_ready_behind_is_not_seen(self, case2: Any, hand: Any) -> None:
        """With all slots taken the queue is not walked: a failed grammar goes unnoticed."""
        run = hand(max_num_seqs=1)
        run.add("A", 4, out=6)
        run.step()
        run.add("g", 4, grammar="failed")
        steps = run.steps(5)
        assert [step.denial.test for step in steps] == [SLOT] * 5
        assert not any(step.of(Tried) or step.of(Finish) for step in steps[:4])
        assert [event.id for event in steps[4].of(Finish)] == ["A"]
        assert [(e.id, e.reason) for e in run.step().of(Finish)] == [("g", "error")]

    @pytest.mark.parametrize("policy", ["fcfs", "priority"])
    def test_a_recorded_error_unseen_for_five_steps(self, case2: Any, policy: str) -> None:
        recorded = case2(f"gram_error_unseen_{policy}")
        ready = next(r for r in recorded.recording.requests if r["id"] == "g")["grammar"]["ready"]
        noticed = [s.step for s in recorded.steps for e in s.of(Finish) if e.id == "g"]
        assert (ready, noticed) == (3, [8])


class TestAFailedGrammar:
    """Noticed by the walk, ended by the update after it."""

    @rule(source=(f"{SCHEDULER}:2788", f"{SCHEDULER}:2038-2046"), ours=READY)
    def test_it_ends_in_the_update_after_the_walk(self, hand: Any) -> None:
        """A failed compilation is noticed in schedule() and ends the request in the update."""
        run = hand()
        run.add("g", 4, grammar="failed")
        step = run.step()
        assert (step.live["g"].status, step.skipped) == (GRAMMAR.name, ["g"])
        assert [(e.id, e.status, e.reason) for e in step.of(Finish)] == [
            ("g", "FINISHED_ERROR", "error")
        ]
        assert (step.live_end, step.skipped_end) == ({}, [])

    def test_an_abort_in_between_comes_first(self, hand: Any) -> None:
        run = hand()
        run.add("g", 4, grammar="failed")
        run.abort("g", mid=True)
        step = run.step()
        assert not step.of(Finish)
        assert run.step().live == {}

    def test_errors_end_after_the_outputs_of_the_step(self, hand: Any) -> None:
        run = hand()
        run.add("g", 4, grammar="failed")
        run.add("A", 4, out=1)
        assert [event.id for event in run.step().of(Finish)] == ["A", "g"]

    def test_who_lost_its_blocks_again_needs_no_second_promotion(self, case2: Any) -> None:
        steps = case2("gram_preempted_later_fcfs").steps
        back = next(step for step in steps if any(e.id == "g" for e in step.of(Resume)))
        assert not back.of(Tried)
