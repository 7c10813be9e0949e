"""Model shapes against published counts, and config.json files, good and bad."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvsched.costs import (
    MODELS,
    Model,
    Pool,
    PrefillLaw,
    decode_seconds,
    fields,
    model,
    prefill_flops,
)
from kvsched.costs.shapes import LLAMA_3_8B, QWEN2_5_7B, QWEN3_8B
from kvsched.costs.units import GiB, KiB
from kvsched.errors import InputError

# As published; fields that no formula reads are left out.
CONFIGS: dict[str, dict[str, Any]] = {
    "Llama-3-8B": {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "num_key_value_heads": 8,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "vocab_size": 128256,
    },
    "Llama-3.3-70B": {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "mlp_bias": False,
        "num_attention_heads": 64,
        "num_hidden_layers": 80,
        "num_key_value_heads": 8,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "vocab_size": 128256,
    },
    "Qwen2.5-7B": {
        "architectures": ["Qwen2ForCausalLM"],
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "num_attention_heads": 28,
        "num_hidden_layers": 28,
        "num_key_value_heads": 4,
        "sliding_window": 131072,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "use_sliding_window": False,
        "vocab_size": 152064,
    },
    "Qwen3-8B": {
        "architectures": ["Qwen3ForCausalLM"],
        "attention_bias": False,
        "head_dim": 128,
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_attention_heads": 32,
        "num_hidden_layers": 36,
        "num_key_value_heads": 8,
        "sliding_window": None,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "use_sliding_window": False,
        "vocab_size": 151936,
    },
    "Qwen3-32B": {
        "architectures": ["Qwen3ForCausalLM"],
        "attention_bias": False,
        "head_dim": 128,
        "hidden_size": 5120,
        "intermediate_size": 25600,
        "num_attention_heads": 64,
        "num_hidden_layers": 64,
        "num_key_value_heads": 8,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "vocab_size": 151936,
    },
}


def write(tmp_path: Path, config: object) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    return path


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in CONFIGS["Llama-3-8B"].items() if key != name}


@pytest.mark.parametrize("name", MODELS)
def test_the_table_is_what_the_config_says(name: str, tmp_path: Path) -> None:
    read = Model.from_config(write(tmp_path, {**CONFIGS[name], "_name_or_path": name}))
    shape = MODELS[name]
    for field in Model.__slots__:
        if field != "source":
            assert getattr(read, field) == getattr(shape, field), field
    assert shape.source.startswith("https://huggingface.co/")


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("Llama-3-8B", 8_030_261_248),
        ("Llama-3.3-70B", 70_553_706_496),
        ("Qwen2.5-7B", 7_615_616_512),
        ("Qwen3-8B", 8_190_735_360),
        ("Qwen3-32B", 32_762_123_264),
    ],
)
def test_num_params_is_the_checkpoints(name: str, params: int) -> None:
    assert model(name).num_params == params


@pytest.mark.parametrize(
    ("name", "bytes_per_token"),
    [("Llama-3-8B", 131_072), ("Llama-3.3-70B", 327_680), ("Qwen2.5-7B", 57_344)],
)
def test_kv_bytes_per_token(name: str, bytes_per_token: int) -> None:
    assert model(name).kv_bytes_per_token == bytes_per_token


def test_case_1_pool_of_qwen2_5_7b() -> None:
    # vllm pull request 44594: 16 GiB of KV are 299,584 tokens in 18,724 blocks.
    pool = Pool(16 * GiB, QWEN2_5_7B.kv_bytes_per_token)
    assert pool.blocks == 18_724
    assert pool.blocks * pool.block_size == 299_584


def test_per_layer_fragments_of_llama() -> None:
    assert LLAMA_3_8B.kv_fragment_bytes(16) == 32 * KiB
    assert LLAMA_3_8B.kv_block_bytes(16) == 64 * LLAMA_3_8B.kv_fragment_bytes(16)


def test_tied_embeddings_count_once(tmp_path: Path) -> None:
    tied = Model.from_config(write(tmp_path, {**without(""), "tie_word_embeddings": True}))
    assert tied.num_params == LLAMA_3_8B.num_params - LLAMA_3_8B.embedding_params
    assert tied.num_params == tied.decode_params


def test_a_warm_prefix_saves_its_own_flops_and_no_more() -> None:
    whole = prefill_flops(QWEN3_8B, 8192)
    assert prefill_flops(QWEN3_8B, 8192, 4096) == whole - prefill_flops(QWEN3_8B, 4096)
    assert prefill_flops(QWEN3_8B, 8192, 8192) == 0


@pytest.mark.parametrize("cached", [-1, 11])
def test_cached_is_a_part_of_the_prompt(cached: int) -> None:
    with pytest.raises(InputError, match="cached"):
        prefill_flops(QWEN3_8B, 10, cached)


def test_a_law_goes_through_its_two_points() -> None:
    law = PrefillLaw.through((1000, 0.03), (3000, 0.13))
    assert [law.seconds(tokens) for tokens in (1000, 3000)] == pytest.approx([0.03, 0.13])
    with pytest.raises(InputError, match="tokens: 7 twice"):
        PrefillLaw.through((7, 0.1), (7, 0.2))


def test_zero_memory_bandwidth_is_refused() -> None:
    with pytest.raises(InputError, match=r"bytes_s: 0 is not above 0"):
        decode_seconds(LLAMA_3_8B, 1, 1, 0)


def test_unknown_model_lists_the_known() -> None:
    with pytest.raises(InputError, match="Llama-3-8B"):
        model("GPT-5")


def test_a_folder_will_do(tmp_path: Path) -> None:
    write(tmp_path, CONFIGS["Llama-3-8B"])
    read = Model.from_config(str(tmp_path))
    assert read.name == tmp_path.name
    assert read.source == str(tmp_path / "config.json")


def test_llama_2_has_one_kv_head_for_each_query_head(tmp_path: Path) -> None:
    read = Model.from_config(write(tmp_path, without("num_key_value_heads")))
    assert read.num_key_value_heads == 32


def test_transformers_5_writes_dtype(tmp_path: Path) -> None:
    config = {**without("torch_dtype"), "dtype": "float32"}
    assert Model.from_config(write(tmp_path, config)).dtype_bytes == 4


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        ({"kv_lora_rank": 512}, "MLA"),
        ({"num_local_experts": 8}, "mixture of experts"),
        ({"n_routed_experts": 256}, "mixture of experts"),
        ({"num_experts": 128}, "mixture of experts"),
        ({"layers_block_type": ["mamba", "attention"]}, "hybrid"),
        ({"mamba_d_state": 128}, "Mamba"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding-window layers"),
        ({"layer_types": ["linear_attention"]}, "hybrid"),
        ({"layer_types": 3}, "layer_types"),
        ({"sliding_window": 4096, "use_sliding_window": True}, "sliding attention window"),
        ({"architectures": ["MistralForCausalLM"], "sliding_window": 4096}, "sliding"),
        ({"attention_chunk_size": 8192}, "chunked local attention"),
        ({"text_config": {"hidden_size": 1}}, "multimodal"),
        ({"is_encoder_decoder": True}, "encoder"),
        ({"quantization_config": {"quant_method": "fp8"}}, "quantized"),
        ({"attention_bias": True}, "biases"),
        ({"architectures": ["GptOssForCausalLM"]}, "GptOssForCausalLM"),
        ({"architectures": "LlamaForCausalLM"}, "list of one"),
        ({"torch_dtype": "float8_e4m3fn"}, "float8"),
        ({"hidden_size": 0}, "hidden_size"),
        ({"hidden_size": "4096"}, "hidden_size"),
        ({"hidden_size": True}, "hidden_size"),
        ({"num_key_value_heads": 5}, "does not divide"),
        ({"num_attention_heads": 33, "num_key_value_heads": 3}, "head_dim"),
    ],
)
def test_what_is_not_covered_is_refused_by_name(
    extra: dict[str, Any], named: str, tmp_path: Path
) -> None:
    path = write(tmp_path, {**CONFIGS["Llama-3-8B"], **extra})
    with pytest.raises(InputError, match=named) as caught:
        Model.from_config(path)
    assert caught.value.place.startswith(f"{path}: ")


@pytest.mark.parametrize(
    "name",
    [
        "architectures",
        "hidden_size",
        "intermediate_size",
        "num_attention_heads",
        "num_hidden_layers",
        "torch_dtype",
        "vocab_size",
    ],
)
def test_a_missing_field_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"{name}: missing; add"):
        Model.from_config(write(tmp_path, without(name)))


def test_qwen3_must_state_its_head_dim(tmp_path: Path) -> None:
    config = {key: value for key, value in CONFIGS["Qwen3-8B"].items() if key != "head_dim"}
    with pytest.raises(InputError, match="head_dim: missing"):
        Model.from_config(write(tmp_path, config))


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"", "not JSON"),
        (b"[]", "found a list of 0; write an object"),
        (b"\xff", "not UTF-8"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "thousands of digits"),
    ],
)
def test_what_is_not_a_json_object(data: bytes, named: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(data)
    with pytest.raises(InputError, match=named):
        Model.from_config(path)


def test_a_file_far_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fields, "MAX_BYTES", 10)
    with pytest.raises(InputError, match="more than 10 bytes"):
        Model.from_config(write(tmp_path, CONFIGS["Llama-3-8B"]))


def test_no_file_and_an_impossible_path(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        Model.from_config(tmp_path / "none.json")
    with pytest.raises(InputError, match="cannot be read"):
        Model.from_config("a\0b")


# Each example writes a file, on a machine that may be busy.
files = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=3,
)


@files
@given(
    name=st.sampled_from(list(CONFIGS)),
    changes=st.dictionaries(
        st.sampled_from(
            [*CONFIGS["Qwen3-8B"], "dtype", "layer_types", "num_experts", "text_config"]
        ),
        values,
        max_size=3,
    ),
    dropped=st.sets(st.sampled_from(list(CONFIGS["Qwen3-8B"])), max_size=2),
)
def test_any_config_is_a_model_or_an_input_error(
    name: str,
    changes: dict[str, Any],
    dropped: set[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    config = {key: value for key, value in CONFIGS[name].items() if key not in dropped}
    path = write(tmp_path_factory.getbasetemp(), {**config, **changes})
    refused = ""
    try:
        read = Model.from_config(path)
    except InputError as error:
        refused = str(error)
    if refused:
        assert refused.isprintable()
    else:
        assert read.num_params > read.prompt_params > 0
        assert read.kv_bytes_per_token > 0


@files
@given(data=st.binary(max_size=60))
def test_any_bytes_are_an_input_error(
    data: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.json"
    path.write_bytes(data)
    with pytest.raises(InputError):
        Model.from_config(path)
