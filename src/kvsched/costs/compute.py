"""Prefill and decode: operations, times, and when recomputing a victim beats copying it.

The plain model counts 2 · N · S for the matrices and 2 · L · S² · d for causal attention (two
products of S² · d multiply-adds a layer, half of them masked). N is the number of parameters, S
the prompt length, L the number of layers, d the width of all query heads together.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvsched.costs.model import Model
from kvsched.costs.units import at_least, positive
from kvsched.errors import InputError


def attention_flops(model: Model, tokens: int, cached: int = 0) -> int:
    """FLOP of causal attention over a prompt whose first ``cached`` tokens are not computed."""
    _check_cached(tokens, cached)
    pairs = tokens * tokens - cached * cached
    return 2 * model.num_hidden_layers * pairs * model.attention_width


def plain_prefill_flops(model: Model, tokens: int, params: float) -> float:
    """FLOP of a prefill, ``2 · N · S + 2 · L · S² · d``, with N = ``params``.

    The usual estimate takes N = all parameters, and so counts embedding and head, which no prompt
    token is multiplied by: some 13 % too many for Llama-3-8B at 8,192 tokens.
    """
    return 2 * positive("params", params) * tokens + attention_flops(model, tokens)


def prefill_flops(model: Model, tokens: int, cached: int = 0) -> int:
    """FLOP of a prefill without embedding and head; the first ``cached`` tokens cost nothing.

    The attention of the rest still reads the cached prefix.
    """
    matrices = 2 * model.prompt_params * (tokens - cached)
    return matrices + attention_flops(model, tokens, cached)


@dataclass(frozen=True, slots=True)
class PrefillLaw:
    """Prefill time of a whole prompt, ``linear · S + quadratic · S²`` seconds."""

    linear: float
    quadratic: float

    @classmethod
    def through(cls, first: tuple[int, float], second: tuple[int, float]) -> PrefillLaw:
        """The law through two measured points (tokens, seconds).

        Raises InputError: a value is not positive, or both points have one length.
        """
        (a, time_a), (b, time_b) = first, second
        for name, value in (("tokens", a), ("seconds", time_a), ("tokens", b), ("seconds", time_b)):
            positive(name, value)
        if a == b:
            raise InputError("tokens", f"{a} twice", "measure two prompt lengths")
        quadratic = (time_b / b - time_a / a) / (b - a)
        return cls(time_a / a - quadratic * a, quadratic)

    def seconds(self, tokens: int) -> float:
        """Time to prefill a prompt of this many tokens."""
        return (self.linear + self.quadratic * tokens) * tokens


def prefill_seconds(flops: float, flop_s: float) -> float:
    """Time of this many FLOP at an achieved rate."""
    return flops / positive("flop_s", flop_s)


def decode_seconds(model: Model, batch: int, context: int, bytes_s: float) -> float:
    """Time of a decode step if memory reads were all of it: every weight once, every KV once.

    ``context``: tokens each of ``batch`` requests attends to. ``bytes_s``: memory bandwidth.
    A bound from below: the published steps of 64 requests lie 20 to 35 % above it.
    """
    weights = model.decode_params * model.dtype_bytes
    read = weights + at_least("batch", batch, 1) * context * model.kv_bytes_per_token
    return read / positive("bytes_s", bytes_s)


def crossover_rate(tokens: int, round_trip: float) -> float:
    """Prefill rate, in tokens per second, above which recomputing beats a swap's round trip."""
    return tokens / positive("round_trip", round_trip)


def survival_threshold(round_trip: float, cold: float) -> float:
    """f*: the share of the prompt whose KV must survive, as a prefix, for recompute to win.

    With share f left, recomputing costs (1 - f) · ``cold``, which equals the round trip at
    f* = 1 - round trip / cold. It is 0 where even a cold recompute wins. A simplification: the
    suffix still attends to the prefix, and launches, queues and overlap are left out.
    """
    return max(0.0, 1 - positive("round_trip", round_trip) / positive("cold", cold))


def _check_cached(tokens: int, cached: int) -> None:
    at_least("tokens", tokens, 1)
    if not 0 <= cached <= tokens:
        raise InputError("cached", f"{cached} is not in [0, {tokens}]", "give a part of the prompt")
