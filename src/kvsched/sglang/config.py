"""The scheduler's knobs, by SGLang's own names and with SGLang 0.5.18's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from kvsched.errors import InputError

CACHE_AWARE = ("lpm", "dfs-weight")
POLICIES = ("fcfs", "lof", "random", "routing-key", *CACHE_AWARE)
RETRACTION_POLICIES = ("length", "priority")
LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Config:
    """One scheduler's configuration; None is off.

    ``max_total_tokens``: tokens of the pool, of which whole pages are used.
    ``max_prefill_tokens``: input tokens of a pass, ``chunked_prefill_size``: of one chunk.
    ``context_length`` bounds ``max_new_tokens`` at arrival. ``req_waiting_timeout`` is in the
    units of ``schedule(now)``. ``seed`` feeds the policy ``random``. ``fix22``: put preempted
    requests back when the pass admitted nobody, as 0.5.22 does; 0.5.18 loses them.

    Environment variables of the engine are fields too: SGLANG_INIT_NEW_TOKEN_RATIO,
    SGLANG_MIN_NEW_TOKEN_RATIO_FACTOR, SGLANG_NEW_TOKEN_RATIO_DECAY_STEPS,
    SGLANG_RETRACT_DECODE_STEPS, SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION,
    SGLANG_REQ_WAITING_TIMEOUT.

    Raises InputError naming the field for a value no scheduler could run with.
    """

    max_total_tokens: int
    page_size: int = 1
    max_running_requests: int = 256
    max_prefill_tokens: int = 16384
    chunked_prefill_size: int | None = None
    enable_mixed_chunk: bool = False
    prefill_max_requests: int | None = None
    truncation_align_size: int | None = None
    context_length: int = LIMIT
    disable_radix_cache: bool = False
    schedule_policy: str = "fcfs"
    enable_priority_scheduling: bool = False
    disable_priority_preemption: bool = False
    schedule_low_priority_values_first: bool = False
    priority_scheduling_preemption_threshold: int = 10
    retraction_policy: str = "length"
    schedule_conservativeness: float = 1.0
    init_new_token_ratio: float = 0.7
    min_new_token_ratio_factor: float = 0.14
    new_token_ratio_decay_steps: int = 600
    retract_decode_steps: int = 20
    clip_max_new_tokens_estimation: int = 4096
    req_waiting_timeout: float = -1
    seed: int = 0
    fix22: bool = False

    def __post_init__(self) -> None:
        for f in fields(Config):
            _check_type(f.name, str(f.type), getattr(self, f.name))
        for name in (
            "max_total_tokens",
            "page_size",
            "max_running_requests",
            "max_prefill_tokens",
            "chunked_prefill_size",
            "prefill_max_requests",
            "truncation_align_size",
            "context_length",
            "new_token_ratio_decay_steps",
        ):
            _at_least(self, name, 1)
        for name in (
            "schedule_conservativeness",
            "init_new_token_ratio",
            "min_new_token_ratio_factor",
            "retract_decode_steps",
            "clip_max_new_tokens_estimation",
        ):
            _at_least(self, name, 0)
        _one_of(self, "schedule_policy", POLICIES)
        _one_of(self, "retraction_policy", RETRACTION_POLICIES)
        if self.max_total_tokens < self.page_size:
            raise InputError(
                "max_total_tokens",
                f"{self.max_total_tokens} tokens hold no page of {self.page_size}",
                "raise it, or lower page_size",
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """Build from a mapping; InputError names an unknown or a missing key."""
        known = [f.name for f in fields(cls)]
        for key in values:
            if key not in known:
                raise InputError(key, "unknown configuration key", f"known: {', '.join(known)}")
        if "max_total_tokens" not in values:
            raise InputError("max_total_tokens", "missing", "give the pool's size in tokens")
        return cls(**values)

    @property
    def num_pages(self) -> int:
        """Pages of the pool; a last part of a page is not used."""
        return self.max_total_tokens // self.page_size

    @property
    def radix(self) -> bool:
        """Is there a radix cache (else SGLang's ChunkCache, which finds nothing)?"""
        return not self.disable_radix_cache

    @property
    def priority_preemption(self) -> bool:
        """May a waiting request throw out a running one when the slots are taken?"""
        return self.enable_priority_scheduling and not self.disable_priority_preemption

    @property
    def priority_sign(self) -> int:
        """1 if low values go first, else -1: ``priority * sign`` is small for the urgent."""
        return 1 if self.schedule_low_priority_values_first else -1


_KINDS: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "int | None": (int, type(None)),
    "float": (int, float),
    "bool": (bool,),
    "str": (str,),
}


def _check_type(name: str, kind: str, value: object) -> None:
    kinds = _KINDS[kind]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise InputError(name, f"{value!r} is not of type {kind}", f"give a value of type {kind}")


def _at_least(config: Config, name: str, low: int) -> None:
    value = getattr(config, name)
    if value is not None and not low <= value <= LIMIT:
        raise InputError(
            name, f"{value} is not between {low} and {LIMIT}", "give a number in between"
        )


def _one_of(config: Config, name: str, choices: tuple[str, ...]) -> None:
    value = getattr(config, name)
    if value not in choices:
        raise InputError(name, f"unknown value {value!r}", f"use {' or '.join(choices)}")
