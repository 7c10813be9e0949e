"""The lines of a trace: which fields they have, and what each may hold."""

from __future__ import annotations

from typing import Any

from kvsched.errors import InputError
from kvsched.request import Runs, runs_from_block_ids
from kvsched.shape import LARGEST, array, integer, one_of, record, refused, row, tagged

SCHEMA = "kvsched-trace-1"
LATEST = 2**62
LONGEST_ID = 200
APART = 2**32
"""Token ids from one counted prompt's first to the next one's: no two share a token."""


def _id(value: Any) -> None:
    if type(value) is not str or not 1 <= len(value) <= LONGEST_ID:
        raise refused(value, f"a string of 1 to {LONGEST_ID} characters")


def _prompt(value: Any) -> None:
    if type(value) is list:
        _runs(value)
        if sum(count for _, count in value) > LARGEST:
            raise InputError("", f"more than {LARGEST} tokens", "write a shorter prompt")
    elif type(value) is dict:
        _blocks(value)
        have, tokens = len(value["block_ids"]) * value["block_tokens"], value["tokens"]
        if not have - value["block_tokens"] < tokens <= have:
            fix = "write as many ids as the tokens fill, the last one perhaps in part"
            raise InputError(".tokens", f"{tokens} in blocks for {have}", fix)
    else:
        _tokens(value)


_time = integer(0, LATEST)
_tokens = integer(1)
_runs = array(row(_time, _tokens), least=1)
_blocks = record(
    {"block_ids": array(_time, least=1), "block_tokens": integer(1, 2**20), "tokens": _tokens}
)
HEADER = record(
    {"schema": one_of(SCHEMA), "unit": one_of("tick", "ns")}, {"events": integer(0, LATEST)}
)
_head = {"t": _time, "id": _id}
EVENT = tagged(
    "type",
    {
        "arrive": record(
            {"type": one_of("arrive"), **_head, "prompt": _prompt, "output": _tokens},
            {"max_tokens": _tokens, "priority": integer(-LARGEST), "deadline": _time},
        ),
        "cancel": record({"type": one_of("cancel"), **_head}),
    },
)


def prompt_runs(value: Any, number: int) -> Runs:
    """The runs of a checked prompt; ``number`` sets counted prompts apart."""
    if type(value) is list:
        return tuple((first, count) for first, count in value)
    if type(value) is dict:
        return runs_from_block_ids(value["block_ids"], value["block_tokens"], value["tokens"])
    return ((number * APART, value),)
