"""JSON files that a user may have written: each field is read by name, type and range.

A file this reads is a Hugging Face ``config.json`` or a hardware profile, so it is small. Whatever
is wrong with it becomes an InputError whose place is ``file: field``.
"""

from __future__ import annotations

import difflib
import json
import math
from typing import TYPE_CHECKING, Any

from kvsched.errors import InputError
from kvsched.shape import show

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAX_BYTES = 64 * 2**20
"""Refuse larger files; a profile with every raw sample is below 1 MiB."""

LARGEST = 2**53
"""The largest integer that every JSON reader keeps exact."""


def read(path: Path) -> Fields:
    """The JSON object in a file.

    Raises InputError: not readable, not UTF-8, not JSON, a key twice, not an object.
    """
    text = str(path)
    place = text if text.isprintable() else ascii(text)
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(place, f"cannot be read ({reason})", "check the path") from None
    if len(data) > MAX_BYTES:
        raise InputError(place, f"more than {MAX_BYTES} bytes", "give a JSON file of this kind")
    return parse(data, place)


def parse(data: bytes, place: str) -> Fields:
    """The JSON object in these bytes; ``place`` is what errors call them."""
    try:
        return Fields(json.loads(data.decode(), object_pairs_hook=_once), place)
    except InputError as error:
        raise error.inside(place) from None
    except UnicodeDecodeError as error:
        found = f"byte {error.start} is not UTF-8"
    except json.JSONDecodeError as error:
        found = f"not JSON ({error.msg}, line {error.lineno} column {error.colno})"
    except RecursionError:
        found = "nested too deeply"
    except ValueError:
        found = "an integer of thousands of digits"
    raise InputError(place, found, "write one JSON object as UTF-8")


class Fields:
    """A JSON object and where it stands. Reading a field that is absent or null is an error."""

    def __init__(self, value: Any, place: str, inner: str = "") -> None:
        self._file = place
        self._inner = inner
        if type(value) is not dict:
            raise InputError(self.place(), f"found {show(value)}", "write an object")
        self._values: dict[str, Any] = value

    def place(self, name: str = "") -> str:
        """``file: path.to.field``, for errors."""
        inner = ".".join(part for part in (self._inner, name) if part)
        return f"{self._file}: {inner}" if inner else self._file

    def refuse(self, name: str, problem: str, fix: str) -> InputError:
        """An error about the field ``name``."""
        return InputError(self.place(name), problem, fix)

    def has(self, name: str) -> bool:
        """Is the field there, and not null?"""
        return self._values.get(name) is not None

    def get(self, name: str) -> Any:
        """The field's value whatever its type; null and absent are None."""
        return self._values.get(name)

    def only(self, *known: str) -> None:
        """Refuse a field that is none of these."""
        for name in self._values:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                fix = f"write {near[0]}" if near else f"known: {', '.join(known)}"
                raise self.refuse("", f"unknown field {show(name)}", fix)

    def text(self, name: str) -> str:
        """A string that prints as one line and is not empty."""
        value = self._need(name)
        if type(value) is not str or not value.strip() or not value.isprintable():
            raise self._wrong(name, "a line of printable text")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings, each of which prints as one line."""
        values = self._list(name)
        for i, value in enumerate(values):
            if type(value) is not str or not value.strip() or not value.isprintable():
                found = f"found {show(value)}"
                raise self.refuse(f"{name}[{i}]", found, "write a line of printable text")
        return tuple(values)

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self._need(name)
        if type(value) is not bool:
            raise self._wrong(name, "true or false")
        return value

    def integer(self, name: str, low: int = 1) -> int:
        """An integer of at least ``low``."""
        value = self._need(name)
        if type(value) is not int or not low <= value <= LARGEST:
            raise self._wrong(name, f"an integer from {low} up")
        return value

    def number(self, name: str) -> float:
        """A finite number above 0."""
        return self._number(self._need(name), name)

    def numbers(self, name: str) -> tuple[float, ...]:
        """A list of finite numbers above 0."""
        values = self._list(name)
        return tuple(self._number(value, f"{name}[{i}]") for i, value in enumerate(values))

    def child(self, name: str) -> Fields:
        """An object."""
        return Fields(self._need(name), self._file, ".".join(filter(None, (self._inner, name))))

    def children(self, name: str) -> list[Fields]:
        """A list of objects; empty if the field is absent."""
        if not self.has(name):
            return []
        inner = ".".join(filter(None, (self._inner, name)))
        return [
            Fields(value, self._file, f"{inner}[{i}]") for i, value in enumerate(self._list(name))
        ]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def _need(self, name: str) -> Any:
        if not self.has(name):
            raise self.refuse(name, "missing", f"add {show(name)}")
        return self._values[name]

    def _list(self, name: str) -> list[Any]:
        value = self._need(name)
        if type(value) is not list:
            raise self._wrong(name, "a list")
        return value

    def _number(self, value: Any, name: str) -> float:
        if type(value) not in (int, float) or not 0 < value < LARGEST or not math.isfinite(value):
            raise self.refuse(name, f"found {show(value)}", "write a finite number above 0")
        return float(value)

    def _wrong(self, name: str, want: str) -> InputError:
        return self.refuse(name, f"found {show(self._values[name])}", f"write {want}")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The pairs of one object as a dict, if no key comes twice."""
    value = dict(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise InputError("file", f"key {show(key)} twice in one object", "keep one of them")
            seen.add(key)
    return value
