"""The lanes: what each request holds and would find, as few segments of many equal steps.

A segment is ``[phase, first step, steps, height, rise a step, base, found]`` without the zeros at
its end. ``height``: tokens held. ``base``: of them held before a prefill's chunk. ``found``:
tokens a resume would find, or of the base those just read from the cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from kvsched.log import Abort, Admit, Chunk, Finish, Phase, Preempt, Resume
from kvsched.palette import BLOCKED, DECODE, DRAINING, PHASES, PREEMPTED, PREFILL, WAITING
from kvsched.phases import ending, phase
from kvsched.sglang.events import Lose
from kvsched.steps import StepRecord

SHOWN = (*(each.slug for each in PHASES), "idle")
"""The phases by number; ``idle`` is a running request that computes nothing in a step."""

_NUMBER = {slug: place for place, slug in enumerate(SHOWN)}
_STILL = frozenset(_NUMBER[each.slug] for each in (WAITING, BLOCKED, PREEMPTED, DRAINING))
_GROWING = frozenset({_NUMBER[DECODE.slug]})
_PREFILL = _NUMBER[PREFILL.slug]

Cell = tuple[int, int, int, int]


class Moment(Protocol):
    """A step of any engine's run; ``found``: tokens each victim would find in the cache."""

    @property
    def record(self) -> StepRecord: ...
    @property
    def found(self) -> Mapping[str, int]: ...


class Lane:
    """One request over the run, as it is drawn.

    ``marks``: ``[step, "lost", tokens]``, ``[step, "back", found, computed]``, and at last
    ``[step, "end", word, tokens sent]``. ``sent``: runs of steps that sent a token, as first step
    and length, one after the other.
    """

    def __init__(self) -> None:
        self.segments: list[list[int]] = []
        self.marks: list[list[Any]] = []
        self.sent: list[int] = []
        self.tokens = 0

    def add(self, step: int, cell: Cell) -> None:
        """The next step's cell: it prolongs the last segment if it can."""
        number, height, base, found = cell
        last = self.segments[-1] if self.segments else None
        if last is not None and last[0] == number and last[1] + last[2] == step:
            rise = 1 if number in _GROWING else 0
            follows = height == last[3] + last[2] * rise
            if number != _PREFILL and follows and found == last[6]:
                last[2] += 1
                return
        self.segments.append([number, step, 1, height, number in _GROWING, base, found])

    def end(self, step: int, word: str) -> None:
        """It ended; what is said later counts, as an abort may end a request only steps after."""
        self.marks = [mark for mark in self.marks if mark[1] != "end"]
        self.marks.append([step, "end", word, self.tokens])

    def send(self, step: int, tokens: int) -> None:
        """The client got tokens."""
        self.tokens += tokens
        if self.sent and self.sent[-2] + self.sent[-1] == step:
            self.sent[-1] += 1
        else:
            self.sent += [step, 1]

    def encoded(self) -> dict[str, Any]:
        """The lane as a JSON-able dict."""
        segments = [_trimmed([int(value) for value in segment]) for segment in self.segments]
        return {"segments": segments, "marks": self.marks, "sent": self.sent}


def extend(lanes: dict[str, Lane], moment: Moment, engine: str) -> None:
    """Draw one more step into the lanes."""
    record, step = moment.record, moment.record.step
    hits = {event.id: event.computed for event in record.of(Admit)}
    chunked = {*hits, *(e.id for e in record.of(Chunk)), *record.prefilling}
    for request_id in record.live:
        cell = _cell(moment, request_id, engine, hits.get(request_id, 0), request_id in chunked)
        lanes.setdefault(request_id, Lane()).add(step, cell)
    for request_id, tokens in record.emitted.items():
        lanes[request_id].send(step, tokens)
    _mark(lanes, moment)


def _cell(moment: Moment, request_id: str, engine: str, hits: int, chunked: bool) -> Cell:
    record, live = moment.record, moment.record.live[request_id]
    held = request_id in record.holders
    number = _NUMBER[phase(engine, live.status, prefilling=chunked, holding=held).slug]
    computed = live.num_computed_tokens
    if number in _STILL:
        return number, computed if held else 0, 0, 0 if held else moment.found.get(request_id, 0)
    tokens = record.scheduled.get(request_id, 0)
    if not tokens:
        return _NUMBER["idle"], computed, 0, 0
    if number == _PREFILL:
        return number, computed, computed - tokens, hits
    return number, computed, 0, 0


def _mark(lanes: dict[str, Lane], moment: Moment) -> None:
    step = moment.record.step
    for entry in moment.record.entries:
        event: Any = entry.event
        match event:
            case Preempt():
                lanes[event.id].marks.append([step, "lost", event.tokens_lost])
            case Resume():
                lanes[event.id].marks.append([step, "back", event.computed, event.tokens])
            case Finish():
                lanes[event.id].end(step, ending(event.status))
            case Lose():
                for request_id in event.ids:
                    lanes[request_id].end(step, ending("LOST"))
            case Abort() if event.status is not None and event.id in lanes:
                before = entry.phase in (Phase.ARRIVALS, Phase.SCHEDULE)
                lanes[event.id].end(step - before, "aborted")


def _trimmed(values: list[int]) -> list[int]:
    while values[-1] == 0:
        values.pop()
    return values
