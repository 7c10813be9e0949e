"""A scheduler driven by hand with all that waits outside of it, and the second set's recordings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kvsched import invariants
from kvsched.conform import load
from kvsched.conform.recording import Recording
from kvsched.conform.replay import replay
from kvsched.contract import Close, Control, Match, NextChunk, Plan, Result, World
from kvsched.explain import explain
from kvsched.log import Log, Phase
from kvsched.request import Request, Stop
from kvsched.steps import StepRecord, rebuild
from kvsched.vllm import Config, Scheduler

GOLDEN = Path(__file__).parents[1] / "golden" / "vllm2"

SMALL: dict[str, Any] = {
    "num_gpu_blocks": 9,
    "block_size": 4,
    "max_num_seqs": 8,
    "max_num_batched_tokens": 64,
    "max_model_len": 64,
}
"""Eight usable blocks of four tokens."""


class Offer(NamedTuple):
    """What the connector has for a request; ``asks`` questions are answered "not yet" before."""

    tokens: int
    asynchronous: bool = True
    asks: int = 0
    times: int = 1


class Outside(World):
    """What waits outside, as the test says. It samples, too: token ``first + k``, or EOS."""

    def __init__(self) -> None:
        self.grammars: dict[str, str] = {}
        self.rejected: set[int] = set()
        self.offers: dict[str, Offer] = {}
        self.asked: list[tuple[str, int]] = []
        self.loads: list[tuple[str, int, bool, list[int]]] = []
        self.keeps: set[str] = set()
        self.tokens: dict[str, int] = {}
        self.next: dict[str, int] = {}
        self.received: list[str] = []
        self.sent: list[str] = []
        self.invalid: list[int] = []

    def grammar(self, request_id: str) -> str:
        return self.grammars[request_id]

    def accepts(self, request_id: str, tokens: Sequence[int]) -> bool:
        return self.rejected.isdisjoint(tokens)

    def match(self, request_id: str, num_tokens: int, local: int) -> Match | None:
        offer = self.offers.get(request_id)
        if offer is None:
            return None
        self.asked.append((request_id, local))
        asked = sum(name == request_id for name, _ in self.asked)
        begun = sum(load[0] == request_id for load in self.loads)
        if asked <= offer.asks:
            return Match(None, False)
        if begun >= offer.times:
            return Match(0, False)
        most = num_tokens if offer.asynchronous else num_tokens - 1
        tokens = max(0, min(offer.tokens, most) - local)
        return Match(tokens, offer.asynchronous and tokens > 0)

    def load(self, request_id: str, tokens: int, asynchronous: bool, blocks: list[int]) -> None:
        self.loads.append((request_id, tokens, asynchronous, list(blocks)))

    def keeps_blocks(self, request_id: str, num_computed_tokens: int) -> bool:
        return request_id in self.keeps

    def due(self) -> bool:
        return False

    def __call__(self, plan: Plan) -> Result:
        sampled = {}
        for name in plan.sampling or ():
            said = self.next.pop(name, None)
            sampled[name] = (self.tokens[name] if said is None else said,)
            self.tokens[name] += 1
        result = Result(sampled, self.received, self.sent, self.invalid)
        self.received, self.sent, self.invalid = [], [], []
        return result


class Hand:
    """A vLLM scheduler with an ``Outside`` of its own, SMALL unless told otherwise.

    ``add``, ``abort`` and ``control`` take effect at the next ``step``, or with ``mid`` between
    its two halves. A step is returned as rebuilt from the log, after a check of the invariants.
    """

    def __init__(self, **knobs: Any) -> None:
        self.log, self.world = Log(), Outside()
        self.scheduler = Scheduler(Config(**{**SMALL, **knobs}), self.log, self.world)
        self.due: list[tuple[bool, Callable[[], object]]] = []

    def add(
        self,
        name: str,
        prompt: int | Sequence[tuple[int, int]],
        out: int = 16,
        *,
        priority: int = 0,
        arrival: int = 0,
        grammar: str | None = None,
        offer: Offer | tuple[Any, ...] | None = None,
        session: bool = False,
        stop: Stop | None = None,
    ) -> None:
        number = len(self.world.tokens)
        self.world.tokens[name] = 1_000_000 + 10_000 * number
        runs = ((100_000 * (number + 1), prompt),) if isinstance(prompt, int) else tuple(prompt)
        if grammar is not None:
            self.world.grammars[name] = grammar
        if offer is not None:
            self.world.offers[name] = Offer(*offer)
        request = Request(
            name, runs, out, arrival, priority, stop, grammar is not None, session
        )  # fmt: skip
        self.at(lambda: self.scheduler.add(request))

    def at(self, action: Callable[[], object], mid: bool = False) -> None:
        self.due.append((mid, action))

    def abort(self, name: str, mid: bool = False) -> None:
        self.at(lambda: self.scheduler.abort(name), mid)

    def control(self, op: Control, mid: bool = False) -> None:
        self.at(lambda: self.scheduler.control(op), mid)

    def chunk(
        self,
        name: str,
        prompt: int,
        mid: bool = False,
        arrival: int = 0,
        stop: Stop | None = None,
        out: int = 16,
    ) -> None:
        """The session's next tokens, ids from 5,000,000 on."""
        self.control(NextChunk(name, ((5_000_000, prompt),), arrival, stop, out), mid)

    def close(self, name: str, mid: bool = False) -> None:
        self.control(Close(name), mid)

    def says(self, name: str, token: int) -> None:
        """The next token sampled for ``name``."""
        self.world.next[name] = token

    def loaded(self, name: str, *bad: int) -> None:
        """The next update reports the load's end, and blocks at these table positions as bad."""
        self.world.received.append(name)
        self.lost(name, *bad)

    def lost(self, name: str, *bad: int) -> None:
        self.world.invalid += [self.table(name)[index] for index in bad]

    def table(self, name: str) -> list[int]:
        return self.scheduler.requests[name].block_table

    def step(self) -> StepRecord:
        now = len(self.log.times)
        self.log.begin(now, now)
        self._happen(mid=False)
        self.plan = plan = self.scheduler.schedule(now)
        invariants.check(self.scheduler.snapshot(plan))
        result = self.world(plan)
        self.log.phase = Phase.MID
        self._happen(mid=True)
        self.scheduler.update(plan, result)
        invariants.check(self.scheduler.snapshot(plan))
        assert invariants.waiting_never_preempts(self.log) is None
        *_, last = rebuild(self.log)
        return last

    def _happen(self, mid: bool) -> None:
        now = [action for when, action in self.due if when is mid]
        self.due = [entry for entry in self.due if entry[0] is not mid]
        for action in now:
            action()

    def steps(self, count: int) -> list[StepRecord]:
        return [self.step() for _ in range(count)]

    def told(self, step: StepRecord) -> list[str]:
        """The step in sentences."""
        return [sentence.text for sentence in explain(step, self.log.config)]


class Case(NamedTuple):
    """A recording of the second set and our replay of it."""

    recording: Recording
    log: Log
    stop: str
    steps: list[StepRecord]


@cache
def replayed(name: str) -> Case:
    recording = load(GOLDEN / f"{name}.json.gz")
    run = replay(recording)
    return Case(recording, run.log, run.stop, list(rebuild(run.log)))


@pytest.fixture(scope="session")
def hand() -> type[Hand]:
    """Make a scheduler to drive by hand, with its outside: ``hand(policy="priority")``."""
    return Hand


@pytest.fixture(scope="session")
def case2() -> Callable[[str], Case]:
    """A recording of the second set by name, replayed once a session."""
    return replayed


@pytest.fixture(scope="session")
def golden2() -> Path:
    """The folder of the second set's recordings."""
    return GOLDEN
