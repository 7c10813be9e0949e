"""The scheduler's knobs, by vLLM's own names and with vLLM 0.28.0's defaults and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from kvsched.errors import InputError

POLICIES = ("fcfs", "priority")
FAILURE_POLICIES = ("recompute", "fail")
KV_ROLES = ("", "kv_producer", "kv_consumer", "kv_both")
DRAFTERS = ("", "ngram", "draft_model", "pard")
LIMIT = 2**31 - 1
MOST_BLOCKS = 10_000_000
SMALLEST_POOL = "block 0 is the null block, so 2 is the smallest pool"


@dataclass(frozen=True, slots=True)
class Config:
    """One scheduler's configuration.

    ``num_gpu_blocks`` counts the null block, so ``num_gpu_blocks - 1`` are usable.
    ``max_num_batched_tokens`` is the token budget of a step, ``max_num_seqs`` the slots.
    ``watermark`` is a fraction of ``num_gpu_blocks``. ``long_prefill_token_threshold`` 0 is off.
    ``scheduler_reserve_full_isl``: admit only if the whole sequence fits (config/scheduler.py:130).
    ``async_scheduling``: decide a step before the last one's output is known; vLLM switches it on
    by itself where it can, and ``AsyncScheduler`` is the scheduler for it. With Model Runner V2
    and ``pipeline_parallel_size`` above 1 more batches are in flight. ``kv_role`` is the KV
    connector's, empty without one. ``speculative_method`` and ``num_speculative_tokens``: who
    drafts, and how many tokens at most (``pard`` is a draft model with parallel drafting).

    Raises InputError naming the field for any value vLLM would refuse.
    """

    num_gpu_blocks: int
    block_size: int = 16
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    max_model_len: int = 8192
    policy: str = "fcfs"
    watermark: float = 0.0
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    scheduler_reserve_full_isl: bool = True
    kv_load_failure_policy: str = "fail"
    async_scheduling: bool = False
    pipeline_parallel_size: int = 1
    kv_role: str = ""
    speculative_method: str = ""
    num_speculative_tokens: int = 0

    def __post_init__(self) -> None:
        _check_types(self)
        _range(self, "num_gpu_blocks", 2, SMALLEST_POOL, MOST_BLOCKS)
        _range(self, "block_size", 1, "use a positive number of tokens, usually 16")
        _range(self, "max_num_seqs", 1, "use a positive number of slots")
        _range(self, "max_num_batched_tokens", 1, "use a positive number of tokens")
        _range(self, "max_model_len", 1, "use a positive number of tokens")
        _range(self, "long_prefill_token_threshold", 0, "use 0 to switch it off")
        _range(self, "pipeline_parallel_size", 1, "use 1 without pipeline parallelism")
        _range(self, "num_speculative_tokens", 0, "use 0 without drafts")
        _choice(self, "policy", "policy", POLICIES)
        _choice(self, "kv_load_failure_policy", "policy", FAILURE_POLICIES)
        _choice(self, "kv_role", "role", KV_ROLES)
        _choice(self, "speculative_method", "method", DRAFTERS)
        if bool(self.speculative_method) != bool(self.num_speculative_tokens):
            raise InputError(
                "num_speculative_tokens",
                f"{self.num_speculative_tokens} with method {self.speculative_method!r}",
                "give both, or neither",
            )
        if not 0 <= self.watermark < 1:
            raise InputError(
                "watermark", f"{self.watermark} is not in [0, 1)", "use a fraction such as 0.02"
            )
        if self.max_num_batched_tokens < self.max_num_seqs:  # config/scheduler.py:263
            raise InputError(
                "max_num_batched_tokens",
                f"{self.max_num_batched_tokens} is below max_num_seqs {self.max_num_seqs}",
                "raise it, or lower max_num_seqs",
            )
        if not self.enable_chunked_prefill and self.max_num_batched_tokens < self.max_model_len:
            raise InputError(  # config/scheduler.py:250
                "max_num_batched_tokens",
                f"{self.max_num_batched_tokens} is below max_model_len {self.max_model_len} "
                "with chunked prefill off",
                "raise it, or set enable_chunked_prefill",
            )
        if self.long_prefill_token_threshold > self.max_model_len:  # config/scheduler.py:278
            raise InputError(
                "long_prefill_token_threshold",
                f"{self.long_prefill_token_threshold} is above max_model_len {self.max_model_len}",
                "lower it, or use 0 to switch it off",
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """Build from a mapping; InputError names an unknown or a missing key."""
        known = [f.name for f in fields(cls)]
        for key in values:
            if key not in known:
                raise InputError(key, "unknown configuration key", f"known: {', '.join(known)}")
        if "num_gpu_blocks" not in values:
            raise InputError("num_gpu_blocks", "missing", "give the number of KV blocks")
        return cls(**values)

    @property
    def watermark_blocks(self) -> int:
        """Blocks kept back: truncated, the null block counted (kv_cache_manager.py:174)."""
        return int(self.watermark * self.num_gpu_blocks)

    @property
    def max_concurrent_batches(self) -> int:
        """Depth of the batch queue: ``engine.run``'s lag is one less."""
        return 1 + self.pipeline_parallel_size if self.async_scheduling else 1

    @property
    def defer_block_free(self) -> bool:
        """Blocks that a pass in flight may still read are not given back before (S:148-157)."""
        return self.async_scheduling and self.kv_role in ("kv_consumer", "kv_both")

    @property
    def requires_kv_delivery(self) -> bool:
        """A victim's output in flight is dropped, so that its KV is delivered with it (S:683)."""
        return self.kv_role in ("kv_producer", "kv_both")

    @property
    def num_lookahead_tokens(self) -> int:
        """Slots a drafter fills beyond the tokens of a pass (config/vllm.py:588-612)."""
        return 0 if self.speculative_method == "ngram" else self.num_speculative_tokens

    @property
    def draft_slots(self) -> int:
        """What a drafter adds to each request's pass (config/speculative.py:1421-1458)."""
        per_drafter = {"draft_model": 1, "pard": self.num_speculative_tokens}
        return per_drafter.get(self.speculative_method, 0)


def _check_types(config: Config) -> None:
    for f in fields(Config):
        value = getattr(config, f.name)
        kinds: tuple[type, ...] = {"int": (int,), "float": (int, float), "bool": (bool,)}.get(
            str(f.type), (str,)
        )
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise InputError(f.name, f"{value!r} is not of type {f.type}", f"give a {f.type}")


def _choice(config: Config, name: str, word: str, choices: tuple[str, ...]) -> None:
    value = getattr(config, name)
    if value not in choices:
        known = [choice for choice in choices if choice]
        fix = f"use {', '.join(known[:-1])} or {known[-1]}"
        raise InputError(name, f"unknown {word} {value!r}", fix)


def _range(config: Config, name: str, low: int, fix: str, high: int = LIMIT) -> None:
    value = getattr(config, name)
    if not low <= value <= high:
        raise InputError(name, f"{value} is not between {low} and {high}", fix)
