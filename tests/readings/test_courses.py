"""The course of each request: what it computed, what of it twice, when it got tokens."""

from __future__ import annotations

from collections import Counter, defaultdict
from random import Random
from typing import Any

import pytest

from kvsched import courses
from kvsched.courses import Course, Prefill
from kvsched.errors import InputError
from kvsched.log import Admit, Level, Log
from kvsched.steps import rebuild


def course(log: Log, name: str) -> Course:
    return next(course for course in courses.read(log) if course.id == name)


def emitted(log: Log) -> dict[str, list[int]]:
    """The steps in which each request got output, from the rebuilt steps."""
    steps = defaultdict(list)
    for record in rebuild(log):
        for name in record.emitted:
            steps[name].append(record.step)
    return steps


def held_twice(log: Log) -> Counter[str]:
    """By request, tokens computed at positions it had held before, from the rebuilt steps."""
    had: dict[str, set[int]] = defaultdict(set)
    twice: Counter[str] = Counter()
    for record in rebuild(log):
        for event in record.of(Admit):
            had[event.id].update(range(event.computed))
        for name, tokens in record.scheduled.items():
            end = record.live[name].num_computed_tokens
            computed = set(range(end - tokens, end))
            twice[name] += len(computed & had[name])
            had[name] |= computed
    return twice


class TestByHand:
    """Small runs, and what must be read off them."""

    def test_generated_tokens_are_computed_again_too(self, pressed: Any) -> None:
        """B had 24 tokens when it was thrown out, of which its prompt are 23."""
        b = course(pressed(enable_prefix_caching=False), "B")
        assert b.prefills == [Prefill(0, 0, 23, 0), Prefill(3, 0, 25, 24)]
        assert (b.tokens_lost, b.tokens_recomputed) == (24, 24)

    def test_what_it_finds_again_is_not_computed_again(self, pressed: Any) -> None:
        b = course(pressed(), "B")
        assert b.prefills == [Prefill(0, 0, 23, 0), Prefill(3, 20, 5, 4)]
        assert (b.own_hits, b.shared_hits, b.tokens_recomputed) == (20, 0, 4)

    def test_milestones(self, pressed: Any) -> None:
        a, b = courses.read(pressed())
        assert (a.admitted, a.runs, a.ended, a.reason) == ([0], [(0, 2)], 2, "length")
        assert (b.admitted, b.runs, b.ended, b.reason) == ([0, 3], [(0, 1), (3, 4)], 4, "length")
        assert (a.num_preemptions, b.num_preemptions) == (0, 1)
        assert (a.num_output_tokens, b.num_output_tokens) == (3, 4)

    def test_a_prompt_in_chunks(self, simulate: Any) -> None:
        a = course(simulate(("A", 20, 2, 0), max_num_batched_tokens=8), "A")
        assert a.prefills == [Prefill(0, 0, 8, 0), Prefill(1, 8, 8, 0), Prefill(2, 16, 4, 0)]
        assert (a.first_token, a.runs) == (2, [(2, 3)])

    def test_thrown_out_in_the_middle_of_its_prompt(self, simulate: Any) -> None:
        """B has 16 of 24 tokens; A's growth throws it out; the chunk of that step is taken back."""
        log = simulate(
            ("A", 15, 6, 0), ("B", 24, 1, 1),
            max_num_batched_tokens=17, long_prefill_token_threshold=8,
            scheduler_reserve_full_isl=False, enable_prefix_caching=False,
        )  # fmt: skip
        b = course(log, "B")
        assert b.tokens_recomputed == held_twice(log)["B"] == b.tokens_lost > 0
        assert sum(part.tokens for part in b.prefills) == 24 + b.tokens_lost

    def test_what_is_under_way_ends_with_the_log(self, drive: Any) -> None:
        run = drive()
        run.add("A", 7)
        run.steps(3)
        a = course(run.log, "A")
        assert (a.runs, a.num_output_tokens, a.ended, a.reason) == ([(0, 2)], 3, None, None)

    def test_an_aborted_request_ends_and_nobody_hears_why(self, drive: Any) -> None:
        run = drive()
        run.add("A", 7)
        run.steps(2)
        run.abort("A")
        run.step()
        a = course(run.log, "A")
        assert (a.runs, a.ended, a.reason) == ([(0, 1)], 2, None)

    def test_hits_on_blocks_of_others(self, drive: Any) -> None:
        run = drive()
        run.add("A", [(700, 8), (1, 3)], out=2)
        run.add("B", [(700, 8), (9, 5)], out=2)
        run.finish()
        b = course(run.log, "B")
        assert b.prefills == [Prefill(0, 8, 5, 0)]
        assert (b.shared_hits, b.own_hits, b.first_hits, b.first_queries) == (8, 0, 8, 13)

    def test_of_an_unknown_engine_there_are_none(self) -> None:
        log = Log()
        log.head("other", "1", {})
        with pytest.raises(InputError, match="of engine 'other'; known here: vllm, sglang"):
            courses.read(log)


def random_log(simulate: Any, seed: int, level: Level = Level.EVENTS) -> Log:
    """A run under pressure, its knobs drawn too."""
    rng = Random(seed)
    requests = [
        (f"r{k}", rng.randint(1, 20), rng.randint(1, 12), rng.randint(0, 12)) for k in range(6)
    ]
    return simulate(
        *requests,
        level=level,
        num_gpu_blocks=rng.randint(9, 12),
        max_num_batched_tokens=rng.choice((8, 64)),
        long_prefill_token_threshold=rng.choice((0, 5)),
        enable_prefix_caching=rng.random() < 0.5,
        scheduler_reserve_full_isl=rng.random() < 0.5,
        policy=rng.choice(("fcfs", "priority")),
    )


@pytest.mark.parametrize("seed", range(16))
class TestAgainstTheRebuiltSteps:
    """Event by event the same as step by step, in random runs under pressure."""

    def test_recomputed_tokens_and_output(self, simulate: Any, seed: int) -> None:
        log = random_log(simulate, seed)
        twice, steps = held_twice(log), emitted(log)
        for c in courses.read(log):
            assert c.tokens_recomputed == twice[c.id]
            assert [step for a, b in c.runs for step in range(a, b + 1)] == steps[c.id]

    def test_the_account_of_every_token(self, simulate: Any, seed: int) -> None:
        """All passes compute what was not found, what was lost, and never the last output.

        Output comes from prefills that reach the newest token and from decodes, which compute one
        token each.
        """
        for c in courses.read(random_log(simulate, seed)):
            gave = {step for first, last in c.runs for step in range(first, last + 1)}
            decodes = len(gave - {part.step for part in c.prefills})
            prefilled = sum(part.tokens for part in c.prefills)
            written = c.num_prompt_tokens + c.num_output_tokens - 1
            assert prefilled + decodes == written - c.first_hits + c.tokens_recomputed

    def test_milestones_are_enough(self, simulate: Any, seed: int) -> None:
        every = random_log(simulate, seed)
        assert courses.read(random_log(simulate, seed, Level.METRICS)) == courses.read(every)


def test_the_random_runs_preempt(simulate: Any) -> None:
    again = [
        sum(c.tokens_recomputed for c in courses.read(random_log(simulate, seed)))
        for seed in range(16)
    ]
    assert sum(count > 0 for count in again) >= 10


@pytest.mark.parametrize("name", ["tight_058", "seed_a_finish6"])
def test_the_recordings_agree(case: Any, name: str) -> None:
    """Found blocks that were lost are computed, by the request, for the first time: they count."""
    log = case(name).log
    twice = held_twice(log)
    found = courses.read(log)
    assert {c.id: c.tokens_recomputed for c in found} == {c.id: twice[c.id] for c in found}
    assert sum(twice.values())
