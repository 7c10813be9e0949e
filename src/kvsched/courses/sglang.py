"""Courses of SGLang's requests.

A pass that admits decodes nobody, or everybody (mixed), and a pass that admits nobody decodes
everybody: so all who run get their tokens in the same passes, and only who joins and leaves has to
be followed. A token comes when the pass lands; a request that was thrown out before then does not
get it. A run costs time per event here, not per token.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from kvsched.courses.course import Course, Prefill
from kvsched.log import Admit, Arrive, Chunk, Finish, Log, Preempt, Resume
from kvsched.sglang.core import ABORT
from kvsched.sglang.events import Landed, Ride


def read(log: Log) -> list[Course]:
    """The courses of all requests, in order of arrival; those still under way end with the log."""
    reader = _Reader()
    for entry in log.entries:
        reader.see(entry.step, entry.event)
    return reader.close()


@dataclass(slots=True)
class _Lane:
    """A request while the log is read. ``joined``: the first step whose pass may decode it.

    ``furthest``: the most computed tokens it held when it was thrown out.
    """

    course: Course
    num_tokens: int
    num_computed_tokens: int = 0
    furthest: int = 0
    joined: int | None = None

    def give(self, steps: list[int]) -> None:
        """A token came in each of these steps."""
        runs = self.course.runs
        for _, group in groupby(enumerate(steps), key=lambda pair: pair[1] - pair[0]):
            together = [step for _, step in group]
            if runs and runs[-1][1] == together[0] - 1:
                runs[-1] = (runs[-1][0], together[-1])
            else:
                runs.append((together[0], together[-1]))
        self.num_tokens += len(steps)
        self.course.num_output_tokens += len(steps)


@dataclass(slots=True)
class _Reader:
    """``launched`` and ``landed`` are the steps of the decoding passes that came back.

    ``rows``: by step, those of its prefill rows that end a prompt; their token comes when it lands.
    """

    courses: list[Course] = field(default_factory=list)
    lanes: dict[str, _Lane] = field(default_factory=dict)
    launched: list[int] = field(default_factory=list)
    landed: list[int] = field(default_factory=list)
    prefills: set[int] = field(default_factory=set)
    mixed: set[int] = field(default_factory=set)
    rows: dict[int, list[_Lane]] = field(default_factory=dict)

    def see(self, step: int, event: Any) -> None:
        """Take one event in; kinds that say nothing about computing are passed over."""
        see = _SEE.get(type(event))
        if see is not None:
            see(self, step, event)

    def close(self) -> list[Course]:
        """The log ends here."""
        for lane in self.lanes.values():
            self._stop(lane)
        return self.courses

    def arrive(self, step: int, e: Arrive) -> None:
        course = Course.of(step, e)
        self.courses.append(course)
        self.lanes[e.id] = _Lane(course, e.num_prompt_tokens)

    def admit(self, step: int, e: Admit) -> None:
        lane = self.lanes[e.id]
        lane.course.admit(step, e, lane.num_tokens)
        lane.num_computed_tokens = e.computed
        self._compute(step, lane, e.tokens)

    def chunk(self, step: int, e: Chunk) -> None:
        self._compute(step, self.lanes[e.id], e.tokens)

    def _compute(self, step: int, lane: _Lane, tokens: int) -> None:
        start = lane.num_computed_tokens
        again = min(max(0, lane.furthest - start), tokens)
        lane.course.prefills.append(Prefill(step, start, tokens, again))
        lane.num_computed_tokens += tokens
        self.prefills.add(step)
        if lane.num_computed_tokens == lane.num_tokens:
            lane.joined = step + 1
            self.rows.setdefault(step, []).append(lane)

    def ride(self, step: int, e: Ride) -> None:
        self.mixed.add(step)

    def land(self, step: int, e: Landed) -> None:
        for lane in self.rows.pop(e.step, ()):
            if lane.joined == e.step + 1:  # it was not thrown out meanwhile
                lane.give([step])
        if e.step in self.mixed or e.step not in self.prefills:
            self.launched.append(e.step)
            self.landed.append(step)

    def preempt(self, step: int, e: Preempt) -> None:
        lane = self.lanes[e.id]
        self._stop(lane)
        lane.course.num_preemptions = e.preemptions
        lane.course.tokens_lost += e.tokens_lost
        lane.furthest = max(lane.furthest, e.tokens_lost)

    def finish(self, step: int, e: Finish) -> None:
        lane = self.lanes.pop(e.id)
        self._stop(lane)
        lane.course.ended = step
        lane.course.reason = e.reason if e.status != ABORT else None

    def _stop(self, lane: _Lane) -> None:
        """It is in no batch any more: the decodes that landed until now were its own."""
        if lane.joined is not None:
            lane.give(self.landed[bisect_left(self.launched, lane.joined) :])
        lane.joined = None


_SEE: dict[type, Callable[[_Reader, int, Any], None]] = {
    Arrive: _Reader.arrive,
    Admit: _Reader.admit,
    Resume: _Reader.admit,
    Chunk: _Reader.chunk,
    Ride: _Reader.ride,
    Landed: _Reader.land,
    Preempt: _Reader.preempt,
    Finish: _Reader.finish,
}
