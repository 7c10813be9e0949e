"""The course of each request, read off a log of any level: what it computed, when it got tokens.

Milestones say who starts, goes on and ends. One rule fills the steps between them, the same as in
``board.py``: a running request with one token left to compute computes it and gets the next one,
unless an Idle event says otherwise. So a run costs time per event here, not per token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kvsched.errors import InputError
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


class Prefill(NamedTuple):
    """In ``step`` the tokens from position ``start`` on, ``tokens`` of them, were computed.

    The first ``again`` of them it had held before, computed or found, until a preemption took
    them: the price of preemption. What a failed load takes away is not counted.
    """

    step: int
    start: int
    tokens: int
    again: int


@dataclass(slots=True)
class Course:
    """One request from its arrival on.

    ``arrived``: the step at whose start the scheduler got it. ``admitted``: the steps of its first
    admission and of each return. ``prefills``: every pass of it that computed something else than
    the one newest token. ``runs``: steps (first, last), in each of which it got output;
    ``num_output_tokens`` counts that. ``own_hits``, ``shared_hits``: tokens it found in the cache,
    filled by itself before a preemption or by others; ``first_hits`` are those of its first
    admission, ``first_queries`` the tokens looked up then. ``tokens_lost``: computed tokens it
    held when it was thrown out. ``ended``: its last step, None if it did not end; ``reason`` is
    what the client heard, None after an abort.
    """

    id: str
    num_prompt_tokens: int
    max_tokens: int
    arrival_time: int
    arrived: int
    admitted: list[int] = field(default_factory=list)
    prefills: list[Prefill] = field(default_factory=list)
    runs: list[tuple[int, int]] = field(default_factory=list)
    num_output_tokens: int = 0
    num_preemptions: int = 0
    tokens_lost: int = 0
    own_hits: int = 0
    shared_hits: int = 0
    first_hits: int = 0
    first_queries: int = 0
    ended: int | None = None
    reason: str | None = None

    @property
    def first_token(self) -> int | None:
        """The step that gave the first output token."""
        return self.runs[0][0] if self.runs else None

    @property
    def tokens_recomputed(self) -> int:
        """Tokens computed because a preemption had taken them, generated ones included."""
        return sum(part.again for part in self.prefills)


def read(log: Log) -> list[Course]:
    """The courses of all requests, in order of arrival; those still under way end with the log.

    Raises InputError for a log of SGLang's scheduler, whose decodes pause for every prefill.
    """
    if log.engine == "sglang":
        raise InputError("log", "courses of SGLang's requests are not read", "use a vLLM log")
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
        course = Course(e.id, e.num_prompt_tokens, e.max_tokens, e.arrival_time, step)
        self.courses.append(course)
        self.lanes[e.id] = _Lane(course, e.num_prompt_tokens)

    def _admit(self, step: int, e: Admit) -> None:
        lane = self.lanes[e.id]
        course = lane.course
        if not course.admitted:
            course.first_queries, course.first_hits = lane.num_tokens, e.own_hits + e.shared_hits
        course.admitted.append(step)
        course.own_hits += e.own_hits
        course.shared_hits += e.shared_hits
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
