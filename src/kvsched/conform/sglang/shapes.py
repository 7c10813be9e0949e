"""Shapes that several of SGLang's recordings have in common."""

from __future__ import annotations

from typing import Any

from kvsched.errors import InputError
from kvsched.shape import (
    LARGEST,
    all_of,
    array,
    integer,
    nullable,
    number,
    of_type,
    row,
)

LONGEST_PROMPT = 10_000_000
"""Tokens; the longest context any published model claims."""

LONGEST_OUTPUT = 1_000_000

NONE = type(None)
COUNT = integer()
POSITIVE = integer(1)
LENGTH = integer(1, LONGEST_PROMPT)
OUTPUTS = integer(0, LONGEST_OUTPUT)
WHOLE = integer(-LARGEST)
NUMBERS = all_of(int)
PRIORITY = nullable(WHOLE)
BUDGETS = row(number, number, of_type(int), of_type(int, NONE))
EXTENT = row(COUNT, COUNT)

_ranges = array(row(COUNT, POSITIVE), least=1)


def tokens(value: Any) -> None:
    """Ranges of token ids, at least one token and not absurdly many."""
    _ranges(value)
    total = sum(count for _, count in value)
    if total > LONGEST_PROMPT:
        raise InputError("", f"{total} tokens", f"write at most {LONGEST_PROMPT}")
