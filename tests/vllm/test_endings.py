"""How a request ends, in which order the tests are made, and one status nobody ever gets."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from kvsched.contract import NextChunk, Reset
from kvsched.log import ChunkEnd, Finish, Idle, Preempt
from kvsched.request import Stop
from kvsched.vllm.status import FINISH_REASON, LEGAL, RequestStatus

rule = partial(pytest.mark.rule, engine="vLLM", version="0.28.0", flag="", default=None)
SCHEDULER = "vllm/v1/core/sched/scheduler.py"
UTILS = "vllm/v1/core/sched/utils.py"
CHECK = "kvsched.vllm.endings.check_stop"
EOS = 77


def ends(run: Any, most: int = 30) -> Finish:
    """Step until the first request ends."""
    for _ in range(most):
        finished = run.step().of(Finish)
        if finished:
            return finished[0]
    raise AssertionError("nobody ends")


def told(event: Finish) -> tuple[str, str, int | str | None]:
    return event.status.removeprefix("FINISHED_"), event.reason, event.stop_reason


class TestTheOrderOfTheTests:
    """min_tokens, EOS, stop tokens, length, repetition."""

    @rule(source=(f"{UTILS}:104-106", f"{UTILS}:112-117"), ours=CHECK)
    def test_eos_as_the_last_allowed_token_is_a_stop(self, hand: Any, case2: Any) -> None:
        """EOS as the last allowed token is ``stop``, not ``length``; its stop_reason is null."""
        run = hand()
        run.add("A", 4, out=1, stop=Stop(EOS))
        run.says("A", EOS)
        assert told(ends(run)) == ("STOPPED", "stop", None)
        recorded = case2("fin_eos_and_max").recording
        assert recorded.trace[-1]["finished"] == [["a", "stop", None]]

    @rule(source=f"{UTILS}:108-111", ours=CHECK)
    def test_a_stop_token_is_named(self, hand: Any, case2: Any) -> None:
        """A stop token gives its own id as stop_reason, also as the last allowed token."""
        run = hand()
        run.add("A", 4, out=1, stop=Stop(None, (EOS,)))
        run.says("A", EOS)
        assert told(ends(run)) == ("STOPPED", "stop", EOS)
        assert case2("fin_stop_id").steps[3].of(Finish)[0].stop_reason == 78

    def test_eos_comes_before_the_stop_tokens(self, hand: Any) -> None:
        run = hand()
        run.add("A", 4, stop=Stop(EOS, (EOS,)))
        run.says("A", EOS)
        assert told(ends(run)) == ("STOPPED", "stop", None)

    def test_eos_is_a_token_like_others_unless_it_is_said_to_end(self, hand: Any) -> None:
        run = hand()
        run.add("A", 4, out=3)
        run.says("A", EOS)
        assert told(ends(run)) == ("LENGTH_CAPPED", "length", None)

    @rule(source=(f"{UTILS}:112-117", f"{UTILS}:119-128"), ours=CHECK)
    def test_length_comes_before_repetition(self, hand: Any) -> None:
        """A repetition that the last allowed token completes is ``length``."""
        run = hand()
        run.add("A", 4, out=2, stop=Stop(repetition=(1, 1, 2)))
        run.says("A", EOS)
        run.step()
        run.says("A", EOS)
        assert told(ends(run)) == ("LENGTH_CAPPED", "length", None)

    @rule(source=f"{SCHEDULER}:1893-1919", ours="kvsched.contract.World.accepts")
    @pytest.mark.parametrize("out", [1, 9], ids=["at the length", "at EOS"])
    def test_a_rejected_token_beats_every_stop(self, hand: Any, case2: Any, out: int) -> None:
        """If the grammar rejects the tokens the end is an error, whatever they stopped at."""
        run = hand()
        run.add("A", 4, out=out, grammar="ready", stop=Stop(EOS))
        run.world.rejected.add(EOS)
        run.says("A", EOS)
        assert told(ends(run)) == ("ERROR", "error", None)
        assert case2("fin_grammar_rejects_last").recording.trace[-1]["finished"][0][1] == "error"

    @rule(source=f"{SCHEDULER}:1917-1919")
    def test_a_rejected_token_ends_a_session_too(self, hand: Any) -> None:
        """A session whose tokens the grammar rejects is over, even if a chunk is queued."""
        run = hand()
        run.add("S", 4, grammar="ready", session=True, stop=Stop(EOS))
        run.world.rejected.add(EOS)
        run.says("S", EOS)
        run.chunk("S", 3, mid=True)
        step = run.step()
        assert ([told(e)[0] for e in step.of(Finish)], step.of(ChunkEnd)) == (["ERROR"], [])
        assert (step.free_end, step.live_end) == (8, {})


class TestMinTokens:
    """Before so many outputs nothing ends a request."""

    @rule(source=f"{UTILS}:100-101", flag="min_tokens", default=0, ours=CHECK)
    def test_nothing_ends_it_before(self, hand: Any) -> None:
        """Below min_tokens neither EOS nor a stop token nor max_tokens ends a request."""
        run = hand()
        run.add("A", 4, out=2, stop=Stop(EOS, (), 4))
        run.says("A", EOS)
        run.step()
        assert [len(step.of(Finish)) for step in run.steps(3)] == [0, 0, 1]

    @rule(
        source=(f"{UTILS}:100-101", f"{SCHEDULER}:608-625"),
        flag="min_tokens",
        default=0,
        ours=CHECK,
    )
    def test_beyond_the_models_length_it_runs_for_ever(self, hand: Any, case2: Any) -> None:
        """With min_tokens beyond max_model_len a request stays RUNNING, idle, with its blocks."""
        run = hand(max_model_len=8)
        run.add("A", 5, out=20, stop=Stop(min_tokens=20))
        run.steps(3)
        for step in run.steps(5):
            assert (step.scheduled, step.of(Idle)) == ({}, [Idle(("A",))])
            assert (step.live["A"][:3], step.free) == (("RUNNING", 7, 8), 6)
        recorded = case2("fin_min_tokens_model_len").steps
        assert [step.step for step in recorded if "a" in step.running][-1] == 24

    @rule(source=(f"{SCHEDULER}:455-474", f"{SCHEDULER}:608-625"), flag="min_tokens", default=0,
          ours="kvsched.vllm.Scheduler.running_tokens")  # fmt: skip
    def test_recomputed_it_gets_one_token_beyond_the_models_length(self, hand: Any) -> None:
        """Preempted there, it comes back with a token more than max_model_len, and idles again."""
        run = hand(max_model_len=8, enable_prefix_caching=False)
        run.add("A", 5, out=20, stop=Stop(min_tokens=20))
        run.steps(4)
        run.add("B", 7, out=1)
        run.control(Reset(running=True))
        step = run.step()
        assert ([e.id for e in step.of(Preempt)], step.scheduled) == (["A"], {"A": 8, "B": 7})
        assert step.live_end["A"][1:3] == (8, 9)
        assert [step.scheduled for step in run.steps(2)] == [{}, {}]


class TestRepetition:
    """The tail of the outputs is some pattern, often enough."""

    @rule(source=f"{UTILS}:28-60", flag="repetition_detection", default=None, ours=CHECK)
    @pytest.mark.parametrize(
        ("sizes", "outputs", "at"),
        [
            ((1, 1, 3), [5, 5, 5], 3),
            ((2, 1, 2), [5, 6, 5, 6], 4),
            ((2, 2, 2), [5, 5, 5, 5], 4),
            ((2, 0, 2), [4, 5, 5], 3),
            ((3, 2, 2), [1, 2, 3, 1, 2, 3], 6),
        ],
    )
    def test_a_pattern_at_the_tail(
        self, hand: Any, sizes: tuple[int, int, int], outputs: list[int], at: int
    ) -> None:
        """Ends at the first output whose tail is a pattern of an allowed size, min_count times."""
        run = hand()
        run.add("A", 4, stop=Stop(repetition=sizes))
        for number, token in enumerate(outputs, 1):
            run.says("A", token)
            finished = run.step().of(Finish)
            assert bool(finished) == (number == at)
        assert told(finished[0]) == ("REPETITION", "repetition", "repetition_detected")

    @pytest.mark.parametrize("sizes", [(0, 0, 2), (1, 1, 1), (1, 2, 2)])
    def test_sizes_that_mean_never(self, hand: Any, sizes: tuple[int, int, int]) -> None:
        run = hand()
        run.add("A", 4, out=4, stop=Stop(repetition=sizes))
        for _ in range(4):
            run.says("A", 5)
            step = run.step()
        assert told(step.of(Finish)[0])[0] == "LENGTH_CAPPED"

    def test_only_the_outputs_of_this_chunk_count(self, hand: Any) -> None:
        run = hand()
        run.add("S", 4, out=2, session=True, stop=Stop(repetition=(1, 1, 3)))
        run.says("S", 5)
        run.step()
        run.says("S", 5)
        run.step()
        run.control(NextChunk("S", ((5, 1),), 0, Stop(repetition=(1, 1, 3)), 9))
        run.says("S", 5)
        step = run.step()
        assert (step.of(ChunkEnd), step.emitted) == ([], {"S": 1})


@rule(source=("vllm/v1/request.py:365", "vllm/v1/request.py:389"), ours="kvsched.vllm.status.LEGAL")
def test_finished_ignored_is_never_assigned() -> None:
    """FINISHED_IGNORED has a place and a reason, ``length``, and nothing ever assigns it."""
    ignored = RequestStatus.FINISHED_IGNORED
    assert FINISH_REASON[ignored] == "length"
    assert not any(ignored in move for move in LEGAL)
