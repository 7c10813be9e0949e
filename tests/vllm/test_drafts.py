"""Speculative decoding: what drafts cost, and what a wrong one leaves behind."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from kvsched.contract import TOKEN, Plan, Result
from kvsched.engine import Engine
from kvsched.errors import InputError
from kvsched.log import Allocate, Log, Propose, Verify
from kvsched.request import Request
from kvsched.steps import StepRecord, rebuild
from kvsched.vllm import AsyncScheduler, Config, Scheduler
from kvsched.workload import Arrival

SCHEDULER = "vllm/v1/core/sched/scheduler.py"
OURS = "kvsched.vllm.drafts"

rule = partial(
    pytest.mark.rule, engine="vLLM", version="0.28.0", flag="speculative_config", default="None"
)


class Drafter:
    """Proposes ``drafts`` tokens after each pass and finds the first ``right`` of them right."""

    def __init__(self, drafts: int, right: int) -> None:
        self.drafts, self.right = drafts, right

    def due(self) -> bool:
        return False

    def __call__(self, plan: Plan) -> Result:
        ids = plan.sampling or ()
        accepted = {i: min(self.right, plan.drafts.get(i, 0)) for i in ids}
        tokens = {i: list(range(9_000_000, 9_000_001 + accepted[i])) for i in ids}
        return Result(tokens, drafts=dict.fromkeys(ids, self.drafts))


def steps_of(
    *requests: tuple[str, int, int, int], right: int = 1, method: str = "draft_model", **knobs: Any
) -> list[StepRecord]:
    """Requests (name, when, prompt, outputs) under three drafts a step."""
    log = Log()
    values = {
        "num_gpu_blocks": 33,
        "block_size": 4,
        "max_num_seqs": 4,
        "max_num_batched_tokens": 64,
    }
    config = Config(
        **{**values, "max_model_len": 64, **knobs},
        speculative_method=method,
        num_speculative_tokens=3,
    )
    kind = AsyncScheduler if config.async_scheduling else Scheduler
    arrivals = [
        Arrival(at, Request(name, ((1000 * ord(name), prompt),), out))
        for name, at, prompt, out in requests
    ]
    lag = config.max_concurrent_batches - 1
    engine = Engine(kind(config, log), arrivals, log, executor=Drafter(3, right), lag=lag)
    while not engine.done:
        engine.step()
    return list(rebuild(log))


class TestVerification:
    """A pass computes the newest token and the drafts after it."""

    @rule(source=f"{SCHEDULER}:1830-1848", ours=f"{OURS}.Drafts.settle")
    def test_rejected_drafts_are_not_computed_after_all(self) -> None:
        """Rejected drafts are taken off the computed tokens; the blocks taken for them stay."""
        _, second, *_ = steps_of(("a", 0, 9, 12))
        assert (second.scheduled, second.drafts, second.sampling) == ({"a": 4}, {"a": 3}, {"a": 2})
        assert (second.live["a"][1:3], second.live_end["a"][1:3]) == ((13, 10), (11, 12))
        assert second.free == second.free_end
        assert second.of(Verify) == [Verify("a", 3)]

    def test_more_right_drafts_more_tokens(self) -> None:
        by_right = [len(steps_of(("a", 0, 9, 12), right=right)) for right in (0, 1, 3)]
        assert by_right == sorted(by_right, reverse=True)
        assert by_right[0] > by_right[2]

    def test_tokens_after_the_end_are_trimmed(self) -> None:
        *_, last = steps_of(("a", 0, 9, 4), right=3)
        assert (last.sampling, last.emitted) == ({"a": 4}, {"a": 3})

    def test_proposals_are_kept_for_who_goes_on(self) -> None:
        *_, last = steps_of(("a", 0, 9, 4), right=3)
        assert last.of(Propose) == []

    def test_asynchronously_they_are_expected_unseen(self) -> None:
        steps = steps_of(("a", 0, 9, 8), async_scheduling=True)
        assert steps[0].live["a"].num_spec_tokens == 3
        assert steps[1].live["a"].num_output_placeholders == 1 + 4
        assert sum(step.emitted.get("a", 0) for step in steps) == 8


class TestTheirPrice:
    """Drafts take from the budget and from the pool."""

    @rule(source=f"{SCHEDULER}:490-499", ours=f"{OURS}.DraftingStep")
    def test_a_draft_model_takes_a_slot_a_request(self) -> None:
        """A drafter's slots come out of max_num_batched_tokens, on top of the tokens scheduled."""
        [first, *_] = steps_of(("a", 0, 7, 2), ("b", 0, 7, 2), max_num_batched_tokens=16)
        assert first.scheduled == {"a": 7, "b": 7}
        [first, *_] = steps_of(("a", 0, 7, 2), ("b", 0, 8, 2), max_num_batched_tokens=16)
        assert first.scheduled == {"a": 7, "b": 7}
        [first, *_] = steps_of(
            ("a", 0, 7, 2), ("b", 0, 8, 2), max_num_batched_tokens=16, method="ngram"
        )
        assert first.scheduled == {"a": 7, "b": 8}

    @rule(
        source="vllm/v1/core/kv_cache_manager.py:347-568",
        ours="kvsched.vllm.kv_cache.KVCacheManager.grow",
    )
    def test_a_draft_model_has_blocks_ahead(self) -> None:
        """A draft model has slots for its tokens allocated ahead; an n-gram lookup needs none."""
        took = {
            method: len(steps_of(("a", 0, 8, 2), method=method)[0].of(Allocate)[0].blocks)
            for method in ("ngram", "draft_model")
        }
        assert took == {"ngram": 2, "draft_model": 3}


class TestPadding:
    """One token among rows of four would make the pass uneven."""

    @rule(source=f"{SCHEDULER}:937-951", ours=f"{OURS}.Drafts.pads")
    def test_an_admission_of_one_token_is_padded(self) -> None:
        """An admission of one token beside decodes gets dummy drafts, all of them rejected."""
        steps = steps_of(("a", 0, 9, 20), ("b", 2, 1, 4))
        assert (steps[2].scheduled, steps[2].drafts) == ({"a": 4, "b": 4}, {"a": 3, "b": 3})
        alone, *_ = steps_of(("b", 0, 1, 4))
        assert alone.scheduled == {"b": 1}

    def test_a_pad_that_does_not_fit_ends_the_pass(self) -> None:
        steps = steps_of(("a", 0, 6, 20), ("b", 2, 1, 4), max_num_batched_tokens=8)
        denial = steps[2].denial
        assert denial is not None
        assert (denial.id, denial.test, denial.need, denial.free) == ("b", TOKEN, 4, 2)


class TestTheirKnobs:
    """Who drafts, and how much."""

    def test_a_method_needs_a_number_and_the_other_way_round(self) -> None:
        with pytest.raises(InputError, match="num_speculative_tokens"):
            Config(33, speculative_method="ngram")
        with pytest.raises(InputError, match="speculative_method"):
            Config(33, speculative_method="oracle", num_speculative_tokens=3)
