"""Public cases as runs: what was reported, and numbers of ours where a report gives none.

Chapters and tests run the same ones. No two requests of a case share a token, unless it says so.
"""

from kvsched.cases.context import CONTEXT, end_of_context
from kvsched.cases.feedback import retracted_in_flight, steady
from kvsched.cases.promises import EVICT_BLOCKS, Promised, capped_at_1024, evict_or_not
from kvsched.cases.sglang import clip_of_outputs, ignoring_eos, plateau, three_of_four
from kvsched.cases.starving import (
    cold_request,
    cold_wait,
    sizes_at_saturation,
    thrown_out_again,
)
from kvsched.cases.vllm import (
    Case,
    fifth_prompt,
    free_slots,
    growing_into_the_watermark,
    small_pool,
    stream_behind_a_large_one,
    under_pressure,
)

__all__ = [
    "CONTEXT",
    "EVICT_BLOCKS",
    "Case",
    "Promised",
    "capped_at_1024",
    "clip_of_outputs",
    "cold_request",
    "cold_wait",
    "end_of_context",
    "evict_or_not",
    "fifth_prompt",
    "free_slots",
    "growing_into_the_watermark",
    "ignoring_eos",
    "plateau",
    "retracted_in_flight",
    "sizes_at_saturation",
    "small_pool",
    "steady",
    "stream_behind_a_large_one",
    "three_of_four",
    "thrown_out_again",
    "under_pressure",
]
