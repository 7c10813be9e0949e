"""The steps between two decisions: everybody decodes, nobody comes, ends or is thrown out.

In such a stretch each running request computes its one newest token and gets the next. Only who
stands at a block's edge touches the pool: a request with a multiple of ``block_size`` tokens gives
a block its name, one with a token more takes a new block. So a wheel with one slot for each place
in a block says who is to be looked at; all others only count.

Why the head of the queue stays refused: slots, the token budget and the watermark do not move, and
no prefix hit is added. A hit is lost only if it lies in the free queue and is taken. Free blocks
fall by one with it, ``cached`` by one at most, for the prefix outlives the tail: a hit's successors
are in use no longer than it and stand before it in the free queue. ``need`` never falls by a loss.
So each step brings both sides of the inequality down by as much, or the right one by more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kvsched.contract import Denial, Plan, Script, World
from kvsched.log import Phase
from kvsched.vllm.state import RequestState
from kvsched.vllm.step import Step

if TYPE_CHECKING:
    from kvsched.vllm.scheduler import Scheduler


class Lane(NamedTuple):
    """A running request, its length when the stretch began, and the first token it gets."""

    r: RequestState
    num_tokens: int
    token: int


class Stretch:
    """Keeps ``contract.Stretch``. Between ``step`` and ``close`` most requests lag behind."""

    def __init__(self, scheduler: Scheduler, script: Script, lanes: list[Lane], most: int) -> None:
        ids = [lane.r.id for lane in lanes]
        self.scheduler = scheduler
        self.script = script
        self.lanes = lanes
        self.most = most
        self.steps = 0
        self.plan = Plan(dict.fromkeys(ids, 1), ids)
        self.context = sum(lane.num_tokens for lane in lanes)
        self.names = scheduler.waiting.peek().block_hashes if scheduler.waiting else []
        self.wheel = _wheel(lanes, scheduler.config.block_size, scheduler.chain is not None)

    def step(self) -> bool:
        kv = self.scheduler.kv
        edge = self.wheel[self.steps % len(self.wheel)]
        if len(edge) > len(kv.pool.free):
            return False
        for lane in edge:
            self._catch_up(lane)
            if self._names_a_hit(lane.r):
                return False
        for lane in edge:
            denial = kv.grow(lane.r, 1, self.scheduler.headroom)
            assert denial is None
        self.steps += 1
        self.scheduler.log.free_blocks.append(len(kv.pool.free))
        return True

    def close(self) -> None:
        for lane in self.lanes:
            self._catch_up(lane)
        self.script.skip(self.plan.scheduled, self.steps)
        scheduler = self.scheduler
        scheduler.standing = _denial(scheduler, len(self.lanes))
        assert scheduler.standing or not scheduler.waiting, "the head could have been admitted"
        scheduler.log.delivered += self.steps * len(self.lanes)
        scheduler.log.phase = Phase.UPDATE

    def _catch_up(self, lane: Lane) -> None:
        """The tokens ``update()`` would have appended since; names are given in running order."""
        r, num_tokens, token = lane
        behind = num_tokens + self.steps - r.num_tokens
        if behind:
            r.append_run(token + self.steps - behind, behind)
            r.num_computed_tokens += behind

    def _names_a_hit(self, r: RequestState) -> bool:
        """Is the block ``r`` fills in this step one the head would find?"""
        last = len(r.block_hashes) - 1
        return 0 <= last < len(self.names) and self.names[last] == r.block_hashes[last]


def ahead(s: Scheduler, script: Script) -> Stretch | None:
    """The stretch that begins with the next step, if no event comes before it."""
    outside = type(s.world) is not World or s.skipped or s.loads.inflight or s.paused != "none"
    if outside or not 0 < len(s.running) <= s.config.max_num_batched_tokens:
        return None
    if s.waiting and _denial(s, len(s.running)) is None:
        return None
    lanes = []
    most = s.max_model_len
    for r in s.running:
        tokens = script.ahead(r.id)
        most = min(most, _steps_left(r, tokens))
        if most < 1 or r.num_tokens - r.num_computed_tokens != 1:
            return None
        lanes.append(Lane(r, r.num_tokens, tokens.start))
    return Stretch(s, script, lanes, most)


def _steps_left(r: RequestState, tokens: range) -> int:
    """Steps before the one in which ``r`` may end or its script does."""
    left = min(len(tokens), r.longest - r.num_tokens - 1)
    if r.stop is not None:
        if r.stop.repetition is not None:
            return 0
        for token in (r.stop.eos_token_id, *r.stop.stop_token_ids):
            if token is not None and token in tokens:
                left = min(left, tokens.index(token))
    return left


def _denial(s: Scheduler, scheduled: int) -> Denial | None:
    """What the head of the queue hears after ``scheduled`` tokens, by the scheduler's own rules."""
    if not s.waiting:
        return None
    r, step = s.waiting.peek(), Step(s.config.max_num_batched_tokens - scheduled)
    denial = s.no_room(r, step)
    if denial is not None:
        return denial
    found = s.find(r)
    assert found is not None
    tokens, denial = s.waiting_tokens(r, found, step)
    return denial or s.kv.refusal(r, tokens, found, s.headroom(r), s.reserved(r, found))


def _wheel(lanes: list[Lane], block_size: int, caching: bool) -> list[list[Lane]]:
    """For each step of a block, who stands at an edge then, in running order.

    In step ``k`` a request computes the token at position ``num_tokens + k - 1``.
    """
    wheel: list[list[Lane]] = [[] for _ in range(block_size)]
    for lane in lanes:
        slots = {(1 - lane.num_tokens) % block_size}
        if caching:
            slots.add(-lane.num_tokens % block_size)
        for slot in slots:
            wheel[slot].append(lane)
    return wheel
