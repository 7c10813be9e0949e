"""Whatever waits outside, ends early or comes back: the scheduler keeps its promises.

Beside what a client and an engine can do, the machine decides when grammars are compiled, when
loads and sends end and which blocks they lose, what a session's client sends, and when somebody
pauses the scheduler or empties its cache.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from kvsched import invariants
from kvsched.conform.fields import second_format
from kvsched.contract import Close, Control, Match, NextChunk, Pause, Plan, Reset, Result, World
from kvsched.explain import explain
from kvsched.log import Abort, Admit, Finish, Forget, Log, Phase, Preempt, Resume
from kvsched.request import Request, Stop
from kvsched.steps import StepRecord, rebuild
from kvsched.vllm import Config, Scheduler
from kvsched.vllm.status import LEGAL, RequestStatus
from kvsched.vllm.transitions import count_transitions

SEEDS = st.integers(0, 2**32 - 1)


class Offer(NamedTuple):
    """What the connector has for a request: ``fail`` are table positions of its first load."""

    tokens: int
    asynchronous: bool
    asks: int
    times: int
    fail: tuple[int, ...]


class Outside(World):
    """Answers only what the machine has told it; samples and reports like an executor."""

    def __init__(self) -> None:
        self.grammars: dict[str, str] = {}
        self.rejects: set[int] = set()
        self.offers: dict[str, Offer] = {}
        self.sends: set[str] = set()
        self.asked: dict[str, int] = {}
        self.loads: dict[str, int] = {}
        self.loading: dict[str, list[int]] = {}
        self.sending: list[str] = []
        self.invalid: list[int] = []
        self.recving: list[str] = []
        self.sent: list[str] = []
        self.tokens: dict[str, int] = {}

    def grammar(self, request_id: str) -> str:
        return self.grammars[request_id]

    def accepts(self, request_id: str, tokens: Sequence[int]) -> bool:
        return self.rejects.isdisjoint(tokens)

    def match(self, request_id: str, num_tokens: int, local: int) -> Match | None:
        offer = self.offers.get(request_id)
        if offer is None:
            return None
        self.asked[request_id] = self.asked.get(request_id, 0) + 1
        if self.asked[request_id] <= offer.asks:
            return Match(None, False)
        if self.loads.get(request_id, 0) >= offer.times:
            return Match(0, False)
        tokens = max(0, min(offer.tokens, num_tokens - (not offer.asynchronous)) - local)
        return Match(tokens, offer.asynchronous and tokens > 0)

    def load(self, request_id: str, tokens: int, asynchronous: bool, blocks: list[int]) -> None:
        self.loads[request_id] = self.loads.get(request_id, 0) + 1
        first = self.loads[request_id] == 1
        fail = self.offers[request_id].fail if first else ()
        bad = [blocks[index] for index in fail if index < len(blocks)]
        if asynchronous:
            self.loading[request_id] = bad
        else:
            self.invalid += bad

    def keeps_blocks(self, request_id: str, num_computed_tokens: int) -> bool:
        if request_id not in self.sends or num_computed_tokens == 0:
            return False
        self.sending.append(request_id)
        return True

    def end_transfers(self, count: int) -> None:
        """The ``count`` oldest transfers of either kind are over; the next result says so."""
        for request_id in list(self.loading)[:count]:
            self.recving.append(request_id)
            self.invalid += self.loading.pop(request_id)
        self.sent += self.sending[:count]
        del self.sending[:count]

    def __call__(self, plan: Plan) -> Result:
        tokens = {}
        for request_id in plan.sampling or ():
            tokens[request_id] = (self.tokens[request_id],)
            self.tokens[request_id] += 1
        result = Result(tokens, self.recving, self.sent, self.invalid)
        self.recving, self.sent, self.invalid = [], [], []
        return result


def a_config(rng: Random) -> Config:
    """Small and tight: prompts and outputs have up to 12 tokens each, or the model's length."""
    slots = rng.randint(1, 6)
    return Config(
        num_gpu_blocks=rng.randint(5, 16),
        block_size=rng.randint(1, 4),
        max_num_seqs=slots,
        max_num_batched_tokens=slots + rng.randint(0, 24),
        max_model_len=rng.randint(8, 48),
        policy=rng.choice(["fcfs", "priority"]),
        watermark=rng.choice([0.0, 0.0, 0.2]),
        enable_prefix_caching=rng.random() < 0.75,
        long_prefill_token_threshold=rng.choice([0, 0, 3]),
        scheduler_reserve_full_isl=rng.random() < 0.5,
        kv_load_failure_policy=rng.choice(["recompute", "fail"]),
    )


def an_offer(rng: Random) -> Offer:
    return Offer(
        tokens=rng.choice([1, 4, 7, 20]),
        asynchronous=rng.random() < 0.7,
        asks=rng.choice([0, 0, 1]),
        times=rng.randint(1, 3),
        fail=rng.choice([(), (), (0,), (1, 3), (2,)]),
    )


class Seen(NamedTuple):
    """The scheduler's own state between two calls, kept for comparison with the log."""

    plan: Plan
    scheduled: list[tuple[str, int]]
    queues: list[list[str]]
    free: tuple[int, int]
    cached: int
    live: dict[str, tuple[str, int, int, int]]
    inflight: list[str]
    slots: int

    @classmethod
    def of(cls, scheduler: Scheduler, plan: Plan) -> Seen:
        snapshot = scheduler.snapshot(plan)
        ids = ",".join(map(str, snapshot.free)).encode()
        return cls(
            plan,
            list(plan.scheduled.items()),
            [list(snapshot.containers[name]) for name in ("waiting", "skipped", "running")],
            (len(snapshot.free), zlib.crc32(ids)),
            sum(block_hash is not None for block_hash in scheduler.kv.pool.block_hash),
            {
                r.id: (r.status.name, r.num_computed_tokens, r.num_tokens, r.num_preemptions)
                for r in scheduler.requests.values()
            },
            sorted(scheduler.loads.inflight),
            scheduler.sessions.paused,
        )


def check_schedule(step: StepRecord, seen: Seen) -> None:
    """The log tells exactly what ``schedule()`` decided and left behind."""
    plan = seen.plan
    assert list(step.scheduled.items()) == seen.scheduled
    assert [e.id for e in step.of(Preempt, Phase.SCHEDULE)] == plan.victims
    assert [e.id for e in step.of(Resume)] == plan.resumed
    assert [e.id for e in step.of(Admit) if not isinstance(e, Resume)] == plan.admitted
    assert step.denial == (plan.denials[-1] if plan.denials else None)
    assert [step.waiting, step.skipped, step.running] == seen.queues
    assert (step.free, step.free_crc) == seen.free
    assert (step.cached, step.prefilling, step.slots) == (seen.cached, seen.inflight, seen.slots)
    assert {name: tuple(lane[:4]) for name, lane in step.live.items()} == seen.live
    assert list(step.live) == list(seen.live)


def check_update(step: StepRecord, seen: Seen) -> None:
    """The log tells exactly what ``update()`` left behind."""
    assert [step.waiting_end, step.skipped_end, step.running_end] == seen.queues
    assert (step.free_end, step.free_crc_end) == seen.free
    assert (step.cached_end, step.slots_end) == (seen.cached, seen.slots)
    assert {name: tuple(lane[:4]) for name, lane in step.live_end.items()} == seen.live
    assert list(step.live_end) == list(seen.live)


class OutsideMachine(RuleBasedStateMachine):
    """One scheduler, its world, its log, and everything done to them."""

    @initialize(seed=SEEDS)
    def start(self, seed: int) -> None:
        self.begin(a_config(Random(seed)))

    def begin(self, config: Config) -> None:
        self.config = config
        self.log = Log()
        self.world = Outside()
        self.scheduler = Scheduler(config, self.log, self.world)
        self.plan: Plan | None = None
        self.open = False
        self.room: dict[str, int] = {}
        self.held: dict[str, tuple[int, ...]] = {}
        self.done: list[Callable[[OutsideMachine], object]] = []
        self.schedules: list[Seen] = []
        self.updates: list[Seen] = []

    def act(self, action: Callable[[OutsideMachine], object]) -> None:
        """Do something, and remember it for the second run."""
        if not self.open:
            self.log.begin(len(self.log.times), len(self.log.times))
            self.open = True
        action(self)
        self.done.append(action)

    # -- clients ------------------------------------------------------------------------------

    @precondition(lambda self: self.plan is None)
    @rule(seed=SEEDS, count=st.integers(1, 4))
    def add(self, seed: int, count: int) -> None:
        rng = Random(seed)
        for _ in range(count):
            self._add(rng)

    def _add(self, rng: Random) -> None:
        """A prompt the front end would pass, and all its answers from outside."""
        number = len(self.room)
        name, first, fifth = f"r{number}", 100_000 * (number + 1), 100_000 * (number + 1) + 50_004
        most = self.config.max_model_len - 1
        shared = min(rng.choice([0, 2, 6]), most)
        own = min(rng.randint(0, 6), most - shared) or int(shared == 0)
        out, resumable = rng.randint(1, 12), rng.random() < 0.3
        self.room[name] = most - shared - own - out if resumable else -1
        grammar = rng.choice([None, None, None, "pending", "ready", "failed"])
        offer = an_offer(rng) if rng.random() < 0.4 else None
        sends, rejects = rng.random() < 0.2, rng.random() < 0.1
        least = min(out, 6, most - shared - own + 1)
        stops = [None, None, Stop(fifth), Stop(None, (fifth,)), Stop(fifth, (), least)]
        request = Request(
            name,
            tuple(run for run in ((700, shared), (first, own)) if run[1]),
            out,
            rng.randint(0, 2),
            rng.randint(-1, 1),
            rng.choice(stops),
            grammar is not None,
            resumable,
        )

        def arrive(m: OutsideMachine) -> None:
            m.world.tokens[name] = first + 50_000
            m.world.grammars[name] = grammar or "none"
            m.world.offers.update({name: offer} if offer is not None else {})
            m.world.sends.update({name} if sends else ())
            m.world.rejects.update({fifth} if rejects else ())
            m.scheduler.add(request)

        self.act(arrive)

    @rule(seed=SEEDS)
    def speak(self, seed: int) -> None:
        """A session's client sends a chunk, if it still fits the model's length, or ends it."""
        rng = Random(seed)
        sessions = [name for name, room in self.room.items() if room >= 0]
        paused = [n for n in sessions if n in self.scheduler.requests]
        if not sessions:
            return
        name = rng.choice(paused or sessions)
        tokens = min(rng.randint(1, 6), self.room[name])
        if tokens < 1 or rng.random() < 0.15:
            self.control(Close(name))
            return
        self.room[name] -= tokens + 12
        prompt = ((900_000_000 + 100 * len(self.done), tokens),)
        self.control(NextChunk(name, prompt, rng.randint(0, 3), None, 1))

    @rule(seed=SEEDS)
    def disturb(self, seed: int) -> None:
        """An abort of anybody, live, ended or unknown; a pause; before a step also a reset."""
        rng = Random(seed)
        if rng.random() < 0.6:
            name = rng.choice([*self.scheduler.requests, f"r{len(self.room)}", "r0"])
            self.act(lambda m: m.scheduler.abort(name))
        elif self.plan is None and rng.random() < 0.6:
            self.control(Reset(rng.random() < 0.6))
        else:
            self.control(Pause(rng.choice(["new", "all"])))

    def control(self, op: Control) -> None:
        self.act(lambda m: m.scheduler.control(op))

    # -- the engine and the outside -----------------------------------------------------------

    @rule(seed=SEEDS)
    def answer(self, seed: int) -> None:
        """Grammars get compiled, the oldest loads and sends end, a pause is over."""
        rng = Random(seed)
        if self.scheduler.paused != "none" and rng.random() < 0.7:
            self.control(Pause("none"))
        pending = [name for name, state in self.world.grammars.items() if state == "pending"]
        for name in pending[: rng.randint(0, 2)]:
            state = "failed" if rng.random() < 0.2 else "ready"
            self.act(lambda m, name=name, state=state: m.world.grammars.update({name: state}))
        count = rng.randint(0, 2)
        if count and (self.world.loading or self.world.sending):
            self.act(lambda m: m.world.end_transfers(count))

    @precondition(lambda self: self.plan is None)
    @rule()
    def schedule(self) -> None:
        self.act(OutsideMachine._schedule)
        assert self.plan is not None
        self.check(self.plan)
        self.schedules.append(Seen.of(self.scheduler, self.plan))

    def _schedule(self) -> None:
        self.plan = self.scheduler.schedule(0)
        self.log.phase = Phase.MID

    @precondition(lambda self: self.plan is not None)
    @rule()
    def update(self) -> None:
        plan = self.plan
        assert plan is not None
        self.act(OutsideMachine._update)
        self.check(plan)
        self.updates.append(Seen.of(self.scheduler, plan))

    def _update(self) -> None:
        assert self.plan is not None
        self.scheduler.update(self.plan, self.world(self.plan))
        self.plan = None
        self.open = False

    @precondition(lambda self: self.plan is None)
    @rule(seed=SEEDS, count=st.integers(1, 30))
    def go_on(self, seed: int, count: int) -> None:
        """Several whole steps: most of a request's life is decode."""
        rng = Random(seed)
        for _ in range(count):
            if rng.random() < 0.2:
                self.add(rng.getrandbits(32), 1)
            self._happen(rng)
            self.schedule()
            self._happen(rng)
            self.update()

    def _happen(self, rng: Random) -> None:
        for rule_, chance in ((self.answer, 0.3), (self.speak, 0.1), (self.disturb, 0.03)):
            if rng.random() < chance:
                rule_(rng.getrandbits(32))

    # -- what must hold -----------------------------------------------------------------------

    def check(self, plan: Plan) -> None:
        """The numbered invariants, slots with paused sessions, nobody lost, held blocks kept."""
        scheduler = self.scheduler
        snapshot = scheduler.snapshot(plan)
        invariants.check(snapshot)
        assert len(scheduler.running) + scheduler.sessions.paused <= self.config.max_num_seqs
        paused = [r for r in scheduler.requests.values() if r.status.name.endswith("STREAMING_REQ")]
        assert scheduler.sessions.paused == len(paused)
        held = {n: tuple(t) for n, t in snapshot.tables.items() if n not in snapshot.live}
        assert all(held[name] == table for name, table in self.held.items() if name in held)
        self.held = held
        ended = {e.event.id for e in self.log.of(Finish, Abort) if getattr(e.event, "status", 1)}
        assert not snapshot.live & ended
        assert snapshot.live | ended == set(self.room)
        forgotten = {entry.event.id for entry in self.log.of(Forget)}
        kept = {e.event.id for e in self.log.of(Finish, Abort) if e.event.held}
        assert set(held) == kept - forgotten

    def teardown(self) -> None:
        """Everybody can be got rid of; the log tells it all; the same input tells the same."""
        if not hasattr(self, "config"):
            return
        self._get_rid_of_all()
        assert not self.scheduler.has_work()
        assert len(self.scheduler.kv.pool.free) == self.config.num_gpu_blocks - 1
        assert invariants.waiting_never_preempts(self.log) is None
        assert count_transitions(self.log).keys() <= LEGAL
        assert not any(target is RequestStatus.FINISHED_IGNORED for _, target in LEGAL)
        steps = list(rebuild(self.log))
        for step, seen in zip(steps, self.schedules, strict=True):
            check_schedule(step, seen)
            assert all(told.text for told in explain(step, self.log.config))
            json.dumps(second_format(step, self.log.config))
        for step, seen in zip(steps, self.updates, strict=True):
            check_update(step, seen)
        again: Any = OutsideMachine()
        again.begin(self.config)
        for action in self.done:
            again.act(action)
        assert list(again.log.lines()) == list(self.log.lines())

    def _get_rid_of_all(self) -> None:
        if self.plan is not None:
            self.update()
        for name in self.room:
            self.act(lambda m, name=name: m.scheduler.abort(name))
        self.act(lambda m: m.world.end_transfers(1000))
        self.schedule()
        self.update()


TestOutsideMachine = OutsideMachine.TestCase
TestOutsideMachine.settings = settings(
    max_examples=100,
    stateful_step_count=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
