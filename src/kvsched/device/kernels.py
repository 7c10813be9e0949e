"""What CPU and CUDA share, in torch: the work itself. Of the device it knows the name alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch.nn.attention import SDPBackend, sdpa_kernel

from kvsched.costs.model import Model
from kvsched.device.backend import Buffer, Shape, Work
from kvsched.profiles import Part

_ATTENTION = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""Flash attention where the device has it."""
_RANDOM = 2**20
"""Random numbers drawn for a layer's weights, which repeat them: time goes to measuring."""


class Kernels:
    """The work of a backend; ``where`` is torch's name of the device."""

    where = "cpu"
    type: Any = torch.float32

    def pool(self, size: int) -> Buffer:
        return torch.zeros(size, dtype=torch.uint8, device=self.where)

    def copies(self, target: Buffer, source: Buffer, pairs: Sequence[tuple[int, int]]) -> Work:
        into, out = target.view(len(pairs), -1).unbind(), source.view(len(pairs), -1).unbind()
        pieces = [(into[to], out[at]) for to, at in pairs]

        def run() -> None:
            for to, at in pieces:
                to.copy_(at, non_blocking=True)

        return run

    def gather(self, out: Buffer, pool: Buffer, order: Sequence[int], stage: Buffer) -> Work:
        pieces, staged, index = self._pieces(pool, order, stage)

        def run() -> None:
            torch.index_select(pieces, 0, index, out=staged)
            out.copy_(stage, non_blocking=True)

        return run

    def scatter(self, pool: Buffer, back: Buffer, order: Sequence[int], stage: Buffer) -> Work:
        pieces, staged, index = self._pieces(pool, order, stage)

        def run() -> None:
            stage.copy_(back, non_blocking=True)
            pieces.index_copy_(0, index, staged)

        return run

    def _pieces(self, pool: Buffer, order: Sequence[int], stage: Buffer) -> tuple[Any, Any, Any]:
        """Both buffers as rows of 64-bit words, which move faster than bytes; and the order."""
        rows = [each.view(torch.int64).view(len(order), -1) for each in (pool, stage)]
        return rows[0], rows[1], torch.tensor(order, device=self.where)

    def mask(self, tokens: int, length: int) -> Any:
        """The mask of the last ``tokens`` of ``length``: each sees all up to itself."""
        everything = torch.ones(tokens, length, dtype=torch.bool, device=self.where)
        return everything.tril(length - tokens)

    def duplicate(self, size: int) -> Work:
        source, target = self.pool(size), self.pool(size)
        return lambda: target.copy_(source)

    def matmul(self, side: int) -> Work:
        a, b, out = (self._random(side, side) for _ in range(3))
        return lambda: torch.mm(a, b, out=out)

    def layers(self, model: Model, part: Part, distinct: int) -> Stack:
        return Stack(self, model, part.ranks, distinct)

    def _random(self, *shape: int) -> Any:
        """Normal numbers; above ``_RANDOM`` of them they repeat."""
        made = torch.empty(shape, dtype=self.type, device=self.where)
        flat = made.view(-1)
        drawn = torch.randn(min(_RANDOM, flat.numel()), device=self.where).to(self.type)
        for start in range(0, flat.numel(), drawn.numel()):
            rest = flat[start : start + drawn.numel()]
            rest.copy_(drawn[: rest.numel()])
        return made


class Stack:
    """Distinct layers, cycled. Each keeps its own KV, so that no cache holds it either."""

    def __init__(self, kernels: Kernels, model: Model, ranks: int, distinct: int) -> None:
        self.kernels, self.hidden = kernels, model.hidden_size
        self.kv_heads, self.head_dim = model.num_key_value_heads // ranks, model.head_dim
        self.all = [Layer(kernels, model, ranks) for _ in range(distinct)]

    def forward(self, shape: Shape, layers: int) -> Work:
        random = self.kernels._random
        x = random(shape.batch, shape.tokens, self.hidden)
        length = shape.cached + shape.tokens
        kv = (2, shape.batch, self.kv_heads, length, self.head_dim)
        cycle = [(layer, random(*kv)) for layer in self.all[:layers]]
        mask = _mask(self.kernels, shape.tokens, shape.cached)

        def run() -> Any:
            with torch.inference_mode(), sdpa_kernel(_ATTENTION, set_priority=True):
                out = x
                for i in range(layers):
                    layer, cache = cycle[i % len(cycle)]
                    out = layer(out, cache, shape.cached, mask)
                return out

        return run


class Layer:
    """One rank of a decoder layer of Llama: norm, attention, norm, gated MLP, each added on."""

    def __init__(self, kernels: Kernels, model: Model, ranks: int) -> None:
        self.heads = model.num_attention_heads // ranks
        self.kv_heads = model.num_key_value_heads // ranks
        self.head_dim, self.hidden = model.head_dim, model.hidden_size
        wide, out = model.intermediate_size // ranks, self.heads * self.head_dim
        small = 0.02
        self.qkv = kernels._random(out + 2 * self.kv_heads * self.head_dim, self.hidden).mul_(small)
        self.o = kernels._random(self.hidden, out).mul_(small)
        self.gate_up = kernels._random(2 * wide, self.hidden).mul_(small)
        self.down = kernels._random(self.hidden, wide).mul_(small)

    def __call__(self, x: Any, cache: Any, cached: int, mask: Any) -> Any:
        """(batch, tokens, hidden) to the same; writes the tokens' K and V behind the cached."""
        x = x + F.linear(self._attend(self._norm(x), cache, cached, mask), self.o)
        gate, up = F.linear(self._norm(x), self.gate_up).chunk(2, dim=-1)
        return x + F.linear(F.silu(gate) * up, self.down)

    def _norm(self, x: Any) -> Any:
        return F.rms_norm(x, (self.hidden,), eps=1e-5)

    def _attend(self, x: Any, cache: Any, cached: int, mask: Any) -> Any:
        batch, tokens, _ = x.shape
        heads = F.linear(x, self.qkv).view(batch, tokens, -1, self.head_dim).transpose(1, 2)
        q, k, v = heads.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
        cache[0, :, :, cached:].copy_(k)
        cache[1, :, :, cached:].copy_(v)
        out = _attention(q, cache[0], cache[1], mask)
        return out.transpose(1, 2).reshape(batch, tokens, -1)


def _mask(kernels: Kernels, tokens: int, cached: int) -> Any:
    """None where torch's own will do: after nothing, or of one token."""
    return kernels.mask(tokens, cached + tokens) if cached > 0 and tokens > 1 else None


def _attention(q: Any, k: Any, v: Any, mask: Any) -> Any:
    """Token i of q sees the cached ones and those of k up to itself.

    torch's ``is_causal`` aligns the mask's upper left corner; after a prefix it must be the lower
    right one, which ``mask`` is. One new token sees all.
    """
    whole = mask is None and q.shape[-2] > 1
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=whole, enable_gqa=True)
