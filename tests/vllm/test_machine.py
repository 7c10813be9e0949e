"""Any sequence of add, abort, schedule and update keeps the scheduler's promises."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from kvsched import invariants
from kvsched.contract import Plan
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
        self._check_schedule(_rebuilt(self.log))

    def _schedule(self) -> None:
        self.plan = self.last = self.scheduler.schedule(0)
        self.log.phase = Phase.MID

    @precondition(lambda self: self.plan is not None)
    @rule()
    def update(self) -> None:
        self.act(SchedulerMachine._update)
        self._check_update(_rebuilt(self.log))

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

    # -- what must hold -------------------------------------------------------------------------

    def _check_schedule(self, step: StepRecord) -> None:
        """The log tells exactly what the scheduler decided."""
        plan, snapshot = self.last, self.scheduler.snapshot(self.last)
        invariants.check(snapshot)
        assert invariants.waiting_never_preempts(self.log) is None
        assert list(step.scheduled.items()) == list(plan.scheduled.items())
        assert [e.id for e in step.of(Preempt)] == plan.victims
        assert [e.id for e in step.of(Resume)] == plan.resumed
        fresh = [e.id for e in step.of(Admit) if not isinstance(e, Resume)]
        assert fresh == plan.admitted
        assert not (plan.victims and (plan.admitted or plan.resumed))
        assert step.denial == (plan.denials[-1] if plan.denials else None)
        assert step.waiting == snapshot.containers["waiting"]
        assert step.running == snapshot.containers["running"]
        assert (step.free, step.free_crc) == (len(snapshot.free), _crc(snapshot.free))
        assert list(step.live) == [name for name in self.names if name in snapshot.live]
        for row in plan.rows:
            assert row.start + row.tokens == step.live[row.id].num_computed_tokens
            assert row.blocks == tuple(snapshot.tables[row.id])
            assert len(row.blocks) * self.config.block_size >= row.start + row.tokens
        self._check_nobody_is_forgotten(step)

    def _check_nobody_is_forgotten(self, step: StepRecord) -> None:
        """With nothing running and nobody just thrown out, only what never fits is refused."""
        if step.waiting and not step.running and not step.of(Preempt):
            assert step.denial is not None
            usable = self.config.num_gpu_blocks - 1
            assert step.denial.need + step.denial.cached > usable

    def _check_update(self, step: StepRecord) -> None:
        snapshot = self.scheduler.snapshot(self.last)
        invariants.check(snapshot)
        assert step.waiting_end == snapshot.containers["waiting"]
        assert step.running_end == snapshot.containers["running"]
        assert (step.free_end, step.free_crc_end) == (len(snapshot.free), _crc(snapshot.free))
        assert set(step.live_end) == set(snapshot.live)
        for name, lane in step.live_end.items():
            assert lane.status in ("WAITING", "RUNNING", "PREEMPTED")
            assert (lane.status == "RUNNING") == (name in step.running_end)
            assert bool(snapshot.tables[name]) == (lane.status == "RUNNING")

    def teardown(self) -> None:
        """The same input a second time gives the same log, byte for byte."""
        if not hasattr(self, "config"):
            return
        again = SchedulerMachine()
        again.start(self.config)
        for action in self.done:
            again.act(action)
        assert list(again.log.lines()) == list(self.log.lines())


def _rebuilt(log: Log) -> StepRecord:
    *_, last = rebuild(log)
    return last


def _crc(blocks: Any) -> int:
    return zlib.crc32(",".join(map(str, blocks)).encode())


TestSchedulerMachine = SchedulerMachine.TestCase
TestSchedulerMachine.settings = settings(
    max_examples=80,
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
