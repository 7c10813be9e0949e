"""What the engine's time went into, step by step, by the prices of the clock that ran it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from kvsched.clock import CostClock, Work
from kvsched.contract import Row
from kvsched.courses import Course


class Part(NamedTuple):
    """Nanoseconds of one step. What it took beyond these two is decode and the step's base cost.

    ``recompute`` falls to tokens that had been computed before a preemption threw them away: the
    step would have been so much shorter without them. ``prefill`` falls to the other tokens of
    passes that computed something else than the newest token.
    """

    recompute: int
    prefill: int


def step_parts(courses: Iterable[Course], clock: CostClock) -> dict[int, Part]:
    """The parts of every step that has any.

    What is left of a returning request's last row is its newest token, at the price of a decode.
    """
    rows: dict[int, list[Row]] = defaultdict(list)
    fresh: dict[int, list[Row]] = defaultdict(list)
    for course in courses:
        for step, start, tokens, again in course.prefills:
            rows[step].append(Row(course.id, start, tokens, ()))
            if again < tokens:
                fresh[step].append(Row(course.id, start + again, tokens - again, ()))
    base = clock.nanoseconds(Work(0, 0, 0))
    parts = {}
    for step, computed in rows.items():
        without = clock.nanoseconds(Work.of(fresh[step]))
        parts[step] = Part(clock.nanoseconds(Work.of(computed)) - without, without - base)
    return parts
