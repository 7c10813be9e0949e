"""Every sentence is read off the log, and the numbers in it are the log's."""

from __future__ import annotations

from typing import Any

import pytest

from kvsched.conform import load
from kvsched.contract import Denial
from kvsched.errors import InputError
from kvsched.explain import explain, explain_case, explain_step


def told(run: Any, step: int | None = None) -> list[str]:
    """The sentences of a step of a hand-driven run, by default the last."""
    at = len(run.log.times) - 1 if step is None else step
    return [sentence.text for sentence in explain_step(run.log, at)]


@pytest.fixture(scope="module")
def worked_example(golden: Any) -> Any:
    return load(golden / "seed_a_finish6.json.gz")


class TestTheWorkedExample:
    """2,049 usable blocks, four prompts of 8,192 tokens, one free block."""

    def test_step_1_a_takes_the_last_block_b_fails_d_is_preempted(
        self, worked_example: Any
    ) -> None:
        first, second, *_, admits_nobody = explain_case(worked_example, 1)
        assert first == "A takes block 2049, the last free one."
        assert second == (
            "B needs 1 block and 0 are free, so it fails and preempts D, the last admitted: "
            "512 blocks freed, 8192 computed tokens lost, preemption number 1 of D; "
            "usage 100.0 % before, 75.0 % after."
        )
        assert admits_nobody == (
            "D is not admitted: this step preempted 1, and a step that preempts admits nobody."
        )

    def test_step_2_d_needs_513_with_510_cached_and_510_free(self, worked_example: Any) -> None:
        text = explain_case(worked_example, 2, "D")[0]
        assert "D needs 513 blocks for its whole sequence, with 510 cached and 510 free" in text
        assert "513 > 510, the whole-sequence test" in text
        assert "they count as demand; 3 more are new" in text

    def test_step_6_d_resumes_with_8160_hits_and_a_33_token_chunk(
        self, worked_example: Any
    ) -> None:
        assert explain_case(worked_example, 6, "D")[-1] == (
            "D resumes with 8160 hit tokens (its own) and a 33-token chunk; it takes 3 blocks "
            "beside the 510 found, 510 left free."
        )

    def test_only_what_concerns_the_request(self, worked_example: Any) -> None:
        everything = explain_case(worked_example, 1)
        about_c = explain_case(worked_example, 1, "C")
        assert about_c == [text for text in everything if text.startswith(("C ", "A, B and C"))]

    def test_a_request_to_which_nothing_happens(self, worked_example: Any) -> None:
        assert explain_case(worked_example, 20, "A") == ["Nothing happens to A in step 20."]

    def test_an_unknown_step_is_refused_with_the_range(self, worked_example: Any) -> None:
        with pytest.raises(InputError, match="--step 45: no such step; give a step from 0 to 44"):
            explain_case(worked_example, 45)
        with pytest.raises(InputError, match="--step -1"):
            explain_case(worked_example, -1)

    def test_an_unknown_request_is_refused_with_those_there_are(self, worked_example: Any) -> None:
        with pytest.raises(InputError, match="--request Z: no such request; known: A, B, C, D"):
            explain_case(worked_example, 1, "Z")

    def test_a_log_has_no_step_beyond_its_end(self, case: Any) -> None:
        with pytest.raises(InputError, match="step 45: no such step; give a step below 45"):
            explain_step(case("seed_a_finish6").log, 45)


class TestComingAndGoing:
    """Arrivals, admissions, endings."""

    def test_an_arrival_and_an_admission(self, drive: Any) -> None:
        run = drive()
        run.add("A", 9, out=5)
        run.step()
        assert told(run) == [
            "A arrives with a prompt of 9 tokens and may generate 5; it joins the waiting queue.",
            "A is admitted with 0 hit tokens and a 9-token chunk; it takes 3 blocks, 5 left free.",
        ]

    def test_shared_hits_are_told(self, drive: Any) -> None:
        run = drive()
        run.add("A", [(7, 9)])
        run.step()
        run.add("B", [(7, 19)])
        run.step()
        assert (
            "B is admitted with 8 hit tokens (shared) and an 11-token chunk; it takes 3 blocks "
            "beside the 2 found, 2 left free."
        ) in told(run)

    def test_an_end_and_an_empty_step(self, drive: Any) -> None:
        run = drive()
        run.add("A", 4, out=1)
        run.steps(2)
        assert told(run, 0)[-1] == (
            "A finishes (length, FINISHED_LENGTH_CAPPED) and its blocks go back to the free queue."
        )
        assert told(run, 1) == ["Nothing happens: no request is live."]

    def test_aborts(self, drive: Any) -> None:
        run = drive()
        run.add("A", 4)
        run.step()
        run.abort("A")
        run.abort("A")
        run.step()
        assert told(run) == [
            "A is aborted; it was RUNNING.",
            "An abort of A has no effect: it is unknown or has finished.",
        ]


class TestWhoComputesWhat:
    """Decodes in one sentence, chunks and pauses in their own."""

    def test_decodes_together(self, drive: Any) -> None:
        run = drive(num_gpu_blocks=30, max_num_seqs=12)
        for i in range(10):
            run.add(f"r{i}", 5)
        run.steps(2)
        assert told(run) == ["r0, r1, r2, r3, r4, r5, r6 and 3 others each compute 1 token."]

    def test_one_decode(self, drive: Any) -> None:
        run = drive()
        run.add("A", 5)
        run.steps(2)
        assert told(run) == ["A computes 1 token."]

    def test_a_later_chunk_and_its_blocks(self, drive: Any) -> None:
        run = drive(long_prefill_token_threshold=8)
        run.add("A", 18)
        run.steps(2)
        assert told(run) == [
            "A takes 2 blocks; 4 are left free.",
            "A computes an 8-token chunk of what it still lacks.",
        ]

    def test_the_last_blocks(self, drive: Any) -> None:
        run = drive(long_prefill_token_threshold=16)
        run.add("A", 32)
        run.steps(2)
        assert told(run)[0] == "A takes 4 blocks, the last free ones."

    def test_whom_the_budget_passes_over(self, drive: Any) -> None:
        run = drive(num_gpu_blocks=30, max_num_batched_tokens=8)
        run.add("A", 4)
        run.add("B", 20)
        run.steps(2)
        run.add("C", 3)
        run.step()
        assert told(run)[-1] == (
            "C is not admitted: it needs 1 token of the step's budget and 0 are left, "
            "the token test."
        )

    def test_whom_a_self_victim_leaves_without_a_turn(self, case: Any) -> None:
        log = case("prio_all_tie").log
        sentences = {s.text: s.ids for s in explain_step(log, 3)}
        idle = "B, C and D compute nothing: a request ahead preempted itself, which ends the pass."
        assert sentences[idle] == ("B", "C", "D")


class TestVictims:
    """Who is thrown out, by which rule, and what it costs."""

    def test_under_priority_the_rule_is_the_key(self, case: Any) -> None:
        text = " ".join(s.text for s in explain_step(case("prio_refund_budget").log, 6))
        assert "h1 needs 1 block and 0 are free, so it fails and preempts L, the largest " in text
        assert "(priority, arrival_time) running" in text
        assert "The budget gets back the 8 tokens scheduled for it." in text

    def test_one_that_preempts_itself(self, case: Any) -> None:
        text = explain_step(case("outgrows_pool").log, 5)[0].text
        assert "preempts itself, being the last admitted: 10 blocks freed" in text
        assert text.endswith("The running requests behind it get nothing in this step.")

    def test_whose_cached_blocks_are_erased(self, drive: Any) -> None:
        run = drive()
        run.add("A", 9, out=1)
        run.add("B", 5, out=1)
        run.step()
        run.add("C", 32)
        run.step()
        text = "C takes over 2 cached blocks of A's and 1 cached block of B's: that content can "
        assert [t for t in told(run) if t.startswith(text)]


class TestWhyNot:
    """Each test that can refuse, with both sides of its inequality."""

    def test_slots(self, drive: Any) -> None:
        run = drive(max_num_seqs=2)
        for name in "ABC":
            run.add(name, 4)
        run.step()
        text = told(run)[-1]
        assert text.startswith("C is not admitted: all 2 slots")
        assert text.endswith("the slot test.")

    def test_tokens_without_chunks(self, drive: Any) -> None:
        run = drive(num_gpu_blocks=40, enable_chunked_prefill=False)
        run.add("A", 60)
        run.add("B", 20)
        run.step()
        assert "it needs 20 tokens of the step's budget and 4 are left" in told(run)[-1]

    def test_the_watermark_with_the_gate(self, drive: Any) -> None:
        run = drive(watermark=0.5)
        run.add("A", 16)
        run.add("B", 4)
        run.step()
        assert told(run)[-1] == (
            "B is not admitted: B needs 1 block for its whole sequence, with 0 cached and 4 free, "
            "and the watermark keeps 4 back: 5 > 4, the watermark test."
        )

    def test_the_watermark_without_the_gate(self, drive: Any) -> None:
        run = drive(watermark=0.5, scheduler_reserve_full_isl=False)
        run.add("A", 16)
        run.add("B", 4)
        run.step()
        assert told(run)[-1] == (
            "B is not admitted: B needs 1 block for its next chunk, with 0 cached and 4 free, "
            "and the watermark keeps 4 back: 5 > 4, the watermark test."
        )

    def test_the_next_chunk(self, drive: Any) -> None:
        run = drive(scheduler_reserve_full_isl=False)
        run.add("A", 29)
        run.add("B", 4)
        run.step()
        assert (
            "B needs 1 block for its next chunk, with 0 cached and 0 free: 1 > 0" in told(run)[-1]
        )

    def test_one_that_never_fits(self, case: Any) -> None:
        text = explain_step(case("hol_too_big_forever").log, 8)[-1].text
        assert text.endswith(
            "The whole pool has 10: huge can never be admitted, and everybody behind it waits "
            "with it."
        )


@pytest.mark.parametrize("name", ["abort_all_kinds", "cascade_priority", "long_threshold_resume",
                                  "prefix_shared_preempt", "rand_068", "watermark_resumed",
                                  "tight_010"])  # fmt: skip
def test_every_step_is_explained_and_every_name_is_known(case: Any, name: str) -> None:
    replayed = case(name)
    known = {request["id"] for request in replayed.recording.requests} | {"nobody"}
    for record in replayed.steps:
        sentences = explain(record, replayed.log.config)
        assert sentences
        for sentence in sentences:
            assert sentence.text.endswith(".")
            assert set(sentence.ids) <= known
        mentioned = {i for sentence in sentences for i in sentence.ids}
        assert set(record.scheduled) <= mentioned


def test_a_denial_reads_as_an_inequality() -> None:
    denial = Denial("A", "watermark", need=3, cached=2, headroom=4, free=8, reserved=1)
    assert (denial.asked, denial.limit) == (9, 7)
    assert denial.of_allocator
    assert not Denial("A", "slot", 1).of_allocator
