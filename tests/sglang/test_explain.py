"""What SGLang's scheduler decided, in sentences: each number is the log's."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from kvsched.conform.sglang.replay import replay
from kvsched.errors import InputError
from kvsched.explain import explain_log, explain_step
from kvsched.explain.sglang import explain
from kvsched.explain.telling import Sentence
from kvsched.log import Level, Log
from kvsched.sglang import rebuild
from kvsched.sglang.events import Offer, Retract


def told(run: Any, step: int | None = None) -> list[str]:
    """The sentences of a step of a hand-driven run, by default the last."""
    at = len(run.log.times) - 2 if step is None else step
    return [sentence.text for sentence in explain_step(run.log, at)]


@pytest.fixture(scope="module")
def recorded(content: Callable[[str], Any]) -> Callable[[str, int], Log]:
    """The log of a recorded loop by file and place."""
    return lambda name, place: replay(content(name)["runs"][place]).log


@pytest.fixture(scope="module")
def sentences(recorded: Any) -> list[str]:
    return explain_log(recorded("loop", 0), 70)


class TestARetraction:
    """Run 0 of the normal loop, step 70: one request goes, and the ratio jumps."""

    def test_the_check_that_failed_and_what_it_freed(self, sentences: list[str]) -> None:
        assert sentences[0] == (
            "The next tokens need 1 page and 0 are free (1 > 0), so request 2 is retracted, which "
            "has the fewest outputs, of equals the longest prompt: 13 pages freed, 91 tokens of KV "
            "lost, retraction_count 1; pages not free 100.0 % before, 80.6 % after."
        )

    def test_the_ratio_before_and_after_with_the_line_the_engine_prints(
        self, sentences: list[str]
    ) -> None:
        assert sentences[1] == (
            "Requests 0 and 1 are kept; 52 tokens came free, and new_token_ratio is set to the "
            "estimate over those kept: 0.0098 -> 0.7929. SGLang logs: “KV cache pool is full. "
            "Retract requests. #retracted_reqs: 1, #new_tokens_gained: 52, #new_token_ratio: "
            "0.0098 -> 0.7929”."
        )

    def test_the_victim_goes_to_the_end_of_the_queue(self, sentences: list[str]) -> None:
        assert "Request 2 joins the end of the queue again." in sentences

    def test_the_head_is_refused_with_both_sides(self, sentences: list[str]) -> None:
        assert sentences[-1] == (
            "Request 4 stays in the queue: it asks for 139 tokens (what it lacks, the outputs it "
            "may still give, and a page); 116 are free or evictable and 12 spoken for, one of them "
            "because the test is strict: 139 > 104, the reservation test."
        )

    def test_only_what_concerns_a_request(self, recorded: Any) -> None:
        log = recorded("loop", 0)
        assert len(explain_log(log, 70, "4")) == 1
        assert explain_log(log, 70, "7") == ["Nothing happens to 7 in step 70."]
        with pytest.raises(InputError, match="--request 8: no such request; known: 0, 1, 2"):
            explain_log(log, 70, "8")

    def test_who_has_the_worst_priority_where_that_is_the_policy(self, drive: Any) -> None:
        run = drive(
            max_total_tokens=40,
            retraction_policy="priority",
            enable_priority_scheduling=True,
            disable_priority_preemption=True,
        )
        run.add("A", 8, 20, priority=1)
        run.add("B", 8, 20, priority=2)
        run.finish()
        step = next(it.step for it in rebuild(run.log) if it.of(Retract))
        before, text, *_ = told(run, step)
        assert before == "For A the tree gives up 8 pages of A's: they can no longer be found."
        assert "A is retracted, which has the worst priority" in text

    def test_one_victim_after_the_other(self, recorded: Any) -> None:
        sentences = explain_log(recorded("loop", 57), 27)
        assert sum(s.startswith("That is not enough, so request") for s in sentences) == 3


class TestThePass:
    """What the adder answers."""

    def test_added_with_what_is_left_and_the_verdict(self, drive: Any) -> None:
        run = drive(max_total_tokens=64)
        run.add("A", 20, 10)
        run.step()
        assert told(run) == [
            "A arrives with a prompt of 20 tokens and may generate 10; it joins the end of the "
            "queue.",
            "A prefill pass begins: beyond what everyone who runs is expected to need there are "
            "64 tokens of memory; it may compute 16,384 tokens.",
            "A is offered to the adder and added (31 < 64) with 20 tokens from 0 on; 33 tokens of "
            "memory and 16,364 to compute are left. CONTINUE: the next one may be tried.",
            "A is admitted with 0 hit tokens and a 20-token chunk; it takes 20 pages, 44 left "
            "free.",
            "The tree takes over 20 pages of A's.",
        ]

    def test_refused_for_memory_is_no_token(self, drive: Any) -> None:
        run = drive(max_total_tokens=64)
        run.add("A", 20, 10)
        run.add("B", 20, 30)
        run.step()
        (text,) = [s for s in told(run) if s.startswith("B is offered")]
        assert "it asks for 51 tokens" in text
        assert "64 are free or evictable and 32 spoken for" in text
        assert "51 > 32, the reservation test. NO_TOKEN: memory is spoken for" in text

    def test_refused_for_what_the_pass_may_compute_is_other(self, drive: Any) -> None:
        run = drive(max_prefill_tokens=24)
        for name in "ABC":
            run.add(name, 20, 4)
        run.step()
        assert any(
            "B is offered to the adder and refused: it needs 21 tokens of what the pass may "
            "compute and 4 are left: 21 > 4, the token test. OTHER: " in s
            for s in told(run)
        )

    def test_untried_after_the_last_verdict(self, drive: Any) -> None:
        run = drive(chunked_prefill_size=16)
        run.add("A", 20, 4)
        run.add("B", 4, 4)
        run.step()
        assert told(run)[-1] == (
            "B stays in the queue: it needs 1 token of what the pass may compute and 0 are left: "
            "1 > 0, the token test."
        )
        assert "A stands between two chunks from now on." in told(run)
        run.step()
        assert any(s.startswith("A, between two chunks, goes first") for s in told(run))

    def test_never_admissible(self, drive: Any) -> None:
        run = drive(max_total_tokens=64)
        run.add("A", 63, 1)
        run.step()
        assert any("The whole pool has 64: A can never be admitted" in s for s in told(run))

    def test_no_slot(self, drive: Any) -> None:
        run = drive(max_running_requests=1)
        for name in "AB":
            run.add(name, 4, 4)
        run.steps(2)
        text = "B stays in the queue: it would be number {} of this pass, and {} of 1 slots "
        assert text.format(2, 1) + "is left: 2 > 1, the slot test." in told(run, 0)
        assert text.format(1, 0) + "are left: 1 > 0, the slot test." in told(run, 1)

    def test_a_place_is_taken_and_its_owner_lost(self, recorded: Any) -> None:
        sentences = explain_log(recorded("loop", 64), 19)
        assert any(s.startswith("Request 0 is preempted: 15 pages freed") for s in sentences)
        assert any("than request 0 and takes the place" in s for s in sentences)
        assert any(s.startswith("Request 0 gave way and nobody was admitted") for s in sentences)


class TestAround:
    """Endings, pages, the overlap loop."""

    def test_a_token_in_flight_is_dropped(self, recorded: Any) -> None:
        assert explain_log(recorded("loop_overlap", 2), 65)[-1] == (
            "The pass of step 64 comes back; the token of request 2 is dropped, as it was thrown "
            "out while the pass ran."
        )

    def test_the_last_survivor(self, drive: Any) -> None:
        run = drive(max_total_tokens=32)
        run.add("A", 8, 16)
        run.steps(2)
        run.scheduler.kv.pool.take(len(run.scheduler.kv.pool) - 2)
        run.steps(4)
        aborting = next(it.step for it in rebuild(run.log) if it.of(Retract))
        sentences = told(run, aborting)
        assert sentences[0].startswith("A is the last one left and its next token does not fit")
        assert sentences[1].startswith("Nobody is kept")

    def test_a_timeout(self, recorded: Any) -> None:
        sentences = explain_log(recorded("loop_overlap", 5), 47)
        assert "Request 6 has waited longer than 19.5 and is turned away." in sentences

    def test_an_abort(self, drive: Any) -> None:
        run = drive()
        run.add("A", 8, 16)
        run.step()
        run.abort("A")
        run.abort("Z")
        run.step()
        assert told(run)[:2] == [
            "A is aborted; it was PREFILLED and ends with its next token.",
            "An abort of Z has no effect: it is unknown or has finished.",
        ]
        assert told(run)[-1] == (
            "A ends, as its client asked: the tree keeps 1 page of its own, 0 pages come free."
        )

    def test_an_idle_engine(self, drive: Any) -> None:
        run = drive()
        run.step()
        assert told(run) == ["Nothing happens: no request is live."]

    def test_every_offer_and_every_retraction_of_every_recorded_loop_is_told(
        self, content: Any
    ) -> None:
        """Each verdict by its name, both sides of each refusal, each ratio to four places."""
        for run in content("loop_overlap")["runs"]:
            log = replay(run).log
            for it in rebuild(log):
                wrong = [s for s in _untold(it, explain(it, log.config)) if s]
                assert wrong == [], f"{run['kind']} {run['seed']} step {it.step}"

    def test_a_log_of_milestones_cannot_tell(self) -> None:
        log = Log(Level.METRICS)
        log.head("sglang", "0.5.18", {"max_total_tokens": 8})
        with pytest.raises(InputError, match="keeps milestones alone"):
            explain_step(log, 0)


def _untold(it: Any, sentences: list[Sentence]) -> list[str]:
    texts = [s.text for s in sentences]
    offers = sum(bool(re.search(r"offered to the adder and (added|refused)", t)) for t in texts)
    wrong = [] if offers == len(it.of(Offer)) else [f"{offers} of {len(it.of(Offer))} offers"]
    for event in it.of(Retract):
        change = f"{it.ratio_before:.4f} -> {event.ratio:.4f}. SGLang logs"
        wrong += [] if any(change in t for t in texts) else [f"retraction untold: {texts}"]
    denial = it.denial
    if denial is not None and denial.test not in ("policy",):
        sides = f"{denial.asked} > {denial.limit}"
        wrong += [] if any(sides in t.replace(",", "") for t in texts) else [f"{sides}: {texts}"]
    return wrong
