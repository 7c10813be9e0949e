"""Shapes of JSON values: small checks that compose, each naming the first value out of shape.

A check returns nothing, or raises an InputError whose place leads from the value it was given to
the wrong one (``[3].prompt[0][1]``; empty for the value itself).
"""

from __future__ import annotations

import difflib
import itertools
import json
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from kvsched.errors import InputError

Check = Callable[[Any], None]

LARGEST = 2**31 - 1
"""The largest count, step or token id that is taken seriously."""

_SHOWN = 60
_WORDS: dict[type, str] = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def show(value: object) -> str:
    """The value as an error message quotes it: short, on one line, in ASCII."""
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return f"an object of {len(value)}"
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def refused(value: object, want: str) -> InputError:
    """The error for a value that should have been ``want``."""
    return InputError("", f"found {show(value)}", f"write {want}")


def of_type(*kinds: type) -> Check:
    """A value of exactly one of the types: a bool is no integer."""
    want = " or ".join(_WORDS[kind] for kind in kinds)

    def check(value: Any) -> None:
        if type(value) not in kinds:
            raise refused(value, want)

    return check


flag = of_type(bool)
number = of_type(int, float)
an_object = of_type(dict)
a_list = of_type(list)


def integer(low: int = 0, high: int = LARGEST) -> Check:
    """An integer from ``low`` to ``high``."""
    want = f"an integer from {low} to {high}"

    def check(value: Any) -> None:
        if type(value) is not int or not low <= value <= high:
            raise refused(value, want)

    return check


def line(value: Any) -> None:
    """A string that prints as one line; it may be empty."""
    if type(value) is not str or not value.isprintable():
        raise refused(value, "a string of printable characters")


def word(value: Any) -> None:
    """A string that prints as one line and is not empty."""
    line(value)
    if not value:
        raise refused(value, "a string that is not empty")


def one_of(*choices: str) -> Check:
    """One of a few strings."""
    want = " or ".join(map(show, choices))

    def check(value: Any) -> None:
        if type(value) is not str or value not in choices:
            raise refused(value, want)

    return check


def nullable(item: Check) -> Check:
    """null, or what ``item`` accepts."""

    def check(value: Any) -> None:
        if value is not None:
            item(value)

    return check


def array(item: Check, least: int = 0) -> Check:
    """A list of at least ``least`` values, each of which ``item`` accepts."""

    def check(value: Any) -> None:
        a_list(value)
        if len(value) < least:
            raise refused(value, f"a list of at least {least}")
        for position, element in enumerate(value):
            _enter(position, item, element)

    return check


def row(*items: Check) -> Check:
    """A list of fixed length, with its own check for each position."""

    def check(value: Any) -> None:
        a_list(value)
        if len(value) != len(items):
            raise refused(value, f"a list of {len(items)}")
        for position, (item, element) in enumerate(zip(items, value, strict=True)):
            _enter(position, item, element)

    return check


def all_of(kind: type) -> Check:
    """A list of values of exactly one type."""
    allowed = {kind}
    slow = array(of_type(kind))

    def check(value: Any) -> None:
        if type(value) is not list or not allowed.issuperset(map(type, value)):
            slow(value)

    return check


def cells(*kinds: type | tuple[type, ...]) -> Check:
    """A row whose values have these types, quicker than ``row``: a trace holds millions."""
    choices = [kind if isinstance(kind, tuple) else (kind,) for kind in kinds]
    allowed = set(itertools.product(*choices))
    slow = row(*(of_type(*choice) for choice in choices))

    def check(value: Any) -> None:
        if type(value) is not list or tuple(map(type, value)) not in allowed:
            slow(value)

    return check


def mapping(item: Check) -> Check:
    """An object with any keys whose values ``item`` accepts."""

    def check(value: Any) -> None:
        an_object(value)
        for key, element in value.items():
            _enter(key, item, element)

    return check


def record(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """An object with exactly these fields."""
    known = {**required, **(optional or {})}

    def check(value: Any) -> None:
        an_object(value)
        for name, element in value.items():
            if name not in known:
                raise _unknown(name, known.keys() - value.keys())
            _enter(name, known[name], element)
        if not required.keys() <= value.keys():
            missing = next(name for name in required if name not in value)
            raise InputError("", f"no field {show(missing)}", "add it")

    return check


def tagged(tag: str, records: Mapping[str, Check]) -> Check:
    """An object whose field ``tag`` says which of the records it is."""
    kind = one_of(*records)

    def check(value: Any) -> None:
        an_object(value)
        if tag not in value:
            raise InputError("", f"no field {show(tag)}", "add it")
        _enter(tag, kind, value[tag])
        records[value[tag]](value)

    return check


def _enter(key: int | str, item: Check, element: Any) -> None:
    """Check the element that a list or object holds under ``key``."""
    try:
        item(element)
    except InputError as error:
        step = f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{json.dumps(key)}]"
        raise InputError(step + error.place, error.problem, error.fix) from None


def _unknown(name: str, absent: AbstractSet[str]) -> InputError:
    """The error for a field that is not in the format; perhaps an absent one was meant."""
    near = difflib.get_close_matches(name, sorted(absent), 1)
    fix = f"write {show(near[0])}" if near else "remove it"
    return InputError("", f"unknown field {show(name)}", fix)
