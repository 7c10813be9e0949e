"""Any sequence of add, abort, schedule and update keeps the scheduler's promises."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from kvsched import invariants
from kvsched.contract import Plan, Row
from kvsched.engine import ScriptedExecutor
from kvsched.log import Admit, Log, Phase, Preempt, Resume
from kvsched.request import Request
from kvsched.steps import StepRecord, rebuild
from kvsched.vllm import Config, Scheduler


@st.composite
def configs(draw: st.DrawFn) -> Config:
    """Small and tight, with every knob turned both ways."""
    length = draw(st.integers(6, 40))
    slots = draw(st.integers(1, 6))
    chunked = draw(st.booleans())
    budget = draw(st.integers(slots, slots + 24))
    return Config(
        num_gpu_blocks=draw(st.integers(5, 14)),
        block_size=draw(st.integers(1, 4)),
        max_num_seqs=slots,
        max_num_batched_tokens=budget if chunked else max(budget, length),
        max_model_len=length,
        policy=draw(st.sampled_from(["fcfs", "priority"])),
        watermark=draw(st.sampled_from([0.0, 0.0, 0.1, 0.3, 0.9])),
        enable_prefix_caching=draw(st.booleans()),
        enable_chunked_prefill=chunked,
        long_prefill_token_threshold=draw(st.sampled_from([0, 0, 1, 3, 4])),
        scheduler_reserve_full_isl=draw(st.booleans()),
    )


class Seen(NamedTuple):
    """A scheduler's plan and state between two calls, kept for comparison with the log."""

    plan: Plan
    scheduled: list[tuple[str, int]]
    sampling: list[str]
    rows: list[Row]
    waiting: list[str]
    running: list[str]
    free: tuple[int, int]
    tables: dict[str, tuple[int, ...]]

    @classmethod
    def of(cls, scheduler: Scheduler, plan: Plan, rows: list[Row]) -> Seen:
        snapshot = scheduler.snapshot(plan)
        ids = ",".join(map(str, snapshot.free))
        return cls(
            plan,
            list(plan.scheduled.items()),
            list(plan.sampling or ()),
            [row._replace(blocks=tuple(row.blocks)) for row in rows],
            list(snapshot.containers["waiting"]),
            list(snapshot.containers["running"]),
            (len(snapshot.free), zlib.crc32(ids.encode())),
            {name: tuple(table) for name, table in snapshot.tables.items()},
        )


def check_schedule(step: StepRecord, seen: Seen, config: Config) -> None:
    """The log tells exactly what ``schedule()`` decided."""
    plan = seen.plan
    assert list(step.scheduled.items()) == seen.scheduled
    assert list(step.sampling) == seen.sampling
    assert [e.id for e in step.of(Preempt)] == plan.victims
    assert [e.id for e in step.of(Resume)] == plan.resumed
    assert [e.id for e in step.of(Admit) if not isinstance(e, Resume)] == plan.admitted
    assert not (plan.victims and (plan.admitted or plan.resumed))
    assert step.denial == (plan.denials[-1] if plan.denials else None)
    assert (step.waiting, step.running) == (seen.waiting, seen.running)
    assert (step.free, step.free_crc) == seen.free
    assert list(step.live) == list(seen.tables)
    for row in seen.rows:
        assert row.start + row.tokens == step.live[row.id].num_computed_tokens
        assert row.blocks == seen.tables[row.id]
        assert len(row.blocks) * config.block_size >= row.start + row.tokens
    if step.waiting and not step.running and not plan.victims:
        # With nothing running and nobody just thrown out, only what never fits is refused.
        assert step.denial is not None
        assert step.denial.need + step.denial.cached > config.num_gpu_blocks - 1


def check_update(step: StepRecord, seen: Seen) -> None:
    """The log tells exactly what ``update()`` left behind."""
    assert (step.waiting_end, step.running_end) == (seen.waiting, seen.running)
    assert (step.free_end, step.free_crc_end) == seen.free
    assert list(step.live_end) == list(seen.tables)
    for name, lane in step.live_end.items():
        assert lane.status in ("WAITING", "RUNNING", "PREEMPTED")
        assert (lane.status == "RUNNING") == (name in seen.running) == bool(seen.tables[name])


class SchedulerMachine(RuleBasedStateMachine):
    """One scheduler, its log, and everything done to it, so that it can be done again."""

    @initialize(config=configs())
    def start(self, config: Config) -> None:
        self.config = config
        self.log = Log()
        self.scheduler = Scheduler(config, self.log)
        self.executor = ScriptedExecutor()
        self.plan: Plan | None = None
        self.last = Plan()
        self.open = False
        self.names: list[str] = []
        self.done: list[Callable[[SchedulerMachine], object]] = []
        self.schedules: list[Seen] = []
        self.updates: list[Seen] = []

    def act(self, action: Callable[[SchedulerMachine], object]) -> None:
        """Do something, and remember it for the second run."""
        if not self.open:
            self.log.begin(len(self.log.times), len(self.log.times))
            self.open = True
        action(self)
        self.done.append(action)

    # -- what a client and an engine can do ---------------------------------------------------

    @precondition(lambda self: self.plan is None)
    @rule(
        shared=st.sampled_from([0, 2, 5]),
        own=st.integers(0, 6),
        out=st.integers(2, 20),
        priority=st.integers(-1, 1),
        arrival=st.integers(0, 2),
    )
    def add(self, shared: int, own: int, out: int, priority: int, arrival: int) -> None:
        """A prompt the front end would pass: shorter than ``max_model_len``."""
        most = self.config.max_model_len - 1
        shared = min(shared, most)
        own = min(own, most - shared) or int(shared == 0)
        name = f"r{len(self.names)}"
        self.names.append(name)
        runs = ((700, shared), (10_000 * len(self.names), own))
        request = Request(name, tuple(r for r in runs if r[1]), out, arrival, priority)
        self.act(lambda m: m.scheduler.add(request))

    @precondition(lambda self: self.names and len(self.done) % 4 == 3)
    @rule(back=st.integers(-1, 4))
    def abort(self, back: int) -> None:
        """Anybody, known, finished or unknown, before a step or while it is on the device."""
        name = f"r{len(self.names) - 1 - back}"
        self.act(lambda m: m.scheduler.abort(name))

    @precondition(lambda self: self.plan is None)
    @rule()
    def schedule(self) -> None:
        self.act(SchedulerMachine._schedule)
        invariants.check(self.scheduler.snapshot(self.last))
        self.schedules.append(Seen.of(self.scheduler, self.last, self.last.rows))

    def _schedule(self) -> None:
        self.plan = self.last = self.scheduler.schedule(0)
        self.log.phase = Phase.MID

    @precondition(lambda self: self.plan is not None)
    @rule()
    def update(self) -> None:
        self.act(SchedulerMachine._update)
        invariants.check(self.scheduler.snapshot(self.last))
        self.updates.append(Seen.of(self.scheduler, self.last, []))

    @precondition(lambda self: self.names and self.plan is None)
    @rule(count=st.integers(1, 12))
    def go_on(self, count: int) -> None:
        """Several whole steps: most of a request's life is decode."""
        for _ in range(count):
            self.schedule()
            self.update()

    def _update(self) -> None:
        assert self.plan is not None
        self.scheduler.update(self.plan, self.executor(self.plan))
        self.plan = None
        self.open = False

    def teardown(self) -> None:
        """The log tells the whole story, and the same input a second time tells the same."""
        if not hasattr(self, "config"):
            return
        assert invariants.waiting_never_preempts(self.log) is None
        steps = list(rebuild(self.log))
        for step, seen in zip(steps, self.schedules, strict=False):
            check_schedule(step, seen, self.config)
        for step, seen in zip(steps, self.updates, strict=False):
            check_update(step, seen)
        again = SchedulerMachine()
        again.start(self.config)
        for action in self.done:
            again.act(action)
        assert list(again.log.lines()) == list(self.log.lines())


TestSchedulerMachine = SchedulerMachine.TestCase
TestSchedulerMachine.settings = settings(
    max_examples=100,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)

FINGERPRINT = """
import hashlib, sys
from kvsched.conform import load
from kvsched.conform.replay import replay
for path in sys.argv[1:]:
    lines = "\\n".join(replay(load(path)).log.lines())
    print(hashlib.sha256(lines.encode()).hexdigest())
"""


@pytest.mark.parametrize("seed", ["0", "4242"])
def test_the_log_does_not_depend_on_the_hash_seed(seed: str, case: Any, golden: Any) -> None:
    names = ("cascade_priority", "prefix_shared_preempt", "abort_all_kinds")
    here = [hashlib.sha256("\n".join(case(n).log.lines()).encode()).hexdigest() for n in names]
    there = subprocess.run(
        [sys.executable, "-c", FINGERPRINT, *(str(golden / f"{n}.json.gz") for n in names)],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.split() == here
