"""The shape of a dense decoder, and the bytes and parameters that follow from it.

Covered: one stack of identical layers, each with full causal attention over grouped KV heads and a
gated MLP of three matrices (Llama, Mistral, Qwen2, Qwen3). ``config.py`` refuses the rest by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kvsched.costs import config


@dataclass(frozen=True, slots=True)
class Model:
    """A model's shape, by the field names of its ``config.json``.

    ``dtype_bytes``: bytes per weight and per KV element. ``qkv_bias``, ``qk_norm``: the small
    vectors Qwen2 and Qwen3 have beside their matrices. ``source``: where the numbers come from.
    """

    name: str
    num_hidden_layers: int
    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    tie_word_embeddings: bool
    dtype_bytes: int
    qkv_bias: bool
    qk_norm: bool
    source: str

    @classmethod
    def from_config(cls, path: str | Path) -> Model:
        """Read a Hugging Face ``config.json`` (or the folder that holds one), offline.

        Raises InputError naming the file, the field and what the formulas do not cover.
        """
        path = Path(path)
        if path.is_dir():
            path = path / "config.json"
        return cls(**config.read(path))

    @property
    def attention_width(self) -> int:
        """Query heads times head dimension; Llama's equals ``hidden_size``, Qwen3-4B's does not."""
        return self.num_attention_heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """KV heads times head dimension."""
        return self.num_key_value_heads * self.head_dim

    # -- KV cache, bytes ----------------------------------------------------------------------

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of K and V one token holds in all layers: ``2 · L · h_kv · d_h · bytes``."""
        return 2 * self.num_hidden_layers * self.kv_width * self.dtype_bytes

    def kv_block_bytes(self, block_size: int) -> int:
        """Bytes of one block of ``block_size`` tokens, all layers."""
        return self.kv_bytes_per_token * block_size

    def kv_fragment_bytes(self, block_size: int) -> int:
        """Bytes of one block's K (or V) in one layer: the piece a per-layer layout copies."""
        return self.kv_width * self.dtype_bytes * block_size

    # -- parameters ---------------------------------------------------------------------------

    @property
    def prompt_params(self) -> int:
        """Weights each prompt token is multiplied by: the matrices of all layers.

        Not the embedding, which is looked up, nor the head, which sees the last token only.
        """
        attention = 2 * self.hidden_size * (self.attention_width + self.kv_width)
        return self.num_hidden_layers * (attention + 3 * self.hidden_size * self.intermediate_size)

    @property
    def embedding_params(self) -> int:
        """One ``vocab_size`` × ``hidden_size`` matrix: the embedding, and the head if untied."""
        return self.vocab_size * self.hidden_size

    @property
    def num_params(self) -> int:
        """All weights."""
        return self.decode_params + (0 if self.tie_word_embeddings else self.embedding_params)

    @property
    def decode_params(self) -> int:
        """Weights one decode step reads: all but an untied embedding, of which it reads a row."""
        layer = 2 * self.hidden_size
        if self.qkv_bias:
            layer += self.attention_width + 2 * self.kv_width
        if self.qk_norm:
            layer += 2 * self.head_dim
        vectors = self.num_hidden_layers * layer + self.hidden_size
        return self.prompt_params + self.embedding_params + vectors

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights."""
        return self.num_params * self.dtype_bytes
