"""A Hugging Face ``config.json``, read without the network and without ``transformers``.

Defaults are those of the configuration classes in transformers, and only where all covered classes
share them: untied embeddings, ``head_dim`` = hidden size / heads (Qwen3 excepted), and one KV head
per query head for Llama. Any other field that is missing is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kvsched.costs import fields
from kvsched.shape import show

if TYPE_CHECKING:
    from pathlib import Path

    from kvsched.costs.fields import Fields

SIZES = {"bfloat16": 2, "float16": 2, "float32": 4}
"""Bytes per element of the covered ``torch_dtype`` values."""


class Architecture(NamedTuple):
    """What a class of models has that its ``config.json`` leaves unsaid."""

    qkv_bias: bool = False
    qk_norm: bool = False
    always_slides: bool = False
    """A ``sliding_window`` that is set is used, whatever ``use_sliding_window`` says."""
    needs_head_dim: bool = False
    one_kv_head_each: bool = False
    """No ``num_key_value_heads`` means as many as query heads."""


ARCHITECTURES = {
    "LlamaForCausalLM": Architecture(one_kv_head_each=True),
    "MistralForCausalLM": Architecture(always_slides=True),
    "Qwen2ForCausalLM": Architecture(qkv_bias=True),
    "Qwen3ForCausalLM": Architecture(qk_norm=True, needs_head_dim=True),
}

# What the formulas do not cover, by a field that gives it away. Checked before the architecture,
# so that a model is refused for what it does rather than for its name.
_UNCOVERED = (
    ("text_config", "a multimodal wrapper", "give the text model's own config.json"),
    ("kv_lora_rank", "multi-head latent attention (MLA)", ""),
    ("num_local_experts", "a mixture of experts", ""),
    ("num_experts", "a mixture of experts", ""),
    ("n_routed_experts", "a mixture of experts", ""),
    ("layers_block_type", "a hybrid of attention and state-space layers", ""),
    ("hybrid_override_pattern", "a hybrid of attention and state-space layers", ""),
    ("attn_layer_period", "a hybrid of attention and state-space layers", ""),
    ("linear_num_value_heads", "a hybrid of full and linear attention", ""),
    ("mamba_d_state", "state-space (Mamba) layers", ""),
    ("ssm_cfg", "state-space (Mamba) layers", ""),
    ("state_size", "state-space (Mamba) layers", ""),
    ("attention_chunk_size", "chunked local attention", ""),
    ("is_encoder_decoder", "an encoder and a decoder", ""),
    ("quantization_config", "quantized weights", "give the config.json of the 16-bit model"),
    ("attention_bias", "biases in the attention matrices", ""),
    ("mlp_bias", "biases in the MLP", ""),
)


def read(path: Path) -> dict[str, Any]:
    """The fields of a ``Model``.

    Raises InputError: the file cannot be read, a field is missing or out of range, or the model
    has something the formulas do not cover.
    """
    config = fields.read(path)
    for name, what, fix in _UNCOVERED:
        if config.get(name):
            raise _uncovered(config, name, what, fix)
    _check_layer_types(config)
    architecture = _architecture(config)
    _check_window(config, architecture)
    heads = config.integer("num_attention_heads")
    shape = {
        "name": config.text("_name_or_path") if config.get("_name_or_path") else path.parent.name,
        "num_hidden_layers": config.integer("num_hidden_layers"),
        "hidden_size": config.integer("hidden_size"),
        "intermediate_size": config.integer("intermediate_size"),
        "num_attention_heads": heads,
        "num_key_value_heads": _kv_heads(config, heads, architecture),
        "head_dim": _head_dim(config, heads, architecture),
        "vocab_size": config.integer("vocab_size"),
        "tie_word_embeddings": (
            config.flag("tie_word_embeddings") if config.has("tie_word_embeddings") else False
        ),
        "dtype_bytes": _dtype_bytes(config),
        "qkv_bias": architecture.qkv_bias,
        "qk_norm": architecture.qk_norm,
    }
    return {**shape, "source": config.place()}


def _uncovered(config: Fields, name: str, what: str, fix: str = "") -> Exception:
    found = f"{what} ({name} is {show(config.get(name))}), which the formulas do not cover"
    return config.refuse(name, found, fix or "use a dense model with full attention")


def _architecture(config: Fields) -> Architecture:
    names = config.get("architectures")
    known = ", ".join(ARCHITECTURES)
    if not names:
        raise config.refuse("architectures", "missing", f"add one of {known}")
    if type(names) is not list or len(names) != 1 or type(names[0]) is not str:
        raise config.refuse("architectures", f"found {show(names)}", "write a list of one")
    if names[0] not in ARCHITECTURES:
        found = f"{show(names[0])}, which the formulas do not cover"
        raise config.refuse("architectures", found, f"covered: {known}")
    return ARCHITECTURES[names[0]]


def _check_layer_types(config: Fields) -> None:
    kinds = config.get("layer_types")
    if kinds is None:
        return
    if type(kinds) is not list:
        raise config.refuse("layer_types", f"found {show(kinds)}", "write a list")
    other = next((kind for kind in kinds if kind != "full_attention"), None)
    if other is not None:
        what = "sliding-window layers" if other == "sliding_attention" else "a hybrid of layers"
        found = f"{what} ({show(other)}), which the formulas do not cover"
        raise config.refuse("layer_types", found, "use a model with full attention in every layer")


def _check_window(config: Fields, architecture: Architecture) -> None:
    """A window that is set but switched off, as in Qwen2.5, does no harm."""
    in_use = architecture.always_slides or bool(config.get("use_sliding_window"))
    if config.has("sliding_window") and in_use:
        raise _uncovered(config, "sliding_window", "a sliding attention window")


def _kv_heads(config: Fields, heads: int, architecture: Architecture) -> int:
    if architecture.one_kv_head_each and not config.has("num_key_value_heads"):
        return heads
    kv_heads = config.integer("num_key_value_heads")
    if heads % kv_heads:
        found = f"{kv_heads} does not divide num_attention_heads {heads}"
        raise config.refuse("num_key_value_heads", found, "correct one of them")
    return kv_heads


def _head_dim(config: Fields, heads: int, architecture: Architecture) -> int:
    if architecture.needs_head_dim or config.has("head_dim"):
        return config.integer("head_dim")
    hidden = config.integer("hidden_size")
    if hidden % heads:
        found = f"missing, and num_attention_heads {heads} does not divide hidden_size {hidden}"
        raise config.refuse("head_dim", found, "add it")
    return hidden // heads


def _dtype_bytes(config: Fields) -> int:
    """``torch_dtype``, or ``dtype`` as transformers 5 writes it."""
    name = "dtype" if config.has("dtype") else "torch_dtype"
    dtype = config.text(name)
    if dtype not in SIZES:
        raise config.refuse(name, f"{show(dtype)}", f"covered: {', '.join(SIZES)}")
    return SIZES[dtype]
