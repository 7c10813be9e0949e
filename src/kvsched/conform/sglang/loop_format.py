"""The format of one recorded loop. Values of ``cfg`` are left to the twin's Config."""

from __future__ import annotations

from typing import Any

from kvsched.conform.sglang.shapes import (
    BUDGETS,
    COUNT,
    EXTENT,
    NONE,
    NUMBERS,
    POSITIVE,
    PRIORITY,
    WHOLE,
    tokens,
)
from kvsched.shape import (
    Check,
    a_list,
    all_of,
    array,
    flag,
    line,
    nullable,
    number,
    of_type,
    record,
    refused,
    row,
    tagged,
    word,
)


def _call(value: Any) -> None:
    """One call of a loop's adder."""
    shapes = {
        "chunk": row(word, word, EXTENT, flag, BUDGETS),
        "add": row(word, word, nullable(EXTENT), word, BUDGETS),
        "preempt": row(word, word, all_of(str), flag, BUDGETS),
    }
    a_list(value)
    kind = value[0] if value else None
    if not isinstance(kind, str) or kind not in shapes:
        raise refused(kind, f"a call of one of {', '.join(shapes)}")
    shapes[kind](value)


_CFG = record(
    {
        "total": WHOLE,
        "page_size": WHOLE,
        "max_reqs": WHOLE,
        "max_prefill_tokens": WHOLE,
        "radix": flag,
        "policy": line,
        "conserv": number,
    },
    {
        "chunked": nullable(WHOLE),
        "mixed": nullable(flag),
        "decay_steps": nullable(WHOLE),
        "max_ctx": nullable(WHOLE),
        "prio": nullable(flag),
        "low_first": nullable(flag),
        "thresh": nullable(WHOLE),
        "retraction_policy": nullable(line),
        "timeout": nullable(number),
        "fix22": nullable(flag),
    },
)
_RETRACT = record(
    {
        "retracted": NUMBERS,
        "aborted": NUMBERS,
        "kept": NUMBERS,
        "ratio": number,
        "gain": of_type(int),
    }
)
_ENTRY: dict[str, Check] = {
    "arr": NUMBERS,
    "adder": record({"b0": BUDGETS, "calls": array(_call)}),
    "retract": _RETRACT,
    "abort": array(row(COUNT, COUNT, line)),
    "fin": NUMBERS,
    "ratio": number,
    "free": COUNT,
    "ev": COUNT,
    "prot": COUNT,
    "wait": NUMBERS,
    "run": NUMBERS,
    "full": flag,
    "ratio1": number,
    "free1": COUNT,
    "ev1": COUNT,
}
_prefill = record(
    {"k": word, "rows": array(row(COUNT, COUNT, COUNT)), "chunked": of_type(int, NONE)}, _ENTRY
)
_TRACE = array(
    tagged(
        "k",
        {
            "P": _prefill,
            "M": _prefill,
            "D": record({"k": word, "rows": NUMBERS}, _ENTRY),
            "I": record({"k": word}, _ENTRY),
        },
    )
)
_REQUEST = row(COUNT, tokens, POSITIVE, POSITIVE, flag, PRIORITY, of_type(str, NONE))
RUN = record(
    {
        "cfg": _CFG,
        "seed": of_type(int),
        "overlap": flag,
        "reqs": array(_REQUEST),
        "max_new_clipped": NUMBERS,
        "out": NUMBERS,
        "retractions": NUMBERS,
        "done_at": array(of_type(int, NONE)),
        "complete": flag,
        "iters": COUNT,
        "trace": _TRACE,
    },
    {"kind": line, "tag": line},
)
