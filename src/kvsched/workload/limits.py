"""The cap on outputs: what a client may send, and how it follows from a true output length.

Schedulers may read ``max_tokens`` and must not know the true length. Public traces give only the
latter, so a stated law makes the former from it. Print the law wherever it matters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from kvsched.errors import InputError
from kvsched.request import Request

FIX = "use a number of tokens such as 4096, exact, or factor:2"


def check(request: Request) -> None:
    """InputError for a cap below one token, which vLLM's front end refuses (SamplingParams).

    The schedulers themselves take it, as the engine's would.
    """
    if request.max_tokens < 1:
        raise InputError(
            f"request {request.id}", f"max_tokens is {request.max_tokens}", "allow >= 1 token"
        )


@dataclass(frozen=True, slots=True)
class Limit:
    """The law ``max_tokens = factor · output + tokens``, capped by what the model's length leaves.

    One of the two is 0. Read it from text with ``Limit.parse``: ``4096`` (every client sends this
    number), ``exact`` (the client knows), ``factor:k`` (the client overestimates k times).
    """

    tokens: int = 0
    factor: Fraction = Fraction(0)

    @classmethod
    def parse(cls, text: str) -> Limit:
        """A law by its text; InputError says what it could be."""
        if text == "exact":
            return EXACT
        number = text.removeprefix("factor:")
        try:
            value = Fraction(number)
        except (ValueError, ZeroDivisionError):
            raise InputError("max_tokens", f"unknown law {text!r}", FIX) from None
        if value < 1 or (number == text and value.denominator > 1):
            raise InputError("max_tokens", f"no use of {text!r}", FIX)
        return cls(int(value)) if number == text else cls(factor=value)

    def max_tokens(self, output: int, room: int) -> int:
        """The cap for a request whose output would be ``output`` tokens.

        ``room``: ``max_model_len`` less the prompt.
        """
        return max(1, min(math.ceil(self.factor * output) + self.tokens, room))

    def __str__(self) -> str:
        if self.tokens:
            return f"max_tokens {self.tokens:,}"
        return "max_tokens exact" if self.factor == 1 else f"max_tokens {self.factor} × the output"


EXACT = Limit(factor=Fraction(1))
DEFAULT = Limit(4096)
