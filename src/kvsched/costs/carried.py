"""The example carried through the book: Llama-3-8B in bf16, blocks of 16 tokens, an 80 GB H100.

Every chapter takes these numbers from here; each is computed from the few that are chosen.
"""

from __future__ import annotations

from kvsched.costs import compute, pool, transfer
from kvsched.costs.shapes import LLAMA_3_8B
from kvsched.costs.units import GB, TERA, GiB

MODEL = LLAMA_3_8B
BLOCK_SIZE = 16
KV_BYTES_PER_TOKEN = MODEL.kv_bytes_per_token
BLOCK_BYTES = MODEL.kv_block_bytes(BLOCK_SIZE)

# A round pool, and the pool of a real device.
POOL = pool.Pool(40 * GiB, KV_BYTES_PER_TOKEN, BLOCK_SIZE)
DEVICE_MEMORY = 79.65 * GiB
"""What an "80 GB" H100 presents: nvidia-smi shows 81,559 MiB."""
UTILIZATION = 0.92
WEIGHTS = 14.96 * GiB
"""``MODEL.weight_bytes``, to the digits a log shows."""
WORKSPACE = 6 * GiB
DEVICE_POOL = pool.Pool(
    pool.kv_bytes(DEVICE_MEMORY, UTILIZATION, WEIGHTS, WORKSPACE), KV_BYTES_PER_TOKEN, BLOCK_SIZE
)

# Slots against blocks.
SLOTS = 256
TOKENS = 8192
"""Length of one request, in tokens."""
SLOT_TOKENS = SLOTS * TOKENS
OVERCOMMIT = SLOT_TOKENS / POOL.tokens
REQUESTS = POOL.requests_of(TOKENS)

# Drain and runway.
BLOCKS_PER_STEP = pool.drain(REQUESTS, BLOCK_SIZE)
WATERMARK = 0.01
WATERMARK_BLOCKS = pool.watermark_blocks(WATERMARK, POOL.blocks)
RUNWAY_STEPS = pool.runway(WATERMARK_BLOCKS, BLOCKS_PER_STEP)

# Swap against recompute, the plain model.
SWAP_BYTES = TOKENS * KV_BYTES_PER_TOKEN
WIRE = transfer.Smooth(64 * GB)
"""PCIe Gen5 x16, raw, one direction: a bound that no copy reaches."""
ONE_WAY_S = transfer.copy_seconds(WIRE, SWAP_BYTES, SWAP_BYTES)
ROUND_TRIP_S = 2 * ONE_WAY_S
PARAMS = 8.0e9
ACHIEVED_FLOP_S = 400 * TERA
PEAK_FLOP_S = 989 * TERA
COLD_FLOPS = compute.plain_prefill_flops(MODEL, TOKENS, PARAMS)
COLD_S = compute.prefill_seconds(COLD_FLOPS, ACHIEVED_FLOP_S)
MFU = ACHIEVED_FLOP_S / PEAK_FLOP_S
SWAP_ADVANTAGE = COLD_S / ROUND_TRIP_S
CROSSOVER_TOKENS_S = compute.crossover_rate(TOKENS, ROUND_TRIP_S)
F_STAR = compute.survival_threshold(ROUND_TRIP_S, COLD_S)
