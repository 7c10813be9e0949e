"""The format of SGLang's recordings, field by field, as FORMAT.md describes it."""

from __future__ import annotations

from typing import Any

from kvsched.conform.sglang.loop_format import RUN
from kvsched.conform.sglang.shapes import (
    BUDGETS,
    COUNT,
    EXTENT,
    LENGTH,
    LONGEST_OUTPUT,
    LONGEST_PROMPT,
    NONE,
    NUMBERS,
    OUTPUTS,
    POSITIVE,
    PRIORITY,
    WHOLE,
    tokens,
)
from kvsched.errors import InputError
from kvsched.sglang.config import POLICIES, RETRACTION_POLICIES
from kvsched.shape import (
    Check,
    a_list,
    all_of,
    an_object,
    array,
    flag,
    integer,
    line,
    mapping,
    nullable,
    number,
    of_type,
    one_of,
    record,
    refused,
    row,
    show,
    word,
)

VERSIONS = ("0.5.18",)
MOST_STEPS = 100_000
"""Of a decay sequence; more would only take long."""

_policy = one_of(*POLICIES)
_pairs = array(row(COUNT, COUNT))


def _operation(value: Any) -> None:
    """One step of a ratio sequence: decays, a reset, an estimate."""
    a_list(value)
    kind = value[0] if value else None
    if kind == "d":
        row(word, integer(0, MOST_STEPS))(value)
    elif kind == "e":
        row(word, _pairs)(value)
    elif value != ["r"]:
        raise refused(value, '["d", steps], ["r"] or ["e", requests]')


def _decayed(value: Any) -> None:
    """Values by how many decays they come after."""
    mapping(number)(value)
    for key in value:
        if not key.isascii() or not key.isdigit() or len(key) > 6 or int(key) > MOST_STEPS:
            raise InputError("", f"found the key {show(key)}", f"write 0 to {MOST_STEPS} decays")


_RATIO_START = record(
    {
        "cons": number,
        "init": number,
        "min": number,
        "decay": number,
        "after": _decayed,
    }
)
_RATIO = {
    "init": array(_RATIO_START),
    "seqs": array(record({"cons": number, "ops": array(_operation), "cur": array(number)})),
    "estimate": array(record({"steps": COUNT, "reqs": _pairs, "ratio": number})),
    "const": an_object,
    "server_arg_defaults": an_object,
}

_ORDER = record(
    {
        "policy": one_of(*RETRACTION_POLICIES),
        "low_first": flag,
        "reqs": array(row(OUTPUTS, LENGTH, PRIORITY)),
        "order": NUMBERS,
    }
)
_RETRACT_ALWAYS: dict[str, Check] = {
    "mode": one_of("std", "tiny", "dup"),
    "page": POSITIVE,
    "radix": flag,
    "tok0": array(COUNT),
    "shared30": NUMBERS,
    "reqs": array(row(LENGTH, integer(1, LONGEST_OUTPUT), POSITIVE, COUNT, COUNT), least=1),
    "need": COUNT,
    "free0": COUNT,
    "evictable0": COUNT,
    "ok": flag,
}
_RETRACT_DENIED: dict[str, Check] = {
    "retracted": NUMBERS,
    "kept": NUMBERS,
    "aborted": NUMBERS,
    "abort_msg": all_of(str),
    "ratio": number,
    "free1": COUNT,
    "evictable1": COUNT,
}
_FITS = record(_RETRACT_ALWAYS)
_DOES_NOT = record({**_RETRACT_ALWAYS, **_RETRACT_DENIED})


def _retract_loop(value: Any) -> None:
    an_object(value)
    (_FITS if value.get("ok") is True else _DOES_NOT)(value)
    if len(value["tok0"]) != len(value["reqs"]):
        raise InputError(".tok0", f"found {len(value['tok0'])}", "write one for each request")


_POLICY = record(
    {
        "policy": _policy,
        "effective": _policy,
        "active": _policy,
        "page": POSITIVE,
        "prio": flag,
        "low_first": flag,
        "tree": array(tokens),
        "reqs": array(row(tokens, COUNT, PRIORITY, number, of_type(str, NONE))),
        "running_keys": array(of_type(str, NONE)),
        "seed": of_type(int, NONE),
        "order": NUMBERS,
        "matched": NUMBERS,
        "prefix": NUMBERS,
        "deprio": NUMBERS,
    },
    {"tag": line},
)
_state = row(number, COUNT)
_ADDER = record(
    {
        "total": POSITIVE,
        "page": POSITIVE,
        "radix": flag,
        "chunk": nullable(POSITIVE),
        "max_prefill": POSITIVE,
        "ratio": number,
        "mixed_decode": COUNT,
        "align": nullable(POSITIVE),
        "prefill_max": nullable(POSITIVE),
        "running": array(row(LENGTH, OUTPUTS, COUNT, flag)),
        "tree": array(tokens),
        "ballast": integer(0, LONGEST_PROMPT),
        "avail": COUNT,
        "evictable": COUNT,
        "b0": BUDGETS,
        "waiting": array(row(tokens, OUTPUTS, COUNT, flag)),
        "steps": array(
            row(
                word,
                flag,
                nullable(EXTENT),
                flag,
                BUDGETS,
                nullable(array(_state)),
                COUNT,
                COUNT,
                COUNT,
            )
        ),
    },
    {
        "chunked_first": nullable(row(COUNT, tokens, COUNT)),
        "chunk_res": nullable(row(COUNT, COUNT, flag, BUDGETS)),
        "tag": line,
    },
)
_PREEMPT = record(
    {
        "low_first": flag,
        "threshold": COUNT,
        "page": POSITIVE,
        "ratio": number,
        "running": array(row(LENGTH, integer(1, LONGEST_OUTPUT), COUNT, WHOLE, number)),
        "new": row(LENGTH, COUNT, WHOLE),
        "new_fill_len": COUNT,
        "avail": COUNT,
        "evictable": COUNT,
        "rem_total0": number,
        "ok": flag,
        "preempted": NUMBERS,
        "kept": NUMBERS,
        "rem_total1": number,
    }
)
_TIMEOUT = record(
    {
        "timeout": number,
        "now": number,
        "entry": array(number),
        "left": NUMBERS,
        "aborted": array(row(COUNT, COUNT, line, line)),
    }
)

_version = one_of(*VERSIONS)
FILES: dict[str, Check] = {
    "ratio": record({"version": _version, **_RATIO}),
    "retract": record(
        {"version": _version, "orders": array(_ORDER), "loops": array(_retract_loop)}
    ),
    "policy": record({"version": _version, "cases": array(_POLICY)}),
    "adder": record({"version": _version, "cases": array(_ADDER)}),
    "preempt": record({"version": _version, "cases": array(_PREEMPT)}),
    "timeout": record({"version": _version, "cases": array(_TIMEOUT)}),
    "loop": record({"version": _version, "runs": array(RUN)}),
}

_MARKS = (("policy", "active"), ("adder", "b0"), ("preempt", "rem_total0"), ("timeout", "left"))
"""The kinds that list ``cases``, each with a field only its cases have."""


def kind_of(content: Any) -> str | None:
    """Of which kind a file is, None if of none that SGLang has."""
    if not isinstance(content, dict):
        return None
    for kind, field in (("loop", "runs"), ("retract", "orders"), ("ratio", "seqs")):
        if field in content:
            return kind
    cases = content.get("cases")
    first = cases[0] if isinstance(cases, list) and cases else None
    if isinstance(first, dict):
        for kind, field in _MARKS:
            if field in first:
                return kind
    return None


def check(content: Any) -> str:
    """The kind of a file whose every field is as it should be; else InputError."""
    kind = kind_of(content)
    if kind is None:
        an_object(content)
        found = f"found {show(content)}"
        raise InputError("", found, "give a recording of SGLang: its fields say of which kind")
    FILES[kind](content)
    _agree(kind, content)
    return kind


def _agree(kind: str, content: dict[str, Any]) -> None:
    """Lists that go together are as long as each other."""
    for position, case in enumerate(content["seqs"] if kind == "ratio" else ()):
        if len(case["ops"]) != len(case["cur"]):
            place = f".seqs[{position}].cur"
            raise InputError(place, f"found {len(case['cur'])}", "write one for each operation")
    for position, case in enumerate(content["cases"] if kind == "adder" else ()):
        if case.get("chunked_first") is not None and case["chunk"] is None:
            raise InputError(f".cases[{position}].chunk", "found null", "write a chunk size")
        if (case.get("chunked_first") is None) != (case.get("chunk_res") is None):
            place = f".cases[{position}].chunk_res"
            raise InputError(place, "it goes with chunked_first", "give both or neither")
