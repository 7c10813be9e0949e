"""Three clients and too little memory: the runs of chapter 8, its tests and its widget."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from kvsched import sglang, vllm
from kvsched.conform.recording import Recording
from kvsched.device.tiny.executor import TinyExecutor
from kvsched.device.tiny.model import Llama, Shape
from kvsched.device.tiny.runs import Answers, Config, answer
from kvsched.device.tiny.sequence import Prompt
from kvsched.whatif import Swap

OURS = "ours"
POOLS = range(36, 60, 4)
"""Tokens the pool holds."""
SAMPLING = {"greedy": 0.0, "seeded": 1.0}
"""The temperature of each."""


def prompts(sampling: str) -> list[Prompt]:
    """Ours comes last and is therefore the first to be thrown out; each has its own adapter."""
    rng = Random(8)
    lengths = {"first": (9, 25, 2), "second": (7, 9, 0), OURS: (10, 16, 1)}
    return [
        Prompt(
            name,
            tuple(rng.randrange(Shape().vocab) for _ in range(prompt)),
            outputs,
            adapter,
            SAMPLING[sampling],
            seed=number,
        )
        for number, (name, (prompt, outputs, adapter)) in enumerate(lengths.items())
    ]


def _vllm(pool: int, **knobs: Any) -> vllm.Config:
    """Blocks of four tokens, and prefills in chunks of six tokens a step for all together."""
    values = {"max_num_seqs": 3, "max_num_batched_tokens": 6, "max_model_len": 64}
    return vllm.Config(pool // 4 + 1, 4, **{**values, **knobs})


def _sglang(pool: int) -> sglang.Config:
    """Estimates so low that everybody is admitted."""
    return sglang.Config(
        pool,
        context_length=64,
        init_new_token_ratio=0.05,
        clip_max_new_tokens_estimation=2,
        retract_decode_steps=1,
    )


class Way(NamedTuple):
    """How a request is thrown out and comes back."""

    config: Callable[[int], Config]
    about: str
    policy: type[vllm.Scheduler] | None = None
    overlap: bool = False


WAYS = {
    "vLLM, cache off": Way(
        lambda pool: _vllm(pool, enable_prefix_caching=False),
        "All is computed again, in chunks.",
    ),
    "vLLM": Way(_vllm, "What the prefix cache kept is found, the rest is computed again."),
    "vLLM, gate off": Way(
        lambda pool: _vllm(pool, enable_prefix_caching=False, scheduler_reserve_full_isl=False),
        "It is let in by its first chunk, and thrown out again while it recovers.",
    ),
    "vLLM, drafts": Way(
        lambda pool: _vllm(pool, speculative_method="ngram", num_speculative_tokens=2),
        "Two tokens are guessed after each output, and verified by the next pass.",
    ),
    "copied to the host": Way(
        _vllm, "A policy vLLM does not have: its KV is copied out and back.", policy=Swap
    ),
    "SGLang": Way(_sglang, "Retracted, and prefilled again with its outputs."),
    "SGLang, overlap": Way(
        _sglang, "As before; a token in flight when it is retracted is lost.", overlap=True
    ),
}


def play(
    model: Llama, way: str, pool: int, sampling: str, kind: type[TinyExecutor] = TinyExecutor
) -> Answers:
    """One run. Pages are wiped when handed out, unless ``kind`` is one that breaks something."""
    how, wipe = WAYS[way], kind is TinyExecutor
    return answer(
        model,
        prompts(sampling),
        how.config(pool),
        kind=kind,
        policy=how.policy,
        overlap=how.overlap,
        wipe=wipe,
    )


def recorded(recording: Recording) -> tuple[vllm.Config, list[Prompt], list[int]]:
    """A recording's own requests with prompts drawn for the model; config, prompts, times."""
    rng = Random(recording.name)
    asked, times = [], []
    for request in recording.requests:
        length = sum(count for _, count in request["prompt"])
        tokens = tuple(rng.randrange(Shape().vocab) for _ in range(length))
        most, priority = request["max_tokens"], request["priority"]
        asked.append(Prompt(request["id"], tokens, most, priority=priority))
        times.append(request["arrival_step"])
    return vllm.Config.from_dict(recording.config), asked, times
