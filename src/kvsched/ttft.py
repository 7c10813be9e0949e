"""Where the time before a first token went: waiting, the engine repeating lost work, own prefill.

Preemption hides in a long queue: those behind wait while the engine computes again what it had
thrown away. To see it, each step's time is divided (``enginetime.py``). A request's time to first
token is the sum, over the steps from its arrival on, of

* ``recompute``: the repeated part of each step, whoever's tokens they were,
* ``prefill``: the rest of the steps in which the request itself computed,
* ``queueing``: the rest of all others, in which it waited for somebody else's tokens.

Backlog that stood there when the request arrived is queueing, whatever had caused it. So where
``recompute`` is small, no preemption knob shortens the wait; where it is large, the loss has also
lengthened the queue.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

from kvsched import courses
from kvsched.clock import CostClock
from kvsched.courses import Course
from kvsched.distribution import nearest_rank
from kvsched.enginetime import Part, step_parts
from kvsched.log import Log


class Split(NamedTuple):
    """A request's time to first token in three parts, nanoseconds."""

    id: str
    queueing: int
    recompute: int
    prefill: int

    @property
    def total(self) -> int:
        """The time to first token."""
        return self.queueing + self.recompute + self.prefill


def split_ttft(log: Log, clock: CostClock) -> list[Split]:
    """The split of every request that got a first token, in order of arrival.

    ``clock`` is the one the run's steps were timed by.
    """
    found = courses.read(log)
    parts = step_parts(found, clock)
    repeated = _Repeated(log, parts)
    return [_split(course, log, repeated) for course in found if course.runs]


def at_percentile(splits: list[Split], p: float) -> Split:
    """The split of the request at the nearest rank of ``p`` % by total time."""
    ordered = sorted(splits, key=lambda split: (split.total, split.id))
    return ordered[nearest_rank(p, len(ordered)) - 1]


class _Repeated:
    """Recompute time, by step and from the run's start up to a time."""

    def __init__(self, log: Log, parts: dict[int, Part]) -> None:
        self._times, self._ends = log.times, log.ends
        self.of_step = [parts[k].recompute if k in parts else 0 for k in range(len(log.times))]
        self._before = [0, *accumulate(self.of_step)]

    def until(self, time: int) -> int:
        """A step counts in proportion to what of it lies before ``time``, rounded down."""
        step = bisect_right(self._times, time) - 1
        if step < 0:
            return 0
        start, end = self._times[step], self._ends[step]
        part = self.of_step[step] * (min(time, end) - start) // (end - start)
        return self._before[step] + part


def _split(course: Course, log: Log, repeated: _Repeated) -> Split:
    first, _ = course.runs[0]
    total = log.ends[first] - course.arrival_time
    recompute = repeated.until(log.ends[first]) - repeated.until(course.arrival_time)
    prefill = sum(
        log.ends[part.step] - log.times[part.step] - repeated.of_step[part.step]
        for part in course.prefills
        if part.step <= first
    )
    return Split(course.id, total - recompute - prefill, recompute, prefill)
