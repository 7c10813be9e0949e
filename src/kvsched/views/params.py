"""What a reader may set before a view runs: a number, one of several words, a switch, a text."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kvsched.errors import InputError


@dataclass(frozen=True, slots=True)
class Number:
    """A number on the grid ``minimum``, ``minimum + step``, … up to ``maximum``.

    Whole if ``step`` is an int: then every value is an int, else every value is a float.
    """

    name: str
    label: str
    default: float
    minimum: float
    maximum: float
    step: float = 1
    unit: str = ""

    @property
    def kind(self) -> str:
        return "int" if isinstance(self.step, int) else "float"

    def check(self, value: Any) -> float:
        """The value as int or float; InputError if it is no number or out of range."""
        fix = f"give a number from {self.minimum} to {self.maximum}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(self.name, f"{value!r} is no number", fix)
        if not math.isfinite(value) or not self.minimum <= value <= self.maximum:
            raise InputError(self.name, f"{value} is out of range", fix)
        if self.kind == "float":
            return float(value)
        if value != int(value):
            raise InputError(self.name, f"{value} is not whole", "give a whole number")
        return int(value)

    @property
    def extremes(self) -> tuple[float, ...]:
        return (self.minimum, self.maximum)

    def control(self) -> dict[str, Any]:
        """What a front end needs to draw the control."""
        return {
            "name": self.name,
            "label": self.label,
            "kind": self.kind,
            "min": self.minimum,
            "max": self.maximum,
            "step": self.step,
            "unit": self.unit,
        }


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several words."""

    name: str
    label: str
    default: str
    choices: tuple[str, ...]

    def check(self, value: Any) -> str:
        """The word itself; InputError if it is not among the choices."""
        if value not in self.choices:
            known = f"choose {', '.join(self.choices)}"
            raise InputError(self.name, f"{value!r} is no choice", known)
        return str(value)

    @property
    def extremes(self) -> tuple[str, ...]:
        return self.choices

    def control(self) -> dict[str, Any]:
        """What a front end needs to draw the control."""
        return {
            "name": self.name,
            "label": self.label,
            "kind": "choice",
            "choices": list(self.choices),
        }


@dataclass(frozen=True, slots=True)
class Listed:
    """One of the words that ``listed`` gives when it is asked: files may have come since."""

    name: str
    label: str
    default: str
    listed: Callable[[], tuple[str, ...]]

    def check(self, value: Any) -> str:
        """The word itself; InputError if it is not among those there are now."""
        return self._choice().check(value)

    @property
    def extremes(self) -> tuple[str, ...]:
        return self.listed()

    def control(self) -> dict[str, Any]:
        """What a front end needs to draw the control."""
        return self._choice().control()

    def _choice(self) -> Choice:
        return Choice(self.name, self.label, self.default, self.listed())


@dataclass(frozen=True, slots=True)
class Switch:
    """On or off."""

    name: str
    label: str
    default: bool

    def check(self, value: Any) -> bool:
        """The value itself; InputError if it is neither true nor false."""
        if not isinstance(value, bool):
            raise InputError(self.name, f"{value!r} is no switch", "give true or false")
        return value

    @property
    def extremes(self) -> tuple[bool, ...]:
        return (False, True)

    def control(self) -> dict[str, Any]:
        """What a front end needs to draw the control."""
        return {"name": self.name, "label": self.label, "kind": "switch"}


@dataclass(frozen=True, slots=True)
class Text:
    """A line of text in a notation of the view's own.

    ``read`` raises InputError if it cannot be read. ``samples`` are texts to try, short and long.
    """

    name: str
    label: str
    default: str
    longest: int
    read: Callable[[str], object]
    samples: tuple[str, ...] = ("",)

    def check(self, value: Any) -> str:
        """The text itself; InputError if it is none, too long, or cannot be read."""
        if not isinstance(value, str):
            raise InputError(self.name, f"{value!r} is no text", "give a line of text")
        if len(value) > self.longest:
            fix = f"give at most {self.longest}"
            raise InputError(self.name, f"{len(value)} characters are too many", fix)
        try:
            self.read(value)
        except InputError as error:
            raise error.inside(self.name) from None
        return value

    @property
    def extremes(self) -> tuple[str, ...]:
        return self.samples

    def control(self) -> dict[str, Any]:
        """What a front end needs to draw the control."""
        return {"name": self.name, "label": self.label, "kind": "text", "longest": self.longest}


Param = Number | Choice | Listed | Switch | Text
