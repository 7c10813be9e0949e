"""Units by name. ``GiB`` is 2**30 bytes, ``GB`` is 10**9; no function takes a bare "G".

Every function of this package takes and returns base units: bytes, bytes per second, FLOP, FLOP
per second, seconds, tokens, blocks. A name that ends in a unit (``_ms``, ``_gb_s``) is a number as
a table prints it. Write ``40 * GiB`` to go in, and ``binary``, ``decimal`` or ``time`` to come out.
"""

from __future__ import annotations

import math

from kvsched.errors import InputError

KiB, MiB, GiB, TiB = 2**10, 2**20, 2**30, 2**40
KB, MB, GB, TB = 10**3, 10**6, 10**9, 10**12
MS, US, NS = 1e-3, 1e-6, 1e-9
TERA = 10**12
"""FLOP in a TFLOP."""

_BINARY = ((TiB, "TiB"), (GiB, "GiB"), (MiB, "MiB"), (KiB, "KiB"), (1, "B"))
_DECIMAL = ((10**15, "P"), (10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"), (1, ""))
_TIMES = ((1.0, "s"), (MS, "ms"), (US, "µs"), (NS, "ns"))


def positive(name: str, value: float) -> float:
    """The value, if it is finite and above 0; else InputError naming it."""
    if not (math.isfinite(value) and value > 0):
        raise InputError(name, f"{value} is not above 0", "give a positive number")
    return value


def at_least(name: str, value: int, low: int) -> int:
    """The value, if it is no smaller than ``low``; else InputError naming it."""
    if value < low:
        raise InputError(name, f"{value} is below {low}", f"give {low} or more")
    return value


def binary(count: float, digits: int = 2) -> str:
    """Bytes in the largest binary unit that leaves at least 1: ``52.32 GiB``."""
    return _show(count, _BINARY, digits)


def decimal(count: float, unit: str, digits: int = 2) -> str:
    """An amount with a decimal prefix: ``decimal(51.2e9, "B/s", 1)`` is ``51.2 GB/s``."""
    scale, prefix = _scale(count, _DECIMAL)
    return f"{count / scale:.{digits}f} {prefix}{unit}"


def time(seconds: float, digits: int = 2) -> str:
    """Seconds in the largest unit that leaves at least 1: ``33.55 ms``."""
    return _show(seconds, _TIMES, digits)


def _show(amount: float, units: tuple[tuple[float, str], ...], digits: int) -> str:
    scale, unit = _scale(amount, units)
    return f"{amount / scale:.{digits}f} {unit}"


def _scale(amount: float, units: tuple[tuple[float, str], ...]) -> tuple[float, str]:
    return next((unit for unit in units if abs(amount) >= unit[0]), units[-1])
