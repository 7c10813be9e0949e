"""The state of a run as its log tells it, moved forward one event at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kvsched.contract import Denial
from kvsched.log import (
    Admit,
    Allocate,
    Arrive,
    Cache,
    Chunk,
    Deny,
    Evict,
    Finish,
    Free,
    Log,
    Preempt,
    Resume,
    Undeny,
)
from kvsched.sglang import events as own
from kvsched.sglang.config import Config
from kvsched.sglang.ledger import Ledger
from kvsched.sglang.ratio import NewTokenRatio
from kvsched.sglang.state import Place, State, state_at


class Lane:
    """One request as the log shows it. ``over``: it ended, and may still linger in a batch."""

    __slots__ = (
        "computed",
        "id",
        "num_prompt_tokens",
        "num_tokens",
        "over",
        "priority",
        "retracted",
        "retractions",
    )

    def __init__(self, event: Arrive) -> None:
        self.id = event.id
        self.priority = event.priority
        self.num_prompt_tokens = event.num_prompt_tokens
        self.num_tokens = event.num_prompt_tokens
        self.computed = 0
        self.retracted = False
        self.retractions = 0
        self.over: str | None = None


class Pass(NamedTuple):
    """What was launched in a step; ``middle``: the row whose chunk is not its last."""

    rows: list[tuple[str, int, int]]
    prefills: int
    middle: str | None

    @property
    def kind(self) -> str:
        """extend, mixed, decode or idle."""
        if not self.prefills:
            return "decode" if self.rows else "idle"
        return "extend" if self.prefills == len(self.rows) else "mixed"


class Board:
    """The containers; who holds which page is in ``ledger``."""

    def __init__(self, log: Log) -> None:
        config = Config(**log.config)
        self.ledger = Ledger(config)
        self.lanes: dict[str, Lane] = {}
        self.waiting: list[Lane] = []
        self.running: list[Lane] = []
        self.riding: list[Lane] = []
        self.chunked: str | None = None
        self.ratio = NewTokenRatio(config).current
        self.full = False
        self.denial: Denial | None = None
        self.rows: list[tuple[str, int, int]] = []
        self.last = Pass([], 0, None)
        self.passes: dict[int, Pass] = {}
        self._emitted: list[str] = []
        self._dropped: list[str] = []

    # -- what it shows ----------------------------------------------------------------------

    def present(self) -> list[Lane]:
        """Who is not done, or lingers in a batch."""
        lingering = {lane.id for lane in self.running} | {row[0] for row in self.last.rows}
        return [lane for lane in self.lanes.values() if not lane.over or lane.id in lingering]

    def state(self, lane: Lane) -> State:
        """The derived state, as in ``state.py``."""
        rows = [row[0] for row in self.last.rows]
        return state_at(
            Place(
                finished=lane.over is not None,
                waiting=lane in self.waiting,
                retracted=lane.retracted,
                chunked=lane.id == self.chunked,
                running=lane in self.running,
                in_batch=lane.id in rows,
                riding=self.last.prefills > 0 and lane.id in rows[self.last.prefills :],
            )
        )

    def take_emitted(self) -> list[str]:
        """Who got a token since the last call."""
        emitted, self._emitted = self._emitted, []
        return emitted

    def take_dropped(self) -> list[str]:
        """Whose token came back too late since the last call."""
        dropped, self._dropped = self._dropped, []
        return dropped

    # -- how it moves -----------------------------------------------------------------------

    def launch(self, step: int) -> Pass:
        """End of ``schedule()``: the pass of this step, its rows now computed."""
        prefills = len(self.rows)
        decodes = self.riding if prefills else self.running
        self.rows += [(lane.id, lane.computed, lane.computed + 1) for lane in decodes]
        for request_id, _, end in self.rows:
            self.lanes[request_id].computed = end
        self.riding = []
        self.last = Pass(self.rows, prefills, self.chunked if prefills else None)
        self.passes[step] = self.last
        return self.last

    def apply(self, event: Any) -> None:
        """Apply one event of any phase."""
        kind = type(event)
        if kind in _MOVES:
            _MOVES[kind](self, event)
        elif kind in _PAGES:
            _PAGES[kind](self.ledger, event)

    def arrive(self, event: Arrive) -> None:
        self.lanes[event.id] = lane = Lane(event)
        self.waiting.append(lane)

    def sort(self, event: own.Sorted) -> None:
        self.waiting = [self.lanes[request_id] for request_id in event.ids]

    def admit(self, event: Admit) -> None:
        lane = self.lanes[event.id]
        self.waiting.remove(lane)
        lane.retracted = False
        self.rows.append((event.id, event.computed, event.computed + event.tokens))

    def chunk(self, event: Chunk) -> None:
        computed = self.lanes[event.id].computed
        self.rows.append((event.id, computed, computed + event.tokens))

    def set_chunked(self, event: own.Chunked) -> None:
        self.chunked = event.id

    def merge(self, event: own.Merge) -> None:
        self.running += [self.lanes[request_id] for request_id in event.ids]

    def drop(self, event: own.Drop) -> None:
        self.running = [lane for lane in self.running if lane.id not in event.ids]

    def ride(self, event: own.Ride) -> None:
        self.riding = [self.lanes[request_id] for request_id in event.ids]
        self.running = []

    def preempt(self, event: Preempt) -> None:
        lane = self.lanes[event.id]
        lane.computed = 0
        lane.retracted = True
        lane.retractions = event.preemptions
        self.running.remove(lane)

    def retract(self, event: own.Retract) -> None:
        self.running = [self.lanes[request_id] for request_id in event.kept]

    def requeue(self, event: own.Requeue) -> None:
        self.waiting[event.at : event.at] = [self.lanes[request_id] for request_id in event.ids]

    def landed(self, event: own.Landed) -> None:
        back = self.passes.pop(event.step)
        for request_id, _, _ in back.rows:
            lane = self.lanes[request_id]
            if request_id == back.middle or lane.over:
                continue
            if lane.retracted:
                self._dropped.append(request_id)
            else:
                lane.num_tokens += 1
                self._emitted.append(request_id)

    def finish(self, event: Finish) -> None:
        lane = self.lanes[event.id]
        lane.over = event.status
        if lane in self.waiting:
            self.waiting.remove(lane)

    def set_full(self, event: own.Full) -> None:
        self.full = event.full

    def set_ratio(self, event: own.Ratio) -> None:
        self.ratio = event.value

    def deny(self, event: Deny) -> None:
        self.denial = event.denial

    def undeny(self, event: Undeny) -> None:
        self.denial = None


_MOVES: dict[type, Callable[[Board, Any], None]] = {
    Arrive: Board.arrive,
    Admit: Board.admit,
    Resume: Board.admit,
    Chunk: Board.chunk,
    Preempt: Board.preempt,
    Finish: Board.finish,
    Deny: Board.deny,
    Undeny: Board.undeny,
    own.Sorted: Board.sort,
    own.Chunked: Board.set_chunked,
    own.Merge: Board.merge,
    own.Drop: Board.drop,
    own.Ride: Board.ride,
    own.Retract: Board.retract,
    own.Requeue: Board.requeue,
    own.Landed: Board.landed,
    own.Full: Board.set_full,
    own.Ratio: Board.set_ratio,
}

_PAGES: dict[type, Callable[[Ledger, Any], None]] = {
    Allocate: Ledger.allocate,
    Cache: Ledger.cache,
    Evict: Ledger.evict,
    Free: Ledger.give,
    own.Adopt: Ledger.adopt,
    own.Grow: Ledger.grow,
    own.Leave: Ledger.leave,
}
