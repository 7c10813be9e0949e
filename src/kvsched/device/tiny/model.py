"""A Llama of a few thousand parameters, drawn from a seed, that reads and writes paged KV.

RMSNorm, rotary positions, grouped-query attention and SwiGLU, as in Llama 3 (arXiv:2407.21783,
section 3.2); a LoRA of Q and V per request (arXiv:2106.09685). The tests compare it with the
``transformers`` package's Llama.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from kvsched.device.tiny.pages import PagedKV


@dataclass(frozen=True, slots=True)
class Shape:
    """The model's sizes. ``adapters``: how many LoRAs of ``rank`` there are beside none."""

    vocab: int = 128
    dim: int = 32
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    ffn: int = 64
    theta: float = 10_000.0
    eps: float = 1e-5
    adapters: int = 3
    rank: int = 4

    @property
    def head_dim(self) -> int:
        """Size of one head."""
        return self.dim // self.heads


class Layer(NamedTuple):
    """One layer's weights, each (out, in); norms (dim,)."""

    attention_norm: Tensor
    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor
    mlp_norm: Tensor
    gate: Tensor
    up: Tensor
    down: Tensor


class Lora(NamedTuple):
    """One layer's adapter: what it adds to Q and V is ``up @ down @ x``."""

    q_down: Tensor
    q_up: Tensor
    v_down: Tensor
    v_up: Tensor


class Piece(NamedTuple):
    """One request's part of a pass, as the model sees it.

    ``tokens`` of them, written to the last so many of ``slots``; they attend to all of ``slots``,
    each to those not after itself if ``causal``.
    """

    tokens: int
    slots: Tensor
    adapter: int
    causal: bool = True


class Llama:
    """The weights, in ``dtype`` on ``device``; drawn in float64 on the CPU, so alike everywhere."""

    def __init__(
        self,
        shape: Shape | None = None,
        seed: int = 0,
        dtype: torch.dtype = torch.float64,
        device: str = "cpu",
    ) -> None:
        self.shape = shape = shape or Shape()
        self.dtype, self.device = dtype, device
        rng = torch.Generator().manual_seed(seed)

        def draw(out: int, inputs: int, gain: float = 1.0) -> Tensor:
            weight = torch.randn(out, inputs, generator=rng, dtype=torch.float64)
            return (weight * (gain / math.sqrt(inputs))).to(device, dtype)

        def norm() -> Tensor:
            scale = 1 + 0.1 * torch.randn(shape.dim, generator=rng, dtype=torch.float64)
            return scale.to(device, dtype)

        dim, kv, ffn = shape.dim, shape.kv_heads * shape.head_dim, shape.ffn
        self.embedding = draw(shape.vocab, dim, math.sqrt(dim))
        self.layers = [
            Layer(
                norm(),
                draw(dim, dim, 2.0),
                draw(kv, dim, 2.0),
                draw(kv, dim, 2.0),
                draw(dim, dim, 2.0),
                norm(),
                draw(ffn, dim),
                draw(ffn, dim),
                draw(dim, ffn),
            )
            for _ in range(shape.layers)
        ]
        self.norm = norm()
        self.head = draw(shape.vocab, dim, 2.0)
        rank = shape.rank
        self.adapters = [
            [
                Lora(draw(rank, dim), draw(dim, rank), draw(rank, dim), draw(kv, rank))
                for _ in range(shape.layers)
            ]
            for _ in range(shape.adapters)
        ]
        half = torch.arange(0, shape.head_dim, 2, dtype=torch.float64, device=device)
        self.frequencies = shape.theta ** (-half / shape.head_dim)
        self.wide = torch.promote_types(dtype, torch.float32)

    def cache(self, pages: int, size: int) -> PagedKV:
        """An empty KV cache for this model."""
        s = self.shape
        shape = (s.layers, s.kv_heads, s.head_dim)
        return PagedKV(pages, size, shape, self.dtype, self.device)

    @torch.inference_mode()
    def forward(
        self, tokens: Sequence[int], positions: Sequence[int], pieces: Sequence[Piece], kv: PagedKV
    ) -> Tensor:
        """One pass over all requests' tokens, piece after piece; logits (tokens, vocab).

        In each layer all K and V are written before anybody attends, so a request may attend to
        what another one writes in the same pass.
        """
        x = self.embedding[torch.tensor(tokens, device=self.device)]
        turn = self._turn(positions)
        ends = list(accumulate(piece.tokens for piece in pieces))
        written = torch.cat([piece.slots[len(piece.slots) - piece.tokens :] for piece in pieces])
        for number, layer in enumerate(self.layers):
            h = self._rms(x, layer.attention_norm)
            q, k, v = self._project(h, number, pieces)
            kv.write(number, written, _rotate(k, turn), v)
            q = _rotate(q, turn)
            attended = [
                self._attend(q[end - piece.tokens : end], number, piece, kv)
                for piece, end in zip(pieces, ends, strict=True)
            ]
            x = x + F.linear(torch.cat(attended), layer.o)
            h = self._rms(x, layer.mlp_norm)
            x = x + F.linear(F.silu(F.linear(h, layer.gate)) * F.linear(h, layer.up), layer.down)
        return F.linear(self._rms(x, self.norm), self.head)

    def whole(self, tokens: Sequence[int], adapter: int = 0) -> Tensor:
        """Logits of a sequence in one pass with nothing cached, (tokens, vocab)."""
        kv = self.cache(1, len(tokens))
        piece = Piece(len(tokens), torch.arange(len(tokens), device=self.device), adapter)
        return self.forward(tokens, range(len(tokens)), [piece], kv)

    def _project(
        self, h: Tensor, number: int, pieces: Sequence[Piece]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Q, K and V of all tokens, each (tokens, heads, head size), with the adapters' part."""
        layer, head_dim = self.layers[number], self.shape.head_dim
        q, k, v = (F.linear(h, weight) for weight in (layer.q, layer.k, layer.v))
        at = 0
        for piece in pieces:
            if piece.adapter:
                lora, rows = self.adapters[piece.adapter - 1][number], slice(at, at + piece.tokens)
                q[rows] += F.linear(F.linear(h[rows], lora.q_down), lora.q_up)
                v[rows] += F.linear(F.linear(h[rows], lora.v_down), lora.v_up)
            at += piece.tokens
        heads = (len(h), -1, head_dim)
        return q.view(heads), k.view(heads), v.view(heads)

    def _attend(self, q: Tensor, number: int, piece: Piece, kv: PagedKV) -> Tensor:
        """One piece's attention over its slots, (tokens, dim)."""
        k, v = kv.read(number, piece.slots)
        mask = None
        if piece.causal and piece.tokens > 1:
            ones = torch.ones(piece.tokens, len(k), dtype=torch.bool, device=self.device)
            mask = ones.tril(len(k) - piece.tokens)
        q, k, v = (t.transpose(0, 1).unsqueeze(0) for t in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        return out.squeeze(0).transpose(0, 1).flatten(1)

    def _rms(self, x: Tensor, weight: Tensor) -> Tensor:
        """The norm is taken in float32 at least, as engines do."""
        return F.rms_norm(x.to(self.wide), x.shape[-1:], eps=self.shape.eps).to(x.dtype) * weight

    def _turn(self, positions: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Cosine and sine of each position's angles, (tokens, 1, head size / 2)."""
        at = torch.tensor(list(positions), dtype=torch.float64, device=self.device)
        angles = torch.outer(at, self.frequencies).unsqueeze(1)
        return angles.cos().to(self.dtype), angles.sin().to(self.dtype)


def _rotate(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Turn each pair (i, i + half) of a head by its position's angle."""
    cos, sin = turn
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
