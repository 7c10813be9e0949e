"""What two retraction lines of a server's log say about the time between them.

A retraction assigns ``new_token_ratio``; each decode step after it subtracts the same amount. So
the value assigned and the value found by the next retraction count the decode steps between, and
the two time stamps give their duration.
"""

from __future__ import annotations

import re
from datetime import datetime
from math import ceil, floor
from typing import NamedTuple

from kvsched.errors import InputError
from kvsched.sglang.config import Config
from kvsched.sglang.ratio import NewTokenRatio

HALF = 0.00005
"""A ratio is logged with four decimals: it lies within this of what stands there."""

_LINE = re.compile(
    r"\[(?P<at>(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d)[^\]]*\].*"
    r"#new_token_ratio: (?P<old>\d\.\d{4}) ->(?: (?P<new>\d\.\d{4}))?"
)


class Retraction(NamedTuple):
    """A retraction line: its time, cut to the second, and the ratio found and assigned.

    ``new`` is None where the line was cut off.
    """

    at: datetime
    old: float
    new: float | None


class Between(NamedTuple):
    """From one retraction line to the next.

    ``decays`` and ``steps``: fewest and most, None without an upper end. The retracting step
    decodes and does not decay, so there is one step more than decays. ``seconds``: the bounds of
    the time between, both exclusive unless 0.
    """

    decays: tuple[int, int | None]
    seconds: tuple[int, int]

    @property
    def steps(self) -> tuple[int, int | None]:
        low, high = self.decays
        return low + 1, None if high is None else high + 1

    @property
    def step_seconds(self) -> tuple[float, float]:
        """Bounds of the mean time of a decode step, prefills in between included."""
        least, most = self.steps
        low, high = self.seconds
        return (0.0 if most is None else low / most), high / least


def parse(line: str) -> Retraction:
    """Read one line, of any release since 0.4; InputError if it is no retraction line."""
    found = _LINE.search(line)
    if found is None:
        fix = "give a line with a time in brackets and '#new_token_ratio: 0.0980 -> 0.3487'"
        raise InputError("retraction line", f"{line.strip()[:80]!r} is none", fix)
    at, new = found["at"], found["new"]
    try:
        when = datetime.fromisoformat(at if " " in at else f"2000-01-01 {at}")
    except ValueError:
        raise InputError("retraction line", f"{at!r} is no time", "give it as logged") from None
    return Retraction(when, float(found["old"]), float(new) if new else None)


def retractions(text: str) -> list[Retraction]:
    """The retractions of a log, in order, each once: every rank prints its own copy."""
    lines = (line for line in text.splitlines() if "#new_token_ratio:" in line)
    return list(dict.fromkeys(map(parse, lines)))


def between(
    first: Retraction, second: Retraction, schedule_conservativeness: float = 1.0
) -> Between:
    """The decode steps between two consecutive retractions, and what each took.

    Raises InputError for lines that no such pair can print: a time that runs backwards, a ratio
    that rose or fell below its floor, or by no whole number of decays.
    """
    if first.new is None:
        raise InputError("first line", "it is cut off before the new ratio", "give a whole line")
    apart = round((second.at - first.at).total_seconds())
    if apart < 0:
        raise InputError("second line", f"it is {-apart} s older", "give the older line first")
    config = Config(1, schedule_conservativeness=schedule_conservativeness)
    decays = _decays(first.new, second.old, NewTokenRatio(config))
    return Between(decays, (max(0, apart - 1), apart + 1))


def _decays(new: float, old: float, ratio: NewTokenRatio) -> tuple[int, int | None]:
    """How often ``new`` decayed to become ``old``, fewest and most."""
    shown = f"{new:.4f} -> {old:.4f}"
    if old > new + 2 * HALF and abs(old - ratio.min) > HALF:
        problem = f"the ratio rose, {shown}: there was a retraction or an idle server in between"
        raise InputError("lines", problem, "give two consecutive lines of one rank")
    if old < ratio.min - HALF and old < new - 2 * HALF:
        problem = f"{old:.4f} is below the floor of {ratio.min:.4f}"
        raise InputError("lines", problem, "give the server's schedule_conservativeness")
    if ratio.decay == 0:
        raise InputError("lines", "the ratio does not decay", "no time can be read from it")
    if abs(old - ratio.min) <= HALF:  # it may have stood there for any time
        lifted = new < ratio.min - HALF  # the first decay brings what is below the floor up to it
        return max(lifted, ceil((new - old - 2 * HALF) / ratio.decay - 1e-9)), None
    low = max(0, ceil((new - old - 2 * HALF) / ratio.decay - 1e-9))
    high = floor((new - old + 2 * HALF) / ratio.decay + 1e-9)
    if low > high:
        problem = f"{shown} is {(new - old) / ratio.decay:.2f} decays of {ratio.decay:.7f}"
        fix = "give two consecutive lines, and the server's schedule_conservativeness"
        raise InputError("lines", problem, fix)
    return low, high
