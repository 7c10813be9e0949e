"""The plain model: every number of the carried example, to the digits the book prints."""

from __future__ import annotations

import pytest

from kvsched.costs import carried, plain_prefill_flops, prefill_flops
from kvsched.costs.units import GB, GiB, MiB, binary, decimal, time


def test_kv_bytes_per_token_and_block() -> None:
    assert carried.KV_BYTES_PER_TOKEN == 131_072
    assert 2 * MiB == carried.BLOCK_BYTES


def test_40_gib_pool() -> None:
    assert carried.POOL.size == 40 * GiB
    assert carried.POOL.tokens == 327_680
    assert carried.POOL.blocks == 20_480


def test_pool_of_an_80_gb_h100() -> None:
    assert f"{carried.DEVICE_POOL.size / GiB:.3f} GiB" == "52.318 GiB"
    assert carried.DEVICE_POOL.tokens == 428_589
    assert carried.DEVICE_POOL.blocks == 26_786


def test_device_memory_is_what_nvidia_smi_shows() -> None:
    assert f"{81_559 * MiB / GiB:.2f}" == f"{carried.DEVICE_MEMORY / GiB:.2f}" == "79.65"


def test_weights_are_the_models() -> None:
    assert f"{carried.MODEL.weight_bytes / GiB:.2f}" == f"{carried.WEIGHTS / GiB:.2f}" == "14.96"


def test_slots_promise_6_4_times_the_pool() -> None:
    assert carried.SLOT_TOKENS == 2_097_152
    assert carried.OVERCOMMIT == 6.4


def test_the_block_budget_says_40() -> None:
    assert carried.REQUESTS == 40


def test_40_decodes_drain_2_5_blocks_a_step() -> None:
    assert carried.BLOCKS_PER_STEP == 2.5
    assert 5 * MiB == carried.BLOCKS_PER_STEP * carried.BLOCK_BYTES


def test_watermark_keeps_204_blocks() -> None:
    assert carried.WATERMARK_BLOCKS == 204


def test_runway_is_81_6_steps() -> None:
    assert carried.RUNWAY_STEPS == 81.6


def test_swap_of_8192_tokens() -> None:
    assert carried.SWAP_BYTES == 1_073_741_824
    assert decimal(carried.SWAP_BYTES, "B", 4) == "1.0737 GB"
    assert binary(carried.SWAP_BYTES, 0) == "1 GiB"


def test_swap_times_on_the_bare_wire() -> None:
    assert carried.WIRE.bytes_s == 64 * GB
    assert time(carried.ONE_WAY_S) == "16.78 ms"
    assert time(carried.ROUND_TRIP_S) == "33.55 ms"


def test_cold_recompute() -> None:
    matrices = 2 * carried.PARAMS * carried.TOKENS
    assert f"{matrices:.3e}" == "1.311e+14"
    assert f"{carried.COLD_FLOPS - matrices:.3e}" == "1.759e+13"
    assert decimal(carried.COLD_FLOPS, "FLOP", 1) == "148.7 TFLOP"
    assert time(carried.COLD_S, 1) == "371.7 ms"
    assert f"{carried.MFU:.2f}" == "0.40"


def test_swap_wins_11_times() -> None:
    assert f"{carried.SWAP_ADVANTAGE:.2f}" == "11.08"


def test_crossover_rate() -> None:
    assert f"{carried.CROSSOVER_TOKENS_S:,.0f}" == "244,141"


def test_survival_threshold() -> None:
    assert f"{carried.F_STAR:.3f}" == "0.910"


def test_the_plain_estimate_counts_13_percent_too_much() -> None:
    model = carried.MODEL
    plain = plain_prefill_flops(model, carried.TOKENS, model.num_params)
    assert plain / prefill_flops(model, carried.TOKENS) == pytest.approx(1.13, abs=0.005)
    assert f"{2 * model.embedding_params:.2e}" == "1.05e+09"
    assert f"{model.prompt_params:.2e}" == "6.98e+09"
