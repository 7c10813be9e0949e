"""Where vLLM 0.28.0 admits otherwise than the usual account says, one named test each."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from kvsched.contract import BLOCK, POLICY, SLOT, TOKEN, WATERMARK, WHOLE_SEQUENCE, Denial

rule = partial(pytest.mark.rule, engine="vLLM", version="0.28.0")
SCHEDULER = "vllm/v1/core/sched/scheduler.py"
MANAGER = "vllm/v1/core/kv_cache_manager.py"
GATE = ("vllm/config/scheduler.py:130", f"{MANAGER}:475-491", f"{SCHEDULER}:1042")


class TestTheFifthTest:
    """By default the whole sequence must fit, not only the next chunk."""

    @rule(flag="scheduler_reserve_full_isl", default=True, source=GATE)
    def test_admission_asks_for_the_whole_sequence(self, drive: Any) -> None:
        """A request is admitted only if its whole sequence fits, not just its next chunk."""
        run = drive(max_num_batched_tokens=24)
        run.add("A", 16)
        run.add("B", 20)
        step = run.step()
        assert step.scheduled == {"A": 16}
        assert step.denial == Denial("B", WHOLE_SEQUENCE, need=5, free=4)

    def test_with_the_gate_off_a_chunk_is_enough(self, drive: Any) -> None:
        run = drive(max_num_batched_tokens=24, scheduler_reserve_full_isl=False)
        run.add("A", 16)
        run.add("B", 20)
        assert run.step().scheduled == {"A": 16, "B": 8}

    @pytest.mark.parametrize(("prompt", "scheduled"), [(16, ["A", "B"]), (17, ["A"])])
    def test_the_gate_lets_in_what_fits_exactly(
        self, drive: Any, prompt: int, scheduled: list[str]
    ) -> None:
        run = drive()
        run.add("A", 16)
        run.add("B", prompt)
        assert list(run.step().scheduled) == scheduled

    def test_the_gate_counts_the_outputs_of_a_victim(self, drive: Any) -> None:
        run = drive(enable_prefix_caching=False)
        run.add("A", 15)
        run.add("B", 15)
        _, _, preempting, after = run.steps(4)
        assert preempting.live["B"][:4] == ("PREEMPTED", 0, 17, 1)
        assert after.denial == Denial("B", WHOLE_SEQUENCE, need=5, free=3)


class TestTheWatermark:
    """A tax on growing the batch, not on keeping it alive."""

    @rule(
        flag="watermark",
        default=0.0,
        source=f"{SCHEDULER}:1044",
        ours="kvsched.vllm.Scheduler.headroom",
    )
    def test_watermark_taxes_an_admission_beside_running_requests(self, drive: Any) -> None:
        """While anything runs, an admission must leave the watermark's blocks free."""
        run = drive(num_gpu_blocks=10, watermark=0.1)
        run.add("A", 3)
        run.step()
        run.add("B", 32)
        assert run.step().denial == Denial("B", WATERMARK, need=8, headroom=1, free=8)

    def test_the_size_of_the_watermark_counts_the_null_block(self, drive: Any) -> None:
        """0.1 of ten blocks is one, of the nine usable ones it would be none."""
        run = drive(num_gpu_blocks=10, watermark=0.1)
        run.add("A", 3)
        run.add("B", 29)
        assert run.step().scheduled == {"A": 3}

    @rule(flag="watermark", default=0.0, source=f"{MANAGER}:174")
    def test_the_size_of_the_watermark_is_truncated(self, drive: Any) -> None:
        """The watermark is int(fraction × all blocks), the null block counted."""
        run = drive(num_gpu_blocks=10, watermark=0.19)
        run.add("A", 3)
        run.add("B", 28)
        assert run.step().scheduled == {"A": 3, "B": 28}

    @rule(flag="watermark", default=0.0, source=f"{SCHEDULER}:1044")
    def test_watermark_does_not_bind_when_nothing_runs(self, drive: Any) -> None:
        """With nothing running, even a watermark of 0.9 admits a request for the whole pool."""
        run = drive(watermark=0.9)
        run.add("A", 32)
        assert run.step().scheduled == {"A": 32}

    def test_watermark_taxes_the_second_request_of_a_first_batch(self, drive: Any) -> None:
        run = drive(watermark=0.5)
        run.add("A", 16)
        run.add("B", 4)
        step = run.step()
        assert step.scheduled == {"A": 16}
        assert step.denial == Denial("B", WATERMARK, need=1, headroom=4, free=4)

    def test_watermark_does_not_tax_growth(self, drive: Any) -> None:
        run = drive(watermark=0.9)
        run.add("A", 28)
        assert [step.free for step in run.steps(2)] == [1, 0]

    @rule(flag="watermark", default=0.0, source=f"{SCHEDULER}:1044")
    def test_watermark_taxes_a_resumed_request(self, case: Any) -> None:
        """The watermark taxes resumed requests as it does new ones."""
        step = case("watermark_resumed").steps[10]
        assert step.live["C"].status == "PREEMPTED"
        assert step.denial == Denial(
            "C", WHOLE_SEQUENCE, need=2, cached=8, headroom=3, free=8, have=8
        )

    def test_watermark_is_in_the_chunk_test_as_well(self, drive: Any) -> None:
        run = drive(num_gpu_blocks=10, watermark=0.1, scheduler_reserve_full_isl=False)
        run.add("A", 3)
        run.add("B", 32)
        assert run.step().denial == Denial("B", WATERMARK, need=8, headroom=1, free=8)


class TestHeadOfTheLine:
    """Whoever is refused for blocks or budget ends the pass; nobody behind is tried."""

    @rule(flag="", default=None, source=f"{SCHEDULER}:1047")
    def test_a_head_that_does_not_fit_blocks_everyone_behind(self, drive: Any) -> None:
        """A head of the queue that gets no blocks ends the pass: nobody behind it is tried."""
        run = drive()
        run.add("A", 16)
        run.add("big", 24)
        run.add("small", 4)
        step = run.step()
        assert step.scheduled == {"A": 16}
        assert step.waiting == ["big", "small"]

    @rule(flag="enable_chunked_prefill", default=True, source=f"{SCHEDULER}:959")
    def test_without_chunks_a_prompt_above_the_budget_left_blocks_too(self, drive: Any) -> None:
        """With chunked prefill off, a head that overflows the step's budget ends the pass."""
        run = drive(
            num_gpu_blocks=20,
            max_num_batched_tokens=32,
            max_model_len=32,
            enable_chunked_prefill=False,
        )
        run.add("A", 20)
        run.add("B", 16)
        run.add("C", 4)
        step = run.step()
        assert step.scheduled == {"A": 20}
        assert step.denial == Denial("B", TOKEN, need=16, free=12)

    def test_without_chunks_a_prompt_that_uses_up_the_budget_is_admitted(self, drive: Any) -> None:
        run = drive(
            num_gpu_blocks=20,
            max_num_batched_tokens=32,
            max_model_len=32,
            enable_chunked_prefill=False,
        )
        run.add("A", 20)
        run.add("B", 12)
        assert run.step().scheduled == {"A": 20, "B": 12}

    def test_with_chunks_the_head_takes_what_is_left(self, drive: Any) -> None:
        run = drive(num_gpu_blocks=20, max_num_batched_tokens=32)
        run.add("A", 20)
        run.add("B", 16)
        run.add("C", 4)
        step = run.step()
        assert step.scheduled == {"A": 20, "B": 12}
        assert step.denial == Denial("C", TOKEN, need=1, free=0)

    @rule(flag="max_num_seqs", default=None, source=f"{SCHEDULER}:756")
    def test_slots_count_running_requests(self, drive: Any) -> None:
        """No more requests run than there are slots, however many blocks are free."""
        run = drive(max_num_seqs=2)
        for name in "ABC":
            run.add(name, 4)
        step = run.step()
        assert step.scheduled == {"A": 4, "B": 4}
        assert step.denial == Denial("C", SLOT, need=3, free=2)

    @rule(
        flag="",
        default=None,
        source=f"{SCHEDULER}:748",
        ours="kvsched.vllm.Scheduler.may_admit",
    )
    def test_a_step_that_preempts_admits_nobody(self, drive: Any) -> None:
        """A step that preempted admits nobody, even if the head would fit."""
        run = drive(policy="priority")
        run.add("A", 11)
        run.add("B", 19, priority=9)
        run.steps(2)
        run.add("urgent", 4, priority=-1)
        preempting, after = run.steps(2)
        assert preempting.free == 4
        assert preempting.denial == Denial("urgent", POLICY, need=1)
        assert after.scheduled == {"A": 1, "urgent": 4}


class TestTooLarge:
    """The scheduler turns nobody away; checks are the front end's business."""

    @rule(flag="scheduler_reserve_full_isl", default=True, source=f"{SCHEDULER}:2318")
    def test_a_prompt_larger_than_the_pool_waits_for_ever(self, case: Any) -> None:
        """A prompt that can never fit is queued, and blocks everyone behind it for ever."""
        stuck = case("hol_too_big_forever")
        assert stuck.stop == "stalled"
        for step in stuck.steps[6:]:
            assert step.waiting == ["huge", "s0"]
            assert step.denial == Denial("huge", WHOLE_SEQUENCE, need=25, free=10)
            assert not step.scheduled

    def test_an_abort_of_the_large_one_frees_the_queue(self, drive: Any) -> None:
        run = drive()
        run.add("huge", 33)
        run.add("next", 4)
        assert run.step().scheduled == {}
        run.abort("huge")
        assert run.step().scheduled == {"next": 4}

    def test_one_that_outgrows_the_pool_preempts_itself_and_waits_for_ever(self, case: Any) -> None:
        stuck = case("outgrows_pool")
        assert [step.failures for step in stuck.steps[4:7]] == [["s"], ["g"], ["g"]]
        assert stuck.steps[-1].waiting == ["g", "s"]
        assert stuck.stop == "stalled"

    @rule(flag="scheduler_reserve_full_isl", default=True, source=f"{SCHEDULER}:1047")
    def test_gate_off_its_own_cached_blocks_stall_it(self, case: Any) -> None:
        """Gate and chunks cannot save what never fits: its own cached blocks count as demand."""
        stuck = case("too_big_reserve_off")
        assert stuck.steps[-1].denial == Denial("huge", BLOCK, need=4, cached=8, free=10, have=8)
        assert not any(step.scheduled for step in stuck.steps[2:])

    def test_gate_and_caching_off_it_starts_over_for_ever(self, case: Any) -> None:
        looping = case("too_big_reserve_off_nocache")
        own = [step for step in looping.steps if step.failures == ["huge"]]
        assert (len(own), len(looping.steps)) == (13, 40)
        assert not any(step.emitted for step in looping.steps)


@rule(flag="policy", default="fcfs", source=f"{SCHEDULER}:525")
def test_the_budget_is_spent_in_admission_order_even_under_priority(drive: Any) -> None:
    """A long prompt admitted first takes its chunk before more urgent running requests."""
    run = drive(
        num_gpu_blocks=20,
        policy="priority",
        max_num_seqs=6,
        max_num_batched_tokens=6,
        long_prefill_token_threshold=4,
    )
    run.add("long", 40, priority=9)
    run.step()
    run.add("u1", 2)
    run.add("u2", 2, arrival=1)
    run.add("u3", 2, arrival=2)
    last = run.steps(3)[-1]
    assert list(last.scheduled.items()) == [("long", 4), ("u1", 1), ("u2", 1)]
    assert last.denial == Denial("u3", TOKEN, need=1, free=0)


def test_running_requests_are_served_before_the_queue(drive: Any) -> None:
    run = drive(max_num_seqs=5, max_num_batched_tokens=5)
    run.add("A", 3)
    run.add("B", 2)
    run.step()
    run.add("C", 8)
    assert list(run.step().scheduled.items()) == [("A", 1), ("B", 1), ("C", 3)]


def test_the_threshold_cuts_every_chunk(drive: Any) -> None:
    run = drive(long_prefill_token_threshold=3)
    run.add("A", 8)
    assert [step.scheduled["A"] for step in run.steps(4)] == [3, 3, 2, 1]
