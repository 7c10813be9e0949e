"""Speculative decoding: tokens guessed by a drafter and verified by the next pass.

vLLM 0.28.0 v1/core/sched/scheduler.py (S). What drafts cost is in ``step.py`` (the budget) and
``kv_cache.py`` (the lookahead); where they come from is the executor's.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvsched.contract import Plan, Result
from kvsched.log import Log, Propose
from kvsched.vllm.config import Config
from kvsched.vllm.state import RequestState
from kvsched.vllm.step import Step


class DraftingStep(Step):
    """A budget of which every request's pass takes ``slots`` more, for its drafter.

    vLLM keeps two: a pass of k tokens costs k of max_num_scheduled_tokens, and k plus the slots of
    max_num_batched_tokens (S:490-499). The first is by default as large as the second, so the
    second always ends first: ``tokens`` is what of it the next request may take.
    """

    __slots__ = ("slots",)

    def __init__(self, tokens: int, slots: int) -> None:
        super().__init__(tokens - slots)
        self.slots = slots

    def give(self, r: RequestState, num_new_tokens: int) -> bool:
        self.tokens -= self.slots
        return super().give(r, num_new_tokens)

    def take_back(self, r: RequestState) -> int:
        tokens = super().take_back(r)
        self.tokens += self.slots if tokens else 0
        return tokens


class Drafts:
    """How a request's drafts go into a pass, and what comes of them."""

    def __init__(self, config: Config, log: Log) -> None:
        self.slots = config.draft_slots
        self.log = log

    def step(self, tokens: int) -> Step:
        """A step's budget."""
        return DraftingStep(tokens, self.slots)

    def pads(self, step: Step, running: list[RequestState]) -> bool:
        """Is an admission of one token padded with drafts to the others' length (S:937-951)?

        Yes if running requests were scheduled in this step and all of them decode, so that every
        row of the pass is equally long. The drafts are dummies: all of them will be wrong.
        """
        fresh = {*step.plan.admitted, *step.plan.resumed}
        rows = [r for r in running if r.id in step.scheduled and r.id not in fresh]
        return bool(rows) and not any(r.is_prefill_chunk for r in rows)

    def depart(self, plan: Plan, requests: Mapping[str, RequestState]) -> None:
        """The pass leaves with its drafts."""
        sampling = set(plan.sampling or ())
        for request_id in plan.scheduled:
            r = requests[request_id]
            r.num_spec_tokens = 0
            r.is_prefill_chunk = request_id not in sampling
            if r.num_drafts:
                plan.drafts[request_id] = r.num_drafts

    def settle(self, plan: Plan, result: Result, requests: Mapping[str, RequestState]) -> None:
        """The pass is back: rejected drafts are not computed; their blocks stay (S:1830-1848)."""
        for request_id, drafts in plan.drafts.items():
            r = requests.get(request_id)
            if r is not None and not r.status.is_finished and r.num_stale_output_tokens == 0:
                r.reject(drafts + 1 - len(result.tokens[request_id]))

    def keep(self, plan: Plan, result: Result, requests: Mapping[str, RequestState]) -> None:
        """Drafts proposed after a synchronous pass, for who got a token and goes on (S:2234)."""
        for request_id in plan.sampling or ():
            r = requests.get(request_id)
            if r is not None and not r.status.is_finished:
                r.num_spec_tokens = result.drafts.get(request_id, 0)
                self.log.add(Propose(request_id, r.num_spec_tokens))
