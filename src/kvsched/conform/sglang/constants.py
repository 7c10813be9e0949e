"""The engine's constants and defaults as a recording states them, against the twin's."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from kvsched.conform.compare import Divergence
from kvsched.conform.sglang.result import difference
from kvsched.sglang import Config, ignore_eos, policy

_DEFAULT = {f.name: f.default for f in fields(Config)}

CONSTANTS: dict[str, Any] = {
    "IGNORE_EOS_RESERVE_TOKENS": ignore_eos.IGNORE_EOS_RESERVE_TOKENS,
    "IN_BATCH_PREFIX_CACHING_CHECK_THRESHOLD": policy.IN_BATCH_PREFIX_CACHING_CHECK_THRESHOLD,
    "IN_BATCH_PREFIX_CACHING_DEPRIORITIZE_THRESHOLD": (
        policy.IN_BATCH_PREFIX_CACHING_DEPRIORITIZE_THRESHOLD
    ),
    "PREFILL_TILE_BUDGET": 0,
    "SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION": _DEFAULT["clip_max_new_tokens_estimation"],
    "SGLANG_INIT_NEW_TOKEN_RATIO": _DEFAULT["init_new_token_ratio"],
    "SGLANG_MIN_NEW_TOKEN_RATIO_FACTOR": _DEFAULT["min_new_token_ratio_factor"],
    "SGLANG_NEW_TOKEN_RATIO_DECAY_STEPS": _DEFAULT["new_token_ratio_decay_steps"],
    "SGLANG_REQ_WAITING_TIMEOUT": _DEFAULT["req_waiting_timeout"],
    "SGLANG_RETRACT_DECODE_STEPS": _DEFAULT["retract_decode_steps"],
    "SGLANG_TEST_RETRACT_INTERVAL": 3,
}
"""Two have no counterpart: a tile budget that is off, and the interval of a retraction test."""

SERVER_ARGS: dict[str, Any] = {
    "chunked_prefill_size": None,
    "disable_overlap_schedule": False,
    "max_queued_requests": None,
    "page_size": None,
    "radix_eviction_policy": "lru",
    **{
        name: _DEFAULT[name]
        for name in (
            "disable_priority_preemption",
            "enable_mixed_chunk",
            "enable_priority_scheduling",
            "max_prefill_tokens",
            "prefill_max_requests",
            "priority_scheduling_preemption_threshold",
            "retraction_policy",
            "schedule_conservativeness",
            "schedule_low_priority_values_first",
            "schedule_policy",
        )
    },
}
"""The first five are no knobs of the twin: two are resolved at start, three are fixed."""


def differ(content: dict[str, Any]) -> Divergence | None:
    """The first constant or default that is another one in the twin."""
    for field, mine in (("const", CONSTANTS), ("server_arg_defaults", SERVER_ARGS)):
        found = difference(content[field], mine)
        if found is not None:
            name, expected, got = found
            return Divergence(None, f"{field}.{name}", expected, got, "")
    return None
