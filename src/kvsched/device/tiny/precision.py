"""The same tokens, other logits: what recomputing does to the last bits, and to the token.

A decode computes one token against KV that earlier passes left; recomputing computes all tokens in
one pass. Same numbers, summed in another order. So does a decode in other company.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch
from torch import Tensor

from kvsched.device.tiny.model import Llama, Piece, Shape

DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
SHAPE = Shape(vocab=512, dim=128, layers=4, heads=8, kv_heads=2, ffn=256, adapters=0)
"""Larger than the scenes' model, which is so small that bfloat16 hardly differs."""
PROMPT, COMPANY = 64, 7
"""Tokens of the prompt; requests that decode beside it, each with as long a context."""


@dataclass(slots=True)
class Differences:
    """Logits of a pass against those of the plain decode, over many decodes.

    ``largest``: of each decode's logits the largest difference. ``bins``: how often it lay in
    [2^b, 2^(b+1)). ``equal``: how often there was none. ``flips``: how often the largest logit was
    another token's.
    """

    count: int = 0
    equal: int = 0
    flips: int = 0
    largest: list[float] = field(default_factory=list)

    def add(self, plain: Tensor, other: Tensor) -> None:
        """Compare one decode's logits with another pass's."""
        difference = float((plain.double() - other.double()).abs().max())
        self.count += 1
        self.equal += difference == 0
        self.flips += bool(plain.argmax() != other.argmax())
        self.largest.append(difference)

    def summary(self) -> dict[str, Any]:
        """As JSON-able numbers."""
        bins = Counter(math.floor(math.log2(d)) for d in self.largest if d)
        return {
            "count": self.count,
            "equal": self.equal,
            "flips": self.flips,
            "median": _short(sorted(self.largest)[self.count // 2]),
            "most": _short(max(self.largest)),
            "bins": {str(b): bins[b] for b in sorted(bins)},
        }


def measure(dtype: str, device: str = "cpu", seeds: int = 8, steps: int = 32) -> dict[str, Any]:
    """Greedy decodes of ``seeds`` models, ``steps`` each: recomputed, and in other company.

    ``gap``: the quartiles of the distance between the two largest logits.
    """
    recomputed, company = Differences(), Differences()
    gaps: list[float] = []
    for seed in range(seeds):
        model = Llama(SHAPE, seed, DTYPES[dtype], device)
        for plain, again, beside in _decodes(model, Random(seed), steps):
            recomputed.add(plain, again)
            company.add(plain, beside)
            first, second = plain.double().topk(2).values.tolist()
            gaps.append(first - second)
    gaps.sort()
    return {
        "recomputed": recomputed.summary(),
        "in company": company.summary(),
        "gap": [_short(gaps[len(gaps) * share // 100]) for share in (1, 25, 50, 75)],
    }


def _decodes(model: Llama, rng: Random, steps: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Logits after each token: decoded, computed again as a whole, and decoded beside others."""
    vocab = model.shape.vocab
    everyone = [[rng.randrange(vocab) for _ in range(PROMPT)] for _ in range(1 + COMPANY)]
    kv = model.cache(1 + COMPANY, PROMPT + steps)
    slots = [kv.slots([page], 0, PROMPT + steps) for page in range(1 + COMPANY)]
    for tokens, own in zip(everyone, slots, strict=True):
        first = model.forward(tokens, range(PROMPT), [Piece(PROMPT, own[:PROMPT], 0)], kv)
        tokens.append(int(first[-1].argmax()))
    for at in range(PROMPT, PROMPT + steps):
        newest = [tokens[at] for tokens in everyone]
        pieces = [Piece(1, own[: at + 1], 0) for own in slots]
        beside = model.forward(newest, [at] * len(newest), pieces, kv)
        plain = model.forward(newest[:1], [at], pieces[:1], kv)[-1]
        yield plain, model.whole(everyone[0])[-1], beside[0]
        everyone[0].append(int(plain.argmax()))
        for tokens, logits in zip(everyone[1:], beside[1:], strict=True):
            tokens.append(int(logits.argmax()))


def _short(value: float) -> float:
    """Three significant digits."""
    return float(f"{value:.3g}")
