"""Shapes of a few public models, each from its published ``config.json``."""

from __future__ import annotations

from kvsched.costs.model import Model
from kvsched.errors import InputError

_HF = "https://huggingface.co/{}/blob/main/config.json"

LLAMA_3_8B = Model(
    name="Llama-3-8B",
    num_hidden_layers=32,
    hidden_size=4096,
    intermediate_size=14336,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=128,
    vocab_size=128256,
    tie_word_embeddings=False,
    dtype_bytes=2,
    qkv_bias=False,
    qk_norm=False,
    source=_HF.format("meta-llama/Meta-Llama-3-8B"),
)
"""Llama-3.1-8B has the same shape."""

LLAMA_3_3_70B = Model(
    name="Llama-3.3-70B",
    num_hidden_layers=80,
    hidden_size=8192,
    intermediate_size=28672,
    num_attention_heads=64,
    num_key_value_heads=8,
    head_dim=128,
    vocab_size=128256,
    tie_word_embeddings=False,
    dtype_bytes=2,
    qkv_bias=False,
    qk_norm=False,
    source=_HF.format("meta-llama/Llama-3.3-70B-Instruct"),
)
"""Llama-3-70B and Llama-3.1-70B have the same shape."""

QWEN2_5_7B = Model(
    name="Qwen2.5-7B",
    num_hidden_layers=28,
    hidden_size=3584,
    intermediate_size=18944,
    num_attention_heads=28,
    num_key_value_heads=4,
    head_dim=128,
    vocab_size=152064,
    tie_word_embeddings=False,
    dtype_bytes=2,
    qkv_bias=True,
    qk_norm=False,
    source=_HF.format("Qwen/Qwen2.5-7B"),
)

QWEN3_8B = Model(
    name="Qwen3-8B",
    num_hidden_layers=36,
    hidden_size=4096,
    intermediate_size=12288,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=128,
    vocab_size=151936,
    tie_word_embeddings=False,
    dtype_bytes=2,
    qkv_bias=False,
    qk_norm=True,
    source=_HF.format("Qwen/Qwen3-8B"),
)

QWEN3_32B = Model(
    name="Qwen3-32B",
    num_hidden_layers=64,
    hidden_size=5120,
    intermediate_size=25600,
    num_attention_heads=64,
    num_key_value_heads=8,
    head_dim=128,
    vocab_size=151936,
    tie_word_embeddings=False,
    dtype_bytes=2,
    qkv_bias=False,
    qk_norm=True,
    source=_HF.format("Qwen/Qwen3-32B"),
)

MODELS = {
    model.name: model for model in (LLAMA_3_8B, LLAMA_3_3_70B, QWEN2_5_7B, QWEN3_8B, QWEN3_32B)
}


def model(name: str) -> Model:
    """The model of this name; InputError lists the known ones."""
    if name not in MODELS:
        known = ", ".join(MODELS)
        raise InputError("model", f"unknown model {name!r}", f"known: {known}; or read its config")
    return MODELS[name]
