"""Bytes, operations and times: what a block holds, a copy takes, a recomputation costs."""

from kvsched.costs.compute import (
    PrefillLaw,
    attention_flops,
    crossover_rate,
    decode_seconds,
    plain_prefill_flops,
    prefill_flops,
    prefill_seconds,
    survival_threshold,
)
from kvsched.costs.model import Model
from kvsched.costs.pool import Pool, drain, kv_bytes, runway, watermark_blocks
from kvsched.costs.shapes import MODELS, model
from kvsched.costs.transfer import (
    Link,
    Smooth,
    Table,
    bandwidth,
    copy_seconds,
    round_trip_seconds,
)

__all__ = [
    "MODELS",
    "Link",
    "Model",
    "Pool",
    "PrefillLaw",
    "Smooth",
    "Table",
    "attention_flops",
    "bandwidth",
    "copy_seconds",
    "crossover_rate",
    "decode_seconds",
    "drain",
    "kv_bytes",
    "model",
    "plain_prefill_flops",
    "prefill_flops",
    "prefill_seconds",
    "round_trip_seconds",
    "runway",
    "survival_threshold",
    "watermark_blocks",
]
