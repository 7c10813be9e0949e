"""The invariant under any order of arrivals, cancellations and boundaries, with any extension."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kvsched.contract import Plan, Result
from kvsched.request import Request
from kvsched.reserve import Config, Records, Scheduler

SMALL = st.integers(1, 9)


class ReservationMachine(RuleBasedStateMachine):
    """Drives one simulator; what it must hold is checked against sums made here."""

    @initialize(
        knobs=st.fixed_dictionaries(
            {
                "policy": st.sampled_from(["serial", "continuous"]),
                "block_size": st.integers(1, 4),
                "blocks": SMALL,
                "max_tokens": SMALL,
                "max_rows": st.integers(1, 4),
                "chunk": SMALL,
                "release_delay": st.integers(0, 3),
                "reserve": st.sampled_from(["whole", "truncate", "preempt"]),
                "prefix_cache": st.booleans(),
                "order": st.sampled_from(["fifo", "priority", "deadline"]),
                "batch_size": st.integers(0, 2),
            }
        )
    )
    def start(self, knobs: dict[str, Any]) -> None:
        self.config = Config(**knobs)
        self.log = Records()
        self.scheduler = Scheduler(self.config, self.log)
        self.now = 0
        self.log.begin(0, 0)
        self.tokens: dict[str, int] = {}
        self.wanted: dict[str, int] = {}

    @rule(
        first=st.integers(0, 1),
        prompt=st.integers(1, 12),
        output=SMALL,
        priority=st.integers(-1, 1),
        deadline=st.none() | st.integers(0, 40),
    )
    def arrive(
        self, first: int, prompt: int, output: int, priority: int, deadline: int | None
    ) -> None:
        name = f"r{len(self.wanted)}"
        runs = ((first * 1000, prompt),)
        request = Request(name, runs, output, self.now, priority, deadline=deadline)
        self.wanted[name] = output
        need = -(-(prompt + output - 1) // self.config.block_size)
        denial = self.scheduler.add(request)
        assert (denial is not None) == (need > self.config.blocks)

    @rule(number=st.integers(0, 20))
    def cancel(self, number: int) -> None:
        self.scheduler.abort(f"r{number}")
        assert f"r{number}" not in self.scheduler.jobs

    @rule()
    def boundary(self) -> None:
        plan = self.scheduler.schedule(self.now)
        self.within_budgets(plan)
        sampled = dict.fromkeys(plan.sampling or (), (1,))
        for request_id in sampled:
            self.tokens[request_id] = self.tokens.get(request_id, 0) + 1
        self.now += 1
        self.log.end(self.now)
        self.scheduler.update(plan, Result(sampled))
        self.log.begin(0, self.now)

    def within_budgets(self, plan: Plan) -> None:
        assert sum(plan.scheduled.values()) <= self.config.max_tokens
        assert len(plan.scheduled) <= self.config.max_rows

    @invariant()
    def promises_and_drains_fit(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        pool, active = self.scheduler.pool, self.scheduler.active.values()
        assert pool.credits == sum(job.credit for job in active)
        assert pool.allocated == sum(job.own for job in active)
        assert pool.draining == sum(drain.pages for drain in pool.drains)
        assert pool.credits + pool.draining <= self.config.blocks
        assert all(0 <= job.own <= job.credit for job in active)

    @invariant()
    def every_token_is_given_once(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        for name, how in self.scheduler.ended.items():
            if how == "completed":
                assert self.tokens[name] == self.wanted[name]
        for name, job in self.scheduler.jobs.items():
            assert job.emitted == self.tokens.get(name, 0) < self.wanted[name]

    def teardown(self) -> None:
        """Whoever was accepted comes to an end."""
        if not hasattr(self, "scheduler"):
            return
        for _ in range(3000):
            if not self.scheduler.has_work():
                break
            self.boundary()
        assert not self.scheduler.has_work()
        assert set(self.scheduler.ended) == set(self.wanted)
        assert self.scheduler.pool.free == self.config.blocks
        assert self.scheduler.prefixes is None or not self.scheduler.prefixes.holders


TestReservationMachine = ReservationMachine.TestCase
TestReservationMachine.settings = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
