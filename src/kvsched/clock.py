"""Time as the engine loop counts it. Integers only: ticks, or nanoseconds of a cost model."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple, Protocol

from kvsched.contract import Plan, Row
from kvsched.costs.model import Model
from kvsched.costs.shapes import MODELS
from kvsched.errors import InputError
from kvsched.profiles.profile import Profile, Quantity

FS_PER_NS = 10**6


class Clock(Protocol):
    """Says how long a step takes and whether an idle engine waits or jumps."""

    def duration(self, plan: Plan) -> int:
        """Time units the plan's pass takes, at least 1."""


class Ticks:
    """Every step takes one tick, whatever it does."""

    def duration(self, plan: Plan) -> int:
        return 1


class Work(NamedTuple):
    """What a pass asks of the device, as ``CostClock`` counts it: n, the sum of e² - s², and c."""

    tokens: int
    squares: int
    context: int

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Work:
        """The work of a pass of these rows."""
        tokens = squares = context = 0
        for _, start, count, _ in rows:
            if count == 1:
                context += start + 1
            else:
                tokens += count
                squares += count * (2 * start + count)
        return cls(tokens, squares, context)


class CostClock:
    """A step takes the sum of four costs of ``profile``, in integer nanoseconds::

        base + prefill · n + attention · (e² - s²) + context · c

    A row of more than one token is prefill: n counts its tokens, s is where it starts and e where
    it ends, so that a prompt of S tokens pays attention · S² in all, however it is cut into chunks.
    A row of one token is a decode: c is the number of tokens it attends to, itself included. A
    pass with no rows takes ``base``.

    Rounding: each coefficient is rounded once, to whole femtoseconds (half to even); the sum is
    taken in integers and rounded once, to the nearest nanosecond (half up). So a run's times are
    the same on every Python.

    The profile's coefficients belong to one model. For another each is scaled by what it is
    proportional to, which is an estimate (``scaled`` says so): base by the weights a decode reads,
    prefill by the weights a prompt token meets, attention by layers times query width, context by
    KV bytes per token.

    Raises InputError: the profile has no step costs; the model's elements differ in size from the
    profile's, so that the ratio of weights says little about time.
    """

    def __init__(self, profile: Profile, model: Model | None = None) -> None:
        step = profile.step
        if step is None:
            fix = "use a published or measured profile"
            raise InputError(f"profile {profile.name}", "no step costs", fix)
        own = MODELS[step.model]
        self.profile = profile
        self.model = model = model if model is not None else own
        self.scaled = model != own
        if model.dtype_bytes != own.dtype_bytes:
            raise InputError(
                f"model {model.name}",
                f"{model.dtype_bytes} bytes per element, the profile's {own.name} has "
                f"{own.dtype_bytes}",
                "use a 16-bit model",
            )
        self.base_fs = _fs(step.base_ns, model.decode_params, own.decode_params)
        self.prefill_fs = _fs(step.prefill_ns_per_token, model.prompt_params, own.prompt_params)
        self.attention_fs = _fs(
            step.attention_ns_per_token2,
            model.num_hidden_layers * model.attention_width,
            own.num_hidden_layers * own.attention_width,
        )
        self.context_fs = _fs(
            step.decode_ns_per_context_token, model.kv_bytes_per_token, own.kv_bytes_per_token
        )

    def duration(self, plan: Plan) -> int:
        """Nanoseconds of the plan's pass; InputError if the plan does not say where rows start."""
        rows = plan.rows
        if not rows and plan.scheduled:
            raise InputError("plan", "no rows", "use Ticks with a scheduler that keeps no blocks")
        return self.nanoseconds(Work.of(rows))

    def nanoseconds(self, work: Work) -> int:
        """Time of a pass that does this work."""
        total = (
            self.base_fs
            + self.prefill_fs * work.tokens
            + self.attention_fs * work.squares
            + self.context_fs * work.context
        )
        return max(1, (total + FS_PER_NS // 2) // FS_PER_NS)


def _fs(ns: Quantity, size: int, own: int) -> int:
    """A coefficient in whole femtoseconds, scaled by ``size / own``."""
    return round(Fraction(ns.value) * FS_PER_NS * Fraction(size, own))
