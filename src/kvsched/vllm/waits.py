"""Requests that wait for something outside, and what lets them go on (S:2766-2790)."""

from __future__ import annotations

from kvsched.contract import World
from kvsched.log import Log, Promote, Tried
from kvsched.vllm.loads import Loads
from kvsched.vllm.state import RequestState
from kvsched.vllm.status import BLOCKED, GRAMMAR, REMOTE, WAITING


class Waits:
    """Asks the outside, only when the queue is walked: an answer goes unnoticed until then."""

    def __init__(self, world: World, loads: Loads, log: Log) -> None:
        self.world = world
        self.loads = loads
        self.log = log
        self.failed_grammars: set[str] = set()

    def ready(self, r: RequestState) -> bool:
        """May ``r`` be admitted now? A blocked one is promoted if what it waits for is there."""
        if r.status not in BLOCKED:
            return True
        before = r.status
        promoted = self._promote(r)
        self.log.add(Tried(r.id, before.name, promoted))
        if promoted:
            self.log.add(Promote(r.id, r.status.name))
        return promoted

    def _promote(self, r: RequestState) -> bool:
        if r.status is REMOTE:
            return self.loads.promote(r)
        if r.status is not GRAMMAR:
            return False  # a paused session waits for its client
        state = self.world.grammar(r.id)
        if state == "failed":
            self.failed_grammars.add(r.id)  # ends with an error in the next update
        elif state == "ready":
            r.move_to(WAITING)
            return True
        return False
