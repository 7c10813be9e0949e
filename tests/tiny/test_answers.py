"""Does a preemption change the answer? Not if all is restored; and each piece matters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvsched import sglang, vllm
from kvsched.conform import compare, load
from kvsched.conform.replay import replay
from kvsched.contract import BLOCK
from kvsched.device.tiny import (
    Answers,
    Llama,
    Part,
    Prompt,
    Shape,
    TinyExecutor,
    UnwrittenKV,
    alone,
    answer,
)
from kvsched.device.tiny.faults import FAULTS
from kvsched.device.tiny.scenes import OURS, WAYS, play, prompts, recorded
from kvsched.log import Preempt, Propose, Resume, Verify
from kvsched.vllm.state import RequestState
from kvsched.vllm.step import Step
from kvsched.whatif import Swap

Undisturbed = Callable[[str], dict[str, list[int]]]
Restored = Callable[[str, int, str], Answers]
BOTH = pytest.mark.parametrize("sampling", ["greedy", "seeded"])


class TestTheAnswerIsTheSame:
    """Token by token that of a run with nobody else and memory enough, for everybody."""

    @BOTH
    def test_preempted_before_decode(
        self, restored: Restored, undisturbed: Undisturbed, sampling: str
    ) -> None:
        run = restored("vLLM, cache off", 36, sampling)
        assert run.outs(OURS)[0] == 0
        assert run.tokens == undisturbed(sampling)

    @BOTH
    @pytest.mark.parametrize("way", ["vLLM, cache off", "vLLM", "copied to the host"])
    def test_preempted_after_outputs_exist(
        self, restored: Restored, undisturbed: Undisturbed, way: str, sampling: str
    ) -> None:
        run = restored(way, 52, sampling)
        assert run.outs(OURS) == [15]
        assert run.tokens == undisturbed(sampling)

    @BOTH
    @pytest.mark.parametrize("way", ["vLLM, cache off", "vLLM", "copied to the host"])
    def test_preempted_twice(
        self, restored: Restored, undisturbed: Undisturbed, way: str, sampling: str
    ) -> None:
        run = restored(way, 44, sampling)
        assert len(run.outs(OURS)) == 2
        assert run.tokens == undisturbed(sampling)

    def test_an_allocation_fails_during_recovery(
        self, restored: Restored, undisturbed: Undisturbed
    ) -> None:
        run = restored("vLLM, gate off", 40, "seeded")
        assert run.outs(OURS) == [3, 3, 7, 7, 7, 7]
        denials = [e.event.denial for e in run.log.of(Preempt)]
        assert {denial.test for denial in denials if denial is not None} == {BLOCK}
        assert run.tokens == undisturbed("seeded")

    def test_prefix_hits_are_part_of_the_recovery(
        self, restored: Restored, undisturbed: Undisturbed
    ) -> None:
        run = restored("vLLM", 48, "greedy")
        found = [m.found for m in run.moments if m.kind == "back"]
        assert found == [12, 12]
        assert run.tokens == undisturbed("greedy")

    def test_copied_out_and_back_nothing_is_computed_again(
        self, restored: Restored, undisturbed: Undisturbed
    ) -> None:
        run = restored("copied to the host", 44, "greedy")
        assert [e.event.tokens for e in run.log.of(Resume)] == [1, 1]
        assert run.tokens == undisturbed("greedy")

    @BOTH
    @pytest.mark.parametrize("pool", [36, 44, 48])
    def test_retracted_by_sglang(
        self, restored: Restored, undisturbed: Undisturbed, pool: int, sampling: str
    ) -> None:
        run = restored("SGLang", pool, sampling)
        assert len(run.outs(OURS)) == 2
        assert run.tokens == undisturbed(sampling)

    @BOTH
    def test_a_token_lost_in_flight_is_drawn_again_alike(
        self, restored: Restored, undisturbed: Undisturbed, sampling: str
    ) -> None:
        """SGLang's overlap loop drops the token of a request that was retracted meanwhile."""
        run = restored("SGLang, overlap", 44, sampling)
        out, again = run.log.of(Preempt)[0].event, run.log.of(Resume)[0].event
        assert again.computed + again.tokens == out.tokens_lost
        assert run.tokens == undisturbed(sampling)

    def test_preempted_between_draft_and_verification(
        self, restored: Restored, undisturbed: Undisturbed
    ) -> None:
        run = restored("vLLM, drafts", 48, "greedy")
        out = run.log.of(Preempt)[0]
        last = [e for e in run.log.of(Propose, Verify) if e.event.id == OURS and e.step < out.step]
        assert last[-1].event == Propose(OURS, 2)
        accepted = len(undisturbed("greedy")[OURS]) - len(
            [e for e in run.log.of(Verify) if e.event.id == OURS]
        )
        assert accepted > 0
        assert run.tokens == undisturbed("greedy")

    def test_in_float32_too(self, undisturbed: Undisturbed) -> None:
        low = Llama(dtype=torch.float32)
        run = play(low, "vLLM", 44, "greedy")
        assert len(run.outs(OURS)) == 2
        assert run.tokens == {p.id: alone(low, p) for p in prompts("greedy")}

    def test_asynchronously(self, model: Llama, undisturbed: Undisturbed) -> None:
        config = replace(WAYS["vLLM"].config(44), async_scheduling=True)
        run = answer(model, prompts("seeded"), config)
        assert run.outs(OURS)
        assert run.tokens == undisturbed("seeded")

    def test_enough_memory_throws_nobody_out(
        self, restored: Restored, undisturbed: Undisturbed
    ) -> None:
        run = restored("vLLM", 56, "greedy")
        assert run.moments == []
        assert run.tokens == undisturbed("greedy")


CAUGHT = {
    "pending token": ("vLLM, cache off", 40, "greedy"),
    "positions": ("vLLM", 44, "greedy"),
    "mask": ("vLLM, cache off", 40, "greedy"),
    "block table": ("vLLM", 40, "greedy"),
    "adapter": ("vLLM", 52, "greedy"),
    "generator": ("vLLM", 44, "seeded"),
    "guesses": ("vLLM, drafts", 48, "greedy"),
}
"""For each piece a run in which losing it is seen."""


class TestEachPieceMatters:
    """The negatives: what is not restored gives another token, not before it was lost."""

    @pytest.mark.parametrize("piece", CAUGHT)
    def test_not_restoring_it_is_caught(
        self, model: Llama, restored: Restored, undisturbed: Undisturbed, piece: str
    ) -> None:
        way, pool, sampling = CAUGHT[piece]
        run, whole = play(model, way, pool, sampling, FAULTS[piece]), undisturbed(sampling)
        assert restored(way, pool, sampling).tokens == whole
        pairs = zip(run.tokens[OURS], whole[OURS], strict=True)
        wrong = [place for place, (got, wanted) in enumerate(pairs) if got != wanted]
        assert wrong
        assert wrong[0] >= run.outs(OURS)[0]

    def test_no_piece_is_left_out(self) -> None:
        assert {"nothing", *CAUGHT} == set(FAULTS)

    def test_a_greedy_answer_does_not_read_the_generator(
        self, model: Llama, undisturbed: Undisturbed
    ) -> None:
        run = play(model, "vLLM", 44, "greedy", FAULTS["generator"])
        assert run.tokens == undisturbed("greedy")

    def test_a_pass_of_one_token_needs_no_mask(
        self, model: Llama, undisturbed: Undisturbed
    ) -> None:
        run = play(model, "copied to the host", 44, "greedy", FAULTS["mask"])
        assert run.tokens == undisturbed("greedy")

    def test_positions_from_zero_are_right_if_nothing_was_there(
        self, model: Llama, undisturbed: Undisturbed
    ) -> None:
        run = play(model, "SGLang", 36, "greedy", FAULTS["positions"])
        assert run.tokens == undisturbed("greedy")

    def test_a_stale_table_spoils_the_neighbours(
        self, model: Llama, undisturbed: Undisturbed
    ) -> None:
        """Ours writes where others live by now, and may itself be answered right."""
        run = play(model, "vLLM", 48, "greedy", FAULTS["block table"])
        whole = undisturbed("greedy")
        assert run.tokens[OURS] == whole[OURS]
        assert run.tokens["first"] != whole["first"]

    def test_a_draw_that_was_dropped_must_be_undone(
        self, model: Llama, undisturbed: Undisturbed
    ) -> None:
        class RunsOn(TinyExecutor):
            def sample(self, part: Part, logits: torch.Tensor) -> list[int]:
                part.kept.states.clear()
                return super().sample(part, logits)

        run = play(model, "SGLang, overlap", 44, "seeded", RunsOn)
        assert run.tokens != undisturbed("seeded")

    def test_equal_prompts_under_two_adapters_share_nothing(self, model: Llama) -> None:
        """K and V depend on the adapter, so a block's name must."""
        tokens = tuple(range(20))
        two = [Prompt("a", tokens, 6, adapter=1), Prompt("b", tokens, 6, adapter=2)]
        config = vllm.Config(30, 4, max_model_len=64)
        run = answer(model, two, config, at=(0, 3))
        assert run.tokens == {p.id: alone(model, p) for p in two}

        class Nameless(Prompt):
            def name(self, token: int) -> int:
                return token

        blind = [Nameless("a", tokens, 6, adapter=1), Nameless("b", tokens, 6, adapter=2)]
        assert answer(model, blind, config, at=(0, 3)).tokens["b"] != run.tokens["b"]


class Uncached(vllm.Scheduler):
    """vLLM's scheduler, but for the hashes of a pass that is taken back."""

    def preempt(self, v: RequestState, denial: Any, step: Step | None = None) -> None:
        if step is not None:
            computed = v.num_computed_tokens - step.scheduled.get(v.id, 0)
            self.kv.drop_hashes(v, computed // self.config.block_size)
        super().preempt(v, denial, step)


class TestKVThatNobodyComputed:
    """vLLM's recording ``prio_phantom_hash``, run on the model (case 43's other half)."""

    @pytest.fixture
    def scene(self, golden: Any) -> tuple[vllm.Config, list[Prompt], list[int]]:
        return recorded(load(golden / "prio_phantom_hash.json.gz"))

    def test_the_model_is_run_by_the_recorded_decisions(
        self, model: Llama, scene: Any, golden: Any
    ) -> None:
        """The engine recorded no answer; what it decided, to the block, is what the model gets."""
        recording = load(golden / "prio_phantom_hash.json.gz")
        run = answer(model, scene[1], scene[0], at=scene[2], wipe=False)
        assert compare(recording).divergence is None
        assert run.log.entries == replay(recording).log.entries
        assert [m.found for m in run.moments if m.kind == "back"] == [28]

    def test_it_is_noticed_where_pages_are_wiped(self, model: Llama, scene: Any) -> None:
        with pytest.raises(UnwrittenKV, match="L attends to KV that nobody computed"):
            answer(model, scene[1], scene[0], at=scene[2])

    def test_elsewhere_it_is_another_answer(self, model: Llama, scene: Any) -> None:
        config, asked, times = scene
        run = answer(model, asked, config, at=times, wipe=False)
        whole = {p.id: alone(model, p) for p in asked}
        assert run.outs("L") == [0]
        assert run.tokens["H"] == whole["H"]
        assert run.tokens["L"] != whole["L"]

    def test_without_the_hashes_of_the_pass_taken_back_it_is_the_same(
        self, model: Llama, scene: Any
    ) -> None:
        config, asked, times = scene
        run = answer(model, asked, config, at=times, policy=Uncached)
        assert run.outs("L") == [0]
        assert run.tokens == {p.id: alone(model, p) for p in asked}


class Workload(NamedTuple):
    """What is asked and when, of which engine, with how many blocks of four tokens."""

    prompts: list[Prompt]
    times: list[int]
    engine: str
    blocks: int
    budget: int
    caching: bool
    gate: bool


@st.composite
def workloads(draw: Callable[..., Any]) -> Workload:
    """Requests that may share a prefix or an adapter, in a pool for the largest and little more."""
    token = st.integers(0, Shape().vocab - 1)
    base = tuple(draw(st.lists(token, min_size=4, max_size=9)))
    asked = []
    for number in range(draw(st.integers(2, 4))):
        own = tuple(draw(st.lists(token, min_size=1, max_size=4)))
        outputs, adapter = draw(st.integers(6, 14)), draw(st.integers(0, 2))
        warmth = draw(st.sampled_from([0.0, 1.0]))
        prompt = base + own if draw(st.booleans()) else own
        asked.append(Prompt(f"r{number}", prompt, outputs, adapter, warmth, number))
    most = max(len(prompt.tokens) + prompt.max_tokens for prompt in asked)
    return Workload(
        asked,
        [draw(st.integers(0, 4)) for _ in asked],
        draw(st.sampled_from(["vllm", "async", "drafts", "swap", "sglang", "overlap"])),
        -(-most // 4) + 1 + draw(st.integers(0, 2)),
        draw(st.sampled_from([4, 7, 64])),
        draw(st.booleans()),
        draw(st.booleans()),
    )


def crowded(model: Llama, w: Workload) -> Answers:
    """The workload's run, checked against each request's own."""
    config: vllm.Config | sglang.Config
    if w.engine in ("sglang", "overlap"):
        config = sglang.Config(
            4 * w.blocks,
            page_size=4 if w.gate else 1,
            disable_radix_cache=not w.caching,
            context_length=64,
            init_new_token_ratio=0.05,
            clip_max_new_tokens_estimation=2,
            retract_decode_steps=1,
        )
    else:
        config = vllm.Config(
            w.blocks + 1,
            4,
            max_num_seqs=4,
            max_num_batched_tokens=w.budget,
            max_model_len=64,
            enable_prefix_caching=w.caching,
            scheduler_reserve_full_isl=w.gate,
            async_scheduling=w.engine == "async",
            speculative_method="ngram" if w.engine == "drafts" else "",
            num_speculative_tokens=2 if w.engine == "drafts" else 0,
        )
    policy = Swap if w.engine == "swap" else None
    overlap = w.engine == "overlap"
    run = answer(model, w.prompts, config, w.times, policy=policy, overlap=overlap)
    assert run.outcome.verdict == "all_done"
    for prompt in w.prompts:
        got, whole = run.tokens[prompt.id], alone(model, prompt)
        assert got == whole[: len(got)]
        assert len(got) == len(whole) or w.engine in ("sglang", "overlap")
    return run


class TestWhateverThePoolAndTheWorkload:
    """Random pools and workloads, either engine: everybody's answer is the undisturbed one.

    SGLang may cut an answer at its own limit (``Req.max_new_tokens``).
    """

    @settings(max_examples=5, deadline=None)
    @given(workload=workloads())
    def test_a_few(self, model: Llama, workload: Workload) -> None:
        crowded(model, workload)

    @pytest.mark.slow
    def test_many_and_most_are_disturbed(self, model: Llama) -> None:
        disturbed: list[bool] = []

        @settings(max_examples=300, deadline=None)
        @given(workload=workloads())
        def each(workload: Workload) -> None:
            disturbed.append(bool(crowded(model, workload).moments))

        each()
        assert sum(disturbed) > len(disturbed) / 2
