"""Orders from outside: emptying the prefix cache, pausing, chunks and closes nobody waits for."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from kvsched.contract import Pause, Reset
from kvsched.log import Admit, Idle, Inbox, Load, Preempt, ResetCache, Resume, Uncache

rule = partial(pytest.mark.rule, engine="vLLM", version="0.28.0", flag="", default=None)
SCHEDULER = "vllm/v1/core/sched/scheduler.py"
POOL = "vllm/v1/core/block_pool.py"
CONTROL = "kvsched.vllm.Scheduler.control"


def outcome(step: Any) -> str:
    (event,) = step.of(ResetCache)
    return str(event.outcome)


class TestTheReset:
    """The prefix cache can be emptied only if no block is in use."""

    @rule(source=f"{POOL}:760-775", flag="enable_prefix_caching", default=True, ours=CONTROL)
    def test_it_is_refused_while_a_block_is_in_use(self, hand: Any, case2: Any) -> None:
        """A reset does nothing while any block is in use."""
        run = hand()
        run.add("A", 9)
        run.step()
        run.control(Reset(running=False))
        step = run.step()
        assert (outcome(step), step.cached, step.of(Preempt)) == ("false", 2, [])
        assert any(s.of(ResetCache) for s in case2("reset_refused_fcfs").steps)

    def test_of_an_idle_pool_all_hashes_go(self, hand: Any) -> None:
        run = hand()
        run.add("A", 9, out=1)
        run.step()
        run.control(Reset(running=False))
        step = run.step()
        assert (outcome(step), step.of(Uncache), step.cached) == ("true", [Uncache((2, 1))], 0)
        run.add("B", [(100_000, 9)])
        assert run.step().of(Admit)[0].computed == 0

    @rule(source=f"{SCHEDULER}:2511-2540", ours=CONTROL)
    def test_with_running_everybody_is_preempted_and_back_in_the_same_step(
        self, hand: Any, case2: Any
    ) -> None:
        """A reset of the running preempts all; they return in the same step, in their order."""
        run = hand()
        for name in "ABC":
            run.add(name, 5)
        run.step()
        run.add("W", 4)
        run.control(Reset(running=True))
        step = run.step()
        assert [event.id for event in step.of(Preempt)] == ["C", "B", "A"]
        assert ([e.id for e in step.of(Resume)], outcome(step)) == (["A", "B", "C"], "true")
        assert step.running == ["A", "B", "C", "W"]
        assert all(lane.num_preemptions == 1 for lane in list(step.live.values())[:3])
        recorded = case2("reset_running_fcfs").steps[4]
        assert [event.id for event in recorded.of(Resume)] == ["a", "b", "c"]

    def test_its_victims_do_not_stop_admissions(self, hand: Any) -> None:
        """Only a preemption for want of blocks closes the step to newcomers."""
        run = hand()
        run.add("A", 5)
        run.step()
        run.control(Reset(running=True))
        run.add("W", 4)
        step = run.step()
        assert ([e.id for e in step.of(Admit)], step.denial) == (["A", "W"], None)

    @rule(source=f"{SCHEDULER}:2536-2547", ours=CONTROL)
    @pytest.mark.parametrize("holder", ["session", "load"])
    def test_with_a_session_or_a_load_it_fails_after_preempting_all(
        self, hand: Any, case2: Any, holder: str
    ) -> None:
        """If a paused session or a load holds blocks, RuntimeError comes after the preemptions."""
        run = hand()
        run.add("A", 9)
        if holder == "session":
            run.add("H", 4, out=1, session=True)
        else:
            run.add("H", 4, offer=(4,))
        run.step()
        run.control(Reset(running=True))
        step = run.step()
        assert (outcome(step), [e.id for e in step.of(Preempt)]) == ("error", ["A"])
        assert step.of(Uncache) == []
        assert [(e.id, e.own_hits) for e in step.of(Resume)] == [("A", 8)]
        recorded = case2("reset_with_session_fcfs").steps[6]
        assert outcome(recorded) == "error"
        assert [event.id for event in recorded.of(Preempt)] == ["a"]

    def test_it_leaves_what_was_sampled_on_the_device_behind(self, hand: Any) -> None:
        """Between schedule and update: the output on its way is dropped."""
        run = hand()
        run.add("A", 5)
        run.control(Reset(running=True), mid=True)
        step = run.step()
        assert (step.emitted, step.live_end["A"][:4]) == ({}, ("PREEMPTED", 0, 5, 1))
        assert run.step().emitted == {"A": 1}


class TestThePause:
    """``new`` admits nobody, ``all`` schedules nothing."""

    @rule(source=f"{SCHEDULER}:748", ours="kvsched.vllm.Scheduler.may_admit")
    def test_new_admits_nobody(self, hand: Any, case2: Any) -> None:
        """Paused for new requests, the running go on and nobody is admitted."""
        run = hand()
        run.add("A", 4)
        run.step()
        run.control(Pause("new"))
        run.add("W", 4)
        assert [step.scheduled for step in run.steps(2)] == [{"A": 1}] * 2
        run.control(Pause("none"))
        assert run.step().scheduled == {"A": 1, "W": 4}
        recorded = case2("pause_new_fcfs").steps
        assert [step.step for step in recorded if step.of(Admit)] == [0, 8]

    def test_new_does_not_let_a_victim_back(self, hand: Any) -> None:
        run = hand(enable_prefix_caching=False)
        run.add("A", 15, out=4)
        run.add("B", 15)
        run.steps(2)
        run.control(Pause("new"))
        steps = run.steps(6)
        assert [e.id for step in steps for e in step.of(Preempt)] == ["B"]
        assert (steps[-1].scheduled, steps[-1].denial, steps[-1].waiting) == ({}, None, ["B"])

    def test_new_asks_nothing_outside(self, hand: Any) -> None:
        run = hand()
        run.control(Pause("new"))
        run.add("K", 8, offer=(8,))
        run.step()
        assert (run.world.asked, run.log.of(Load)) == ([], [])

    @rule(source=f"{SCHEDULER}:500-502", ours="kvsched.vllm.Scheduler.schedule")
    def test_all_schedules_nothing(self, hand: Any) -> None:
        """Paused for all, nothing is scheduled; everybody keeps place, blocks and progress."""
        run = hand()
        run.add("A", 4)
        run.add("B", 4)
        before = run.step()
        run.control(Pause("all"))
        for step in run.steps(3):
            assert (step.scheduled, step.of(Idle)) == ({}, [Idle(("A", "B"))])
            assert (step.running, step.free) == (["A", "B"], before.free)
        run.control(Pause("none"))
        assert run.step().scheduled == {"A": 1, "B": 1}


class TestOrdersForNobody:
    """They are told, and change nothing."""

    @pytest.mark.parametrize("when", ["unknown", "gone", "no session"])
    def test_a_chunk_and_a_close_have_no_effect(self, hand: Any, when: str) -> None:
        run = hand()
        if when != "unknown":
            run.add("A", 4, out=1 if when == "gone" else 5, session=False)
            run.step()
        run.chunk("A", 3)
        run.close("A")
        step = run.step()
        status = "RUNNING" if when == "no session" else None
        assert step.of(Inbox) == [Inbox("A", "chunk", status), Inbox("A", "close", status)]
        assert list(step.live) == (["A"] if when == "no session" else [])
        assert run.step().scheduled == ({"A": 1} if when == "no session" else {})
