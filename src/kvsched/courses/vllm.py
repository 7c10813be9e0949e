"""Courses of vLLM's requests.

Milestones say who starts, goes on and ends. One rule fills the steps between them, the same as in
``board.py``: a running request with one token left to compute computes it and gets the next one,
unless an Idle event says otherwise. So a run costs time per event here, not per token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kvsched.courses.course import Course, Prefill
from kvsched.log import (
    Abort,
    Admit,
    Arrive,
    Chunk,
    ChunkEnd,
    Continue,
    Deliver,
    Finish,
    Idle,
    Log,
    Preempt,
    Progress,
    Resume,
)
from kvsched.reader import refuse_late_tokens


def read(log: Log) -> list[Course]:
    """The courses of all requests, in order of arrival; those still under way end with the log.

    Raises InputError for a run whose tokens come late or several at once.
    """
    refuse_late_tokens(log)
    reader = _Reader()
    for step, _, event in log.entries:
        reader.see(step, event)
    return reader.close(len(log.times))


@dataclass(slots=True)
class _Lane:
    """A request while the log is read. ``decoding`` from step ``next`` on, a token each step.

    ``furthest``: the most computed tokens it held when it was thrown out.
    """

    course: Course
    num_tokens: int
    num_computed_tokens: int = 0
    furthest: int = 0
    running: bool = False
    decoding: bool = False
    next: int = 0

    def advance(self, step: int) -> None:
        """Every step before ``step`` has happened."""
        if self.decoding and step > self.next:
            self.give(self.next, step - 1, step - self.next)
            self.next = step

    def give(self, first: int, last: int, tokens: int) -> None:
        """Output came in each of these steps."""
        runs = self.course.runs
        if runs and runs[-1][1] == first - 1:
            runs[-1] = (runs[-1][0], last)
        else:
            runs.append((first, last))
        self.num_tokens += tokens
        self.course.num_output_tokens += tokens

    def compute(self, step: int, tokens: int) -> None:
        """A pass of this many tokens in this step."""
        if self.decoding:
            self.advance(step)
            self.num_computed_tokens = self.num_tokens - 1
        start = self.num_computed_tokens
        again = min(max(0, self.furthest - start), tokens)
        self.course.prefills.append(Prefill(step, start, tokens, again))
        self.reach(step, start + tokens)

    def reach(self, step: int, num_computed_tokens: int) -> None:
        """After this step's pass so much is computed: all, all but the newest token, or less."""
        self.num_computed_tokens = num_computed_tokens
        left = self.num_tokens - num_computed_tokens
        self.decoding = self.running and left <= 1
        self.next = step + left

    def stop(self, step: int) -> None:
        """It does not run from ``step`` on."""
        self.advance(step)
        self.running = self.decoding = False


class _Reader:
    def __init__(self) -> None:
        self.courses: list[Course] = []
        self.lanes: dict[str, _Lane] = {}
        self._see: dict[type, Callable[[int, Any], None]] = {
            Arrive: self._arrive,
            Admit: self._admit,
            Resume: self._admit,
            Chunk: lambda step, e: self.lanes[e.id].compute(step, e.tokens),
            Idle: self._idle,
            Preempt: self._preempt,
            Deliver: self._deliver,
            Progress: self._progress,
            ChunkEnd: lambda step, e: self.lanes[e.id].stop(step + 1),
            Continue: self._continue,
            Finish: self._finish,
            Abort: self._abort,
        }

    def see(self, step: int, event: Any) -> None:
        """Take one event in; kinds that say nothing about computing are passed over."""
        see = self._see.get(type(event))
        if see is not None:
            see(step, event)

    def close(self, steps: int) -> list[Course]:
        """The log ends after so many steps."""
        for lane in self.lanes.values():
            lane.advance(steps)
        return self.courses

    def _arrive(self, step: int, e: Arrive) -> None:
        course = Course.of(step, e)
        self.courses.append(course)
        self.lanes[e.id] = _Lane(course, e.num_prompt_tokens)

    def _admit(self, step: int, e: Admit) -> None:
        lane = self.lanes[e.id]
        lane.course.admit(step, e, lane.num_tokens)
        lane.running = True
        lane.num_computed_tokens = e.computed
        lane.compute(step, e.tokens)

    def _idle(self, step: int, e: Idle) -> None:
        for request_id in e.ids:
            lane = self.lanes[request_id]
            lane.advance(step)
            lane.next = step + 1

    def _preempt(self, step: int, e: Preempt) -> None:
        lane = self.lanes[e.id]
        lane.stop(step)
        course = lane.course
        if e.refunded and course.prefills and course.prefills[-1].step == step:
            course.prefills.pop()
        course.num_preemptions = e.preemptions
        course.tokens_lost += e.tokens_lost
        lane.furthest = max(lane.furthest, e.tokens_lost)

    def _deliver(self, step: int, e: Deliver) -> None:
        lane = self.lanes[e.id]
        lane.advance(step)
        if e.tokens:
            lane.give(step, step, e.tokens)
        lane.next = step + 1

    def _progress(self, step: int, e: Progress) -> None:
        lane = self.lanes[e.id]
        lane.advance(step)
        lane.reach(step, e.num_computed_tokens)

    def _continue(self, step: int, e: Continue) -> None:
        self.lanes[e.id].num_tokens = e.num_tokens

    def _finish(self, step: int, e: Finish) -> None:
        self._end(step, self.lanes.pop(e.id), step + 1).reason = e.reason

    def _abort(self, step: int, e: Abort) -> None:
        if e.status is not None:
            self._end(step, self.lanes.pop(e.id), step)

    def _end(self, step: int, lane: _Lane, until: int) -> Course:
        lane.stop(until)
        lane.course.ended = step
        return lane.course
