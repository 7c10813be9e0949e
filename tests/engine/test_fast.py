"""The event-skipping twin leaves what the loop leaves, bit for bit, and plays far fewer steps."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvsched import profiles
from kvsched.clock import Clock, CostClock, Ticks
from kvsched.contract import Close, NextChunk, Pause, Reset
from kvsched.engine import FastEngine, Outcome, ScriptedExecutor, run, run_fast
from kvsched.engine.loop import drive
from kvsched.log import Admit, Level, Log, Preempt
from kvsched.request import EOS, Request, Stop
from kvsched.vllm import Config, Scheduler
from kvsched.whatif.tax_running import TaxRunning
from kvsched.workload import Arrival, Cancel, ClosedLoop, Order, WorkloadEvent, poisson

H100 = profiles.load("h100-sxm")


class Case(NamedTuple):
    """Everything a run is made from."""

    config: Config
    events: tuple[WorkloadEvent, ...]
    clients: int
    """Of a closed loop of the requests among the events, or 0 for a calendar."""
    costs: bool
    outputs: dict[str, int]
    first_token: dict[str, int]
    max_steps: int | None


@st.composite
def configs(draw: st.DrawFn) -> Config:
    """Small and tight, with every knob turned both ways."""
    slots = draw(st.integers(1, 6))
    chunked = draw(st.booleans())
    length = draw(st.integers(20, 80))
    budget = draw(st.integers(slots, slots + 40))
    return Config(
        num_gpu_blocks=draw(st.integers(5, 40)),
        block_size=draw(st.sampled_from([1, 2, 3, 4, 8])),
        max_num_seqs=slots,
        max_num_batched_tokens=budget if chunked else max(budget, length),
        max_model_len=length,
        policy=draw(st.sampled_from(["fcfs", "priority"])),
        watermark=draw(st.sampled_from([0.0, 0.0, 0.1, 0.3])),
        enable_prefix_caching=draw(st.booleans()),
        enable_chunked_prefill=chunked,
        long_prefill_token_threshold=draw(st.sampled_from([0, 0, 0, 3])),
        scheduler_reserve_full_isl=draw(st.booleans()),
    )


@st.composite
def requests(draw: st.DrawFn, name: str) -> Request:
    """Prompts share a stem of some length, or are twins; outputs are short and long."""
    stem = draw(st.sampled_from([0, 4, 12, 24]))
    own = draw(st.integers(0 if stem else 1, 20))
    ending = 10_000 * draw(st.sampled_from([1, 2, 3, int(name[1:]) + 10]))
    stop = draw(
        st.sampled_from([None, None, Stop(EOS), Stop(EOS, (1_000_007,), 3), Stop(None, (), 60)])
    )
    return Request(
        name,
        tuple(run for run in ((500, stem), (ending, own)) if run[1]),
        draw(st.integers(1, 60)),
        arrival_time=draw(st.integers(0, 3)),
        priority=draw(st.integers(0, 2)),
        stop=stop,
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    names = [f"r{i}" for i in range(draw(st.integers(1, 9)))]
    costs = draw(st.booleans())
    unit = 4_000_000 if costs else 1
    times = st.integers(0, 120 * unit)
    events: list[WorkloadEvent] = [
        Arrival(draw(st.one_of(st.just(0), times)), draw(requests(name))) for name in names
    ]
    for name in draw(st.lists(st.sampled_from(names), max_size=2)):
        events.append(Cancel(draw(times), name, draw(st.booleans())))
    for op in draw(st.lists(st.sampled_from([Reset(True), Pause("new"), Pause("none")]))):
        events.append(Order(draw(times), op, draw(st.booleans())))
    return Case(
        draw(configs()),
        tuple(events),
        draw(st.sampled_from([0, 0, 1, 3])),
        costs,
        {name: draw(st.integers(1, 50)) for name in names if draw(st.booleans())},
        {name: draw(st.sampled_from([1_000_000, 2_000_000])) for name in names},
        draw(st.sampled_from([None, None, 40, 150])),
    )


class Ran(NamedTuple):
    """What a run left."""

    outcome: Outcome
    log: Log
    scheduler: Scheduler
    executor: ScriptedExecutor


def play(case: Case, runner: Callable[..., Outcome], kind: type[Scheduler] = Scheduler) -> Ran:
    log = Log(Level.METRICS)
    scheduler = kind(case.config, log)
    executor = ScriptedExecutor(case.first_token, case.outputs)
    clock: Clock = CostClock(H100) if case.costs else Ticks()
    workload: Any = case.events
    if case.clients:
        arriving = [event.request for event in case.events if isinstance(event, Arrival)]
        workload = ClosedLoop(arriving, case.clients, log)
    outcome = runner(scheduler, workload, log, clock, executor, max_steps=case.max_steps)
    return Ran(outcome, log, scheduler, executor)


def state(scheduler: Scheduler) -> dict[str, Any]:
    """All of it, tokens as runs."""
    pool = scheduler.kv.pool
    fields = [
        "status", "num_tokens", "num_computed_tokens", "num_cached_blocks", "num_preemptions",
        "block_table", "block_hashes", "stop_reason",
    ]  # fmt: skip
    for r in scheduler.requests.values():
        r.truncate(r.num_tokens)
    return {
        "free": list(pool.free),
        "ref_cnt": pool.ref_cnt,
        "block_hash": pool.block_hash,
        "cached": {name: list(blocks) for name, blocks in pool.cached.items()},
        "filled_by": {
            block: r.id
            for block, r in scheduler.kv.filled_by.items()
            if pool.block_hash[block] is not None
        },
        "queues": [[r.id for r in q] for q in (scheduler.waiting, scheduler.skipped)],
        "running": [r.id for r in scheduler.running],
        "standing": scheduler.standing,
        "requests": {
            r.id: (r.tokens.runs(), *(getattr(r, field) for field in fields))
            for r in scheduler.requests.values()
        },
    }


def same(plain: Ran, fast: Ran) -> None:
    """Nothing tells the two apart."""
    assert fast.outcome == plain.outcome
    assert list(fast.log.lines()) == list(plain.log.lines())
    for name in ("times", "ends", "free_blocks", "delivered", "step", "phase"):
        assert getattr(fast.log, name) == getattr(plain.log, name), name
    assert state(fast.scheduler) == state(plain.scheduler)
    assert fast.executor.next_token == plain.executor.next_token


class Counted(FastEngine):
    """Counts the steps it plays."""

    played = 0

    def step(self) -> Any:
        self.played += 1
        return super().step()


def share_played(scheduler: Scheduler, workload: Any, log: Log, **parts: Any) -> float:
    """Steps played, of all."""
    engine = Counted(scheduler, workload, log, **parts)
    drive(engine)
    return engine.played / engine.steps


def eight() -> list[Arrival]:
    return [Arrival(0, Request(f"r{i}", ((10_000 * i, 30),), 300)) for i in range(8)]


def roomy(log: Log, kind: type[Scheduler] = Scheduler) -> Scheduler:
    return kind(Config(400), log)


class TestTheSameRun:
    """Any workload, any knob: equal logs, equal ends, equal schedulers."""

    @settings(max_examples=150, deadline=None)
    @given(case=cases())
    def test_nothing_tells_them_apart(self, case: Case) -> None:
        same(play(case, run), play(case, run_fast))

    @pytest.mark.parametrize("caching", [True, False])
    @pytest.mark.parametrize("gate", [True, False])
    def test_a_pool_that_thrashes(self, caching: bool, gate: bool) -> None:
        config = Config(
            150,
            max_num_seqs=12,
            max_num_batched_tokens=128,
            enable_prefix_caching=caching,
            scheduler_reserve_full_isl=gate,
        )
        rng = Random(1)
        events = [
            Arrival(at, Request(f"r{i}", ((10_000 * i, rng.randrange(40, 400)),), 300))
            for i, at in enumerate(poisson(4.0, 25, rng))
        ]
        case = Case(config, tuple(events), 0, True, {}, {}, None)
        plain = play(case, run)
        assert plain.log.of(Preempt)
        same(plain, play(case, run_fast))

    def test_a_session_that_waits_for_its_client(self) -> None:
        chunk = NextChunk("r9", ((77, 9),), 30, None, 5)
        events: list[WorkloadEvent] = [
            *eight(),
            Arrival(3, Request("r9", ((90_000, 20),), 20, resumable=True)),
            Order(70, chunk),
            Order(120, Close("r9")),
        ]
        case = Case(Config(120), tuple(events), 0, False, {}, {}, None)
        same(play(case, run), play(case, run_fast))

    @pytest.mark.parametrize("gate", [True, False])
    def test_a_head_that_finds_what_another_writes(self, gate: bool) -> None:
        """Its prompt goes on as the running request's output does: no finish, and yet a hit."""
        events = [
            Arrival(0, Request("a", ((500, 24),), 40)),
            Arrival(5, Request("c", ((500, 24), (1_000_000, 28)), 10)),
        ]
        admitted = set()
        for blocks in range(12, 30):
            config = Config(blocks, 4, max_num_batched_tokens=256, scheduler_reserve_full_isl=gate)
            case = Case(config, tuple(events), 0, False, {}, {}, 60)
            plain = play(case, run)
            same(plain, play(case, run_fast))
            admitted.update(entry.step for entry in plain.log.of(Admit) if entry.event.id == "c")
        assert any(5 < step < 39 for step in admitted), "refused at first, in before a's end"


class TestHowMuchIsSkipped:
    """Most steps of decoding are not played; where a step must be asked, each is."""

    def test_decoding_is_skipped(self) -> None:
        log = Log(Level.METRICS)
        assert share_played(roomy(log), eight(), log) < 1 / 50

    def test_a_full_pool_with_a_refused_head_is_skipped_too(self) -> None:
        log = Log(Level.METRICS)
        scheduler = Scheduler(Config(100, max_num_seqs=4), log)
        assert share_played(scheduler, eight(), log) < 1 / 5

    @pytest.mark.parametrize(
        ("level", "kind", "parts"),
        [
            (Level.EVENTS, Scheduler, {}),
            (Level.METRICS, TaxRunning, {}),
            (Level.METRICS, Scheduler, {"lag": 1}),
            (Level.METRICS, Scheduler, {"executor": type("Own", (ScriptedExecutor,), {})()}),
            (Level.METRICS, Scheduler, {"clock": type("Own", (Ticks,), {})()}),
        ],
        ids=["blocks logged", "what-if", "lag", "executor", "clock"],
    )
    def test_elsewhere_every_step_is_played(
        self, level: Level, kind: type[Scheduler], parts: dict[str, Any]
    ) -> None:
        log = Log(level)
        assert share_played(roomy(log, kind), eight(), log, **parts) == 1
