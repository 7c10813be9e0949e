"""A replay's records as the event log that metrics and courses read.

A step is a boundary: it begins at its time and ends with its dispatch, or with the next boundary
if it dispatches nothing. A request is admitted in the log when its first row is dispatched, since
that is when it starts to compute; its promise came before.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Any

from kvsched.contract import RESERVATION, WHOLE_SEQUENCE, Denial
from kvsched.log import (
    Abort,
    Admit,
    Arrive,
    Chunk,
    Event,
    Finish,
    Idle,
    Log,
    Phase,
    Preempt,
    Refuse,
    Resume,
)
from kvsched.reserve import records as rec


def as_log(records: Iterable[rec.Record]) -> Log:
    """The log of a replay; enough for ``measure``, without blocks to rebuild.

    It names no engine: it holds common events alone.
    """
    reader = Reader(Log())
    for record in records:
        reader.see(record)
    reader.close()
    return reader.log


@dataclass(slots=True)
class _Known:
    """A request's numbers as its rows tell them."""

    num_tokens: int
    computed: int = 0
    hits: int = 0
    running: bool = False
    preemptions: int = 0


class Reader:
    """Sees a replay's records in order, and writes ``log``."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.known: dict[str, _Known] = {}
        self.dispatched = True

    def see(self, record: Any) -> None:
        """Take one record in; those that only explain are passed over."""
        see = getattr(self, f"_{rec.NAMES[type(record)]}", None)
        if see is not None:
            see(record)

    def close(self) -> None:
        """End the last step."""
        if self.log.times:
            self._end(self.log.times[-1])

    def _at(self, t: int, event: Event) -> None:
        """Write an event at the boundary of time ``t``."""
        self._begin(t)
        self.log.add(event)

    def _begin(self, t: int) -> None:
        """Begin the step of this boundary, unless it has begun."""
        log = self.log
        if not log.times or log.times[-1] != t:
            self._end(t)
            log.begin(len(log.times), t)
            self.dispatched = False

    def _end(self, t: int) -> None:
        """End the step at ``t``, unless its dispatch has; with none, nobody computes in it."""
        if not self.dispatched:
            self._idle(())
        if len(self.log.ends) < len(self.log.times):
            self.log.end(t)

    def _idle(self, rows: Container[str]) -> None:
        """Write who has one token left and no row: without a word it would count as computed."""
        late = tuple(
            request_id
            for request_id, known in self.known.items()
            if known.running and known.num_tokens - known.computed <= 1 and request_id not in rows
        )
        if late:
            self.log.add(Idle(late))

    def _arrival(self, r: rec.Arrival) -> None:
        at = r.t if r.arrived is None else r.arrived
        self.known[r.id] = _Known(r.prompt)
        fields = (r.id, r.prompt, r.output, r.priority or 0, at)
        self._at(r.t, Arrive(*fields, "WAITING", "waiting"))

    def _rejected(self, r: rec.Rejected) -> None:
        self._at(r.t, Refuse(Denial(r.id, WHOLE_SEQUENCE, r.need, free=r.capacity)))
        self._at(r.t, Abort(r.id, "WAITING"))
        del self.known[r.id]

    def _admitted(self, r: rec.Admitted) -> None:
        known = self.known[r.id]
        known.computed = known.hits = r.hits or 0

    def _dispatch(self, r: rec.Dispatch) -> None:
        self._begin(r.t)
        self.dispatched = True
        self._idle({part.id for part in r.rows})
        for part in r.rows:
            known = self.known[part.id]
            if not known.running:
                kind = Resume if known.preemptions else Admit
                self._at(r.t, kind(part.id, part.tokens, known.hits, 0, known.hits))
            elif part.kind == "prefill":
                self._at(r.t, Chunk(part.id, part.tokens))
            known.running = True
            known.computed += part.tokens

    def _dispatch_done(self, r: rec.DispatchDone) -> None:
        self.log.end(r.t)
        for request_id in r.emitted:
            self.known[request_id].num_tokens += 1

    def _completed(self, r: rec.Completed) -> None:
        self.log.phase = Phase.UPDATE
        self.log.add(Finish(r.id, "FINISHED_LENGTH_CAPPED", "length"))
        del self.known[r.id]

    def _truncated(self, r: rec.Truncated) -> None:
        self._at(r.t, Abort(r.id, "RUNNING"))
        del self.known[r.id]

    def _cancelled(self, r: rec.Cancelled) -> None:
        self._at(r.t, Abort(r.id, "RUNNING" if r.was == "active" else "WAITING"))
        del self.known[r.id]

    def _preempted(self, r: rec.Preempted) -> None:
        known = self.known[r.id]
        known.preemptions += 1
        known.running = False
        known.computed = known.hits = 0
        denial = Denial(r.by, RESERVATION, 1)
        self._at(r.t, Preempt(r.id, denial, r.lost, 0, 0, r.pages, known.preemptions))
