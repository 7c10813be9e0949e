"""Whom vLLM 0.28.0 throws out, and what becomes of the victim: one named test a surprise."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from kvsched.contract import BLOCK, WHOLE_SEQUENCE, Denial
from kvsched.log import Allocate, Preempt, Resume

rule = partial(pytest.mark.rule, engine="vLLM", version="0.28.0")
SCHEDULER = "vllm/v1/core/sched/scheduler.py"
VICTIM = "kvsched.vllm.Scheduler.victim"


def full_pool(run: Any, **second: int) -> Any:
    """A, then B; both together hold all eight blocks, and B needs a ninth in step 2."""
    run.add("A", 13)
    run.step()
    run.add("B", 16, **second)
    run.step()
    return run.step()


class TestWhoIsTheVictim:
    """FCFS: the last admitted. Priority: the first of the worst."""

    @rule(flag="policy", default="fcfs", source=f"{SCHEDULER}:678", ours=VICTIM)
    def test_fcfs_throws_out_the_last_admitted(self, drive: Any) -> None:
        """Under FCFS the last admitted is thrown out, the failing request itself if it is that."""
        step = full_pool(drive())
        assert [(v.id, v.denial) for v in step.of(Preempt)] == [
            ("B", Denial("B", BLOCK, need=1, have=4))
        ]
        assert step.scheduled == {"A": 1}

    @rule(flag="policy", default="fcfs", source=f"{SCHEDULER}:644", ours=VICTIM)
    @pytest.mark.parametrize(
        ("second", "victim"),
        [({}, "A"), ({"arrival": 1}, "B"), ({"priority": 1}, "B"), ({"priority": -1}, "A")],
        ids=["full tie", "later arrival", "less urgent", "more urgent"],
    )
    def test_a_full_tie_falls_on_the_longest_admitted(
        self, drive: Any, second: dict[str, int], victim: str
    ) -> None:
        """Under priority the id breaks no tie: of equals the longest admitted is thrown out."""
        step = full_pool(drive(policy="priority"), **second)
        assert [event.id for event in step.of(Preempt)] == [victim]

    @rule(flag="policy", default="fcfs", source=f"{SCHEDULER}:1115")
    def test_a_resumed_request_stands_last_among_the_running(self, case: Any) -> None:
        """Coming back is a new admission: the oldest request may be the last admitted."""
        back = next(step for step in case("prio_all_tie").steps if step.of(Resume))
        assert [event.id for event in back.of(Resume)] == ["A"]
        assert back.running == ["D", "A"]

    @rule(flag="policy", default="fcfs", source="vllm/v1/request.py:337")
    def test_in_the_queue_the_id_does_break_ties(self, drive: Any) -> None:
        """The priority queue orders by priority, then arrival time, then the id as a string."""
        run = drive(policy="priority", num_gpu_blocks=20)
        for name, priority, arrival in (("b10", 1, 0), ("b9", 1, 0), ("z", 0, 5), ("y", 0, 4)):
            run.add(name, 4, priority=priority, arrival=arrival)
        assert list(run.step().scheduled) == ["y", "z", "b10", "b9"]


class TestTheVictimsWayBack:
    """Blocks given back, progress lost, tokens kept."""

    @rule(flag="policy", default="fcfs", source="vllm/v1/core/sched/request_queue.py:92")
    def test_several_victims_keep_their_order_before_who_waited(self, drive: Any) -> None:
        """Under FCFS the victims of one step stand in their old order before all who waited."""
        run = drive(long_prefill_token_threshold=16, scheduler_reserve_full_isl=False)
        run.add("A", 28)
        for name in ("B", "C"):
            run.add(name, 7)
        run.add("W", 8)
        run.step()
        step = run.step()
        assert [event.id for event in step.of(Preempt)] == ["C", "B"]
        assert step.waiting == ["B", "C", "W"]

    @rule(flag="policy", default="fcfs", source="vllm/v1/core/sched/request_queue.py:160")
    def test_under_priority_a_victim_gets_no_bonus(self, drive: Any) -> None:
        """Under priority a victim is queued by its key, like anyone who never ran."""
        run = drive(policy="priority")
        run.add("A", 13)
        run.step()
        run.add("B", 16, priority=2)
        run.step()
        run.add("W1", 40, priority=1)
        run.add("W3", 40, priority=3)
        step = run.step()
        assert [event.id for event in step.of(Preempt)] == ["B"]
        assert step.waiting == ["W1", "B", "W3"]

    @rule(flag="", default=None, source=f"{SCHEDULER}:1356")
    def test_recompute_includes_the_newest_token_and_emits_the_next(self, drive: Any) -> None:
        """A resumed request recomputes prompt and all outputs and emits the next token."""
        run = drive(enable_prefix_caching=False)
        run.add("A", 15, out=4)
        run.add("B", 15, out=6)
        steps = run.finish()
        back = next(step for step in steps if step.of(Resume))
        lost = next(event for step in steps for event in step.of(Preempt))
        assert (lost.id, lost.tokens_lost) == ("B", 16)
        assert back.scheduled == {"B": 17}
        assert list(back.emitted) == ["B"]
        assert sum("B" in step.emitted for step in steps) == 6

    @rule(flag="", default=None, source=f"{SCHEDULER}:1123")
    def test_a_resumed_request_is_not_reported_as_new(self, case: Any) -> None:
        """Model Runner V1 is told of a resumed request as such, once for each preemption."""
        back = case("seed_a_finish6").steps[6]
        assert [type(event) for event in back.of(Resume)] == [Resume]
        assert back.live["D"][:4] == ("RUNNING", 8193, 8193, 1)

    def test_the_worked_example_loses_two_blocks_of_512(self, case: Any) -> None:
        """The usual account guesses three; A took the spare block."""
        steps = case("seed_a_finish6").steps
        assert [event.blocks for event in steps[1].of(Allocate)] == [(2049,), (2048,), (2047,)]
        assert steps[1].erased == [{"D": 1}, {"D": 1}]
        assert steps[2].denial == Denial(
            "D", WHOLE_SEQUENCE, need=3, cached=510, free=510, have=510
        )
        assert [event.own_hits for event in steps[6].of(Resume)] == [510 * 16]


class TestSelfVictim:
    """Under priority the failing request may be the worst itself."""

    @rule(flag="policy", default="fcfs", source=f"{SCHEDULER}:686-692")
    def test_a_self_victim_ends_the_running_pass(self, drive: Any) -> None:
        """A request that preempts itself ends the pass: more urgent ones behind get nothing."""
        run = drive(policy="priority")
        run.add("worst", 15, priority=5)
        run.step()
        run.add("B", 6)
        run.add("C", 6)
        run.step()
        ended, after = run.steps(2)
        assert [(v.id, v.denial.id) for v in ended.of(Preempt)] == [("worst", "worst")]
        assert ended.scheduled == {}
        assert (ended.running, ended.free) == (["B", "C"], 4)
        assert after.scheduled == {"B": 1, "C": 1}

    def test_in_the_tie_case_the_whole_step_stays_empty(self, case: Any) -> None:
        step = case("prio_all_tie").steps[3]
        assert (step.scheduled, step.running) == ({}, ["B", "C", "D"])


class TestRefund:
    """A victim that was already scheduled in this step gives its tokens back."""

    @rule(flag="policy", default="fcfs", source=f"{SCHEDULER}:659-666")
    def test_a_scheduled_victim_gives_its_tokens_back(self, case: Any) -> None:
        """A victim scheduled earlier in the step gives back its budget; those behind use it."""
        step = case("prio_refund_budget").steps[6]
        assert [(v.id, v.denial.id, v.refunded) for v in step.of(Preempt)] == [("L", "h1", 8)]
        assert step.scheduled == {"h0": 1, "h1": 1, "h2": 5}
        assert "L" not in step.blocks

    def test_no_token_is_sampled_for_a_scheduled_victim(self, drive: Any) -> None:
        run = drive(policy="priority")
        step = full_pool(run)
        assert [(v.id, v.refunded) for v in step.of(Preempt)] == [("A", 1)]
        assert run.plan.sampling == ["B"]

    def test_the_request_that_failed_keeps_its_small_chunk(self, drive: Any) -> None:
        """Its own token count is not computed again with the larger budget."""
        run = drive(
            num_gpu_blocks=10,
            policy="priority",
            max_num_batched_tokens=10,
            long_prefill_token_threshold=8,
        )
        run.add("low", 32, priority=9)
        run.step()
        run.add("high", 12)
        step = run.steps(3)[-1]
        assert [(v.id, v.refunded) for v in step.of(Preempt)] == [("low", 8)]
        assert step.scheduled == {"high": 2}


@rule(flag="max_model_len", default=None, source="vllm/v1/core/sched/utils.py:116")
@pytest.mark.parametrize(("length", "outputs"), [(12, 3), (10, 1), (64, 16)])
def test_the_model_length_ends_a_request(drive: Any, length: int, outputs: int) -> None:
    """A request ends when prompt and outputs reach the model's length, or at max_tokens."""
    run = drive(max_model_len=length)
    run.add("A", 9, out=16)
    assert sum("A" in step.emitted for step in run.finish()) == outputs
