"""A replay's records as a log with every page in it, for the player; and what is told of each step.

The simulator counts pages. To be drawn they are numbered here: a request takes those that have
been free longest. A step is a boundary, as in ``as_log``, but a request is admitted when it is
promised its blocks, with no token yet. Only for replays that promise everything and share nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from kvsched.contract import Denial
from kvsched.errors import InputError
from kvsched.log import (
    Abort,
    Admit,
    Allocate,
    Chunk,
    Deny,
    Finish,
    Forget,
    Free,
    Log,
    Phase,
    Undeny,
)
from kvsched.reserve import records as rec
from kvsched.reserve.as_log import Reader
from kvsched.reserve.config import Config
from kvsched.reserve.promises import TESTS


@dataclass(slots=True)
class Moment:
    """A boundary after its dispatch has begun: blocks promised, taken, draining; the head's wait.

    ``blocked`` is the last ``admission_blocked`` that still stands. ``records`` are all of the
    step, those that follow its dispatch included.
    """

    t: int
    credits: int = 0
    taken: int = 0
    draining: int = 0
    active: int = 0
    dispatch: rec.Dispatch | None = None
    blocked: rec.AdmissionBlocked | None = None
    records: list[rec.Record] = field(default_factory=list)


def as_pages(records: Iterable[rec.Record], config: Config) -> tuple[Log, list[Moment]]:
    """The log and a moment for each of its steps; InputError for extensions it cannot show."""
    if config.reserve != "whole" or config.prefix_cache:
        fix = "replay with reserve whole, without prefix_cache"
        raise InputError("reserve", "pages that are thrown out or shared are not numbered", fix)
    reader = PageReader(config)
    for record in records:
        reader.see(record)
    reader.close()
    return reader.log, reader.moments


class PageReader(Reader):
    """Numbers the pages; its log is read by the board of ``kvsched.board``."""

    def __init__(self, config: Config) -> None:
        log = Log()
        head = {"policy": "fcfs", "num_gpu_blocks": config.blocks + 1, "service": config.policy}
        names = ("block_size", "max_tokens", "max_rows", "release_delay")
        log.head("reserve", "1", head | {name: getattr(config, name) for name in names})
        super().__init__(log)
        self.config = config
        self.free = deque(range(1, config.blocks + 1))
        self.pages: dict[str, list[int]] = {}
        self.credits: dict[str, int] = {}
        self.moments: list[Moment] = []
        self.blocked: rec.AdmissionBlocked | None = None

    def see(self, record: rec.Record) -> None:
        """As the reader; the step's moment keeps the record.

        A dispatch ends in the step it began in; all else happens at its own boundary.
        """
        if not isinstance(record, rec.DispatchDone | rec.Completed):
            self._begin(record.t)
        super().see(record)
        self.moments[-1].records.append(record)

    def _begin(self, t: int) -> None:
        super()._begin(t)
        if len(self.moments) < len(self.log.times):
            self.moments.append(Moment(t))

    def _end(self, t: int) -> None:
        if not self.dispatched:
            self._look(None)
        super()._end(t)

    def _look(self, dispatch: rec.Dispatch | None) -> None:
        """Write down how things stand in the pool."""
        moment = self.moments[-1]
        moment.credits, moment.active = sum(self.credits.values()), len(self.credits)
        moment.taken = sum(len(self.pages[i]) for i in self.credits)
        moment.draining = sum(map(len, self.pages.values())) - moment.taken
        moment.dispatch, moment.blocked = dispatch, self.blocked

    def _admitted(self, r: rec.Admitted) -> None:
        self._unblock(r.id)
        self.log.add(Admit(r.id, 0, 0, 0, 0))
        self.known[r.id].running = True
        self.credits[r.id] = r.reserve
        self.pages[r.id] = []

    def _admission_blocked(self, r: rec.AdmissionBlocked) -> None:
        spoken_for = r.credits + (r.draining if r.binding == "draining" else 0)
        denial = Denial(r.id, TESTS[r.binding], r.need, free=r.capacity, reserved=spoken_for)
        self.log.add(Deny(denial))
        self.blocked = r

    def _unblock(self, request_id: str) -> None:
        if self.blocked is not None and self.blocked.id == request_id:
            self.log.add(Undeny(request_id))
            self.blocked = None

    def _dispatch(self, r: rec.Dispatch) -> None:
        for part in r.rows:
            known, pages = self.known[part.id], self.pages[part.id]
            if part.kind == "prefill":
                self.log.add(Chunk(part.id, part.tokens))
            more = self.config.blocks_for(known.computed + part.tokens) - len(pages)
            if more:
                taken = tuple(self.free.popleft() for _ in range(more))
                pages += taken
                self.log.add(Allocate(part.id, (), taken, len(self.free)))
        self.dispatched = True
        self._idle({part.id for part in r.rows})
        for part in r.rows:
            self.known[part.id].computed += part.tokens
        self._look(r)

    def _completed(self, r: rec.Completed) -> None:
        self.log.phase = Phase.UPDATE
        self.log.add(Finish(r.id, "FINISHED_LENGTH_CAPPED", "length", held=True))
        del self.known[r.id], self.credits[r.id]

    def _cancelled(self, r: rec.Cancelled) -> None:
        self._unblock(r.id)
        held = bool(self.pages.get(r.id))
        self.log.add(Abort(r.id, "RUNNING" if r.was == "active" else "WAITING", held))
        self.credits.pop(r.id, None)
        del self.known[r.id]

    def _released(self, r: rec.Released) -> None:
        pages = tuple(self.pages.pop(r.id))
        self.log.add(Free(r.id, (), pages))
        self.log.add(Forget(r.id))
        self.free.extend(pages)
