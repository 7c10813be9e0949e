"""Random runs of random configurations: nothing leaks, nothing is held twice, nobody is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kvsched import invariants
from kvsched.contract import Plan, Result
from kvsched.log import Finish, Log
from kvsched.sglang import Config, Request, Scheduler, State, derived_state, rebuild
from kvsched.sglang.pages import PoolExhausted
from kvsched.sglang.radix import Node
from kvsched.sglang.req import Req
from kvsched.sglang.state import HOLDING

CONFIGS = st.fixed_dictionaries(
    {
        "page_size": st.sampled_from([1, 1, 4, 16]),
        "max_total_tokens": st.integers(96, 160),
        "max_running_requests": st.integers(1, 5),
        "max_prefill_tokens": st.sampled_from([16, 64, 16384]),
        "chunked_prefill_size": st.sampled_from([None, None, 16, 32]),
        "disable_radix_cache": st.booleans(),
        "schedule_policy": st.sampled_from(
            ["fcfs", "lof", "lpm", "dfs-weight", "random", "routing-key"]
        ),
        "enable_priority_scheduling": st.booleans(),
        "schedule_low_priority_values_first": st.booleans(),
        "priority_scheduling_preemption_threshold": st.sampled_from([0, 1, 10]),
        "retraction_policy": st.sampled_from(["length", "priority"]),
        "schedule_conservativeness": st.sampled_from([0.0, 0.1, 1.0]),
        "new_token_ratio_decay_steps": st.sampled_from([1, 5, 600]),
        "req_waiting_timeout": st.sampled_from([-1, -1, 30]),
        "fix22": st.booleans(),
    }
)


def walk(node: Node) -> Iterator[Node]:
    """A node's descendants."""
    for child in node.children.values():
        yield child
        yield from walk(child)


class SGLang(RuleBasedStateMachine):
    """Requests come and give up, iterations pass; the loop is the normal or the overlap one."""

    @initialize(knobs=CONFIGS, lag=st.integers(0, 1), mixed=st.booleans())
    def start(self, knobs: dict[str, Any], lag: int, mixed: bool) -> None:
        mixed = mixed and knobs["chunked_prefill_size"] is not None
        self.config = Config(**knobs, enable_mixed_chunk=mixed)
        self.log = Log()
        self.scheduler = Scheduler(self.config, self.log)
        self.lag = lag
        self.flying: list[tuple[Plan, Result]] = []
        self.reqs: dict[str, Req] = {}
        self.log.begin(0, 0)

    @rule(
        family=st.integers(0, 2),
        shared=st.integers(0, 40),
        tail=st.integers(1, 30),
        out=st.integers(1, 40),
        priority=st.integers(0, 20),
        ignore_eos=st.booleans(),
        key=st.sampled_from([None, "a", "b"]),
    )
    def add(self, family: int, shared: int, tail: int, out: int, **own: Any) -> None:
        name = f"r{len(self.reqs)}"
        first = 10_000 * (len(self.reqs) + 1)
        runs = ((1000 * family, shared), (first, tail)) if shared else ((first, tail),)
        key = own.pop("key")
        self.scheduler.add(Request(name, runs, out, routing_key=key, **own))
        self.reqs[name] = self.scheduler.requests[name]

    @rule(number=st.integers(0, 30))
    def abort(self, number: int) -> None:
        self.scheduler.abort(f"r{number}")

    @rule(steps=st.integers(1, 12))
    def iterate(self, steps: int) -> None:
        for _ in range(steps):
            if not self.step():
                break

    def step(self) -> bool:
        """One iteration; False if the engine breaks off, as the real one would."""
        scheduler = self.scheduler
        try:
            plan = scheduler.schedule(self.log.step)
        except PoolExhausted:
            # No memory check stands before a mixed pass's decodes or a chunk that must go on.
            assert self.config.chunked_prefill_size is not None
            self.start_again()
            return False
        self.check_plan(plan)
        self.check()
        invariants.check(scheduler.snapshot(plan))
        self.flying.append((plan, Result({i: self.token(plan, i) for i in plan.sampling or ()})))
        if len(self.flying) > self.lag:
            scheduler.update(*self.flying.pop(0))
        self.check()
        invariants.check(scheduler.snapshot(plan))
        self.log.begin(len(self.log.times), len(self.log.times))
        return True

    def start_again(self) -> None:
        self.log = Log()
        self.scheduler = Scheduler(self.config, self.log)
        self.flying, self.reqs = [], {}
        self.log.begin(0, 0)

    def token(self, plan: Plan, name: str) -> tuple[int]:
        (row,) = [row for row in plan.rows if row.id == name]
        return (self.output(name, row.start + row.tokens - self.reqs[name].num_prompt_tokens),)

    def output(self, name: str, k: int) -> int:
        return 1_000_000 + 1000 * int(name[1:]) + k

    # -- what must hold ---------------------------------------------------------------------

    def check_plan(self, plan: Plan) -> None:
        """Rows are distinct, compute something, and stand in their own tables to the end."""
        rows = plan.rows
        assert len({row.id for row in rows}) == len(rows) <= self.config.max_running_requests
        page = self.config.page_size
        for row in rows:
            assert row.tokens >= 1
            assert len(row.blocks) == -(-(row.start + row.tokens) // page)
        written = Counter(p for row in rows for p in row.blocks[row.start // page :])
        assert all(count == 1 for count in written.values()), "two rows write one page"

    def check(self) -> None:
        """Pages, tree, slots and places."""
        self.check_pages()
        if self.scheduler.kv.tree is not None:
            self.check_tree()
        self.check_places()

    def check_pages(self) -> None:
        """Each page is free, the tree's, or exactly one request's own."""
        kv, page = self.scheduler.kv, self.config.page_size
        places = Counter(kv.pool)
        if kv.tree is not None:
            for node in walk(kv.tree.root):
                places.update(node.pages)
                assert node.length == len(node.pages) * page
        for r in self.reqs.values():
            own = r.cache_protected_len // page if r.pages else 0
            places.update(r.pages[own:])
            assert len(r.pages) == -(-r.kv_committed_len // page)
        assert places == Counter(range(1, self.config.num_pages + 1))

    def check_tree(self) -> None:
        """Locks are those of who holds memory, and the two counters are what is there."""
        tree = self.scheduler.kv.tree
        assert tree is not None
        locks: Counter[Node] = Counter()
        for r in self.reqs.values():
            node = r.last_node if r.pages else None
            if node is not None:
                table = r.pages[: r.cache_protected_len // self.config.page_size]
                assert tree.pages_to(node)[: len(table)] == table
            while node is not None and node.parent is not None:
                locks[node] += 1
                node = node.parent
        nodes = list(walk(tree.root))
        assert {n: n.lock_ref for n in nodes if n.lock_ref} == dict(locks)
        assert tree.protected == sum(n.length for n in nodes if n.lock_ref)
        assert tree.evictable == sum(n.length for n in nodes if not n.lock_ref)
        assert all(not n.lock_ref or n.parent in locks or n.parent is tree.root for n in nodes)

    def check_places(self) -> None:
        """Nobody is in two containers, and only in one is memory held."""
        scheduler = self.scheduler
        places = Counter(r.id for r in (*scheduler.waiting, *scheduler.running))
        if scheduler.chunked_req is not None:
            places[scheduler.chunked_req.id] += 1
        assert not [name for name, count in places.items() if count > 1]
        holding = 0
        for name, r in self.reqs.items():
            state = derived_state(r, scheduler)
            assert (state in HOLDING) == r.has_slot == bool(r.pages), (name, state)
            assert (name in scheduler.requests) == (r.finished is None and not r.abort_sent)
            holding += r.has_slot
            if state is State.LOST:
                assert name in scheduler.lost
                assert self.config.priority_preemption
                assert not self.config.fix22
        assert holding == scheduler.slots_taken <= self.config.max_running_requests

    @invariant()
    def outputs_are_in_order(self) -> None:
        """A token is delivered once, however often its request was thrown out."""
        for name, r in getattr(self, "reqs", {}).items():
            assert r.output_ids == [self.output(name, k) for k in range(r.num_output_tokens)]

    @precondition(lambda self: len(self.log.times) > 1)
    @rule()
    def the_log_tells_the_same(self) -> None:
        """Every iteration's end, and the present state, from the log alone."""
        *_, before, _ = rebuild(self.log)
        kv, scheduler = self.scheduler.kv, self.scheduler
        assert (before.free_end, before.evictable_end) == (kv.available, kv.evictable)
        assert before.ratio_end == scheduler.ratio.current
        for it in rebuild(self.log):
            assert it.free + it.evictable + it.protected <= self.config.max_total_tokens
            assert len(set(it.waiting) | set(it.running)) == len(it.waiting) + len(it.running)

    def teardown(self) -> None:
        """In the end everybody is done: finished, turned away, or lost by the named bug."""
        if not hasattr(self, "scheduler"):
            return
        for _ in range(3000):
            if not set(self.scheduler.requests) - self.scheduler.lost or not self.step():
                break
        assert set(self.scheduler.requests) <= self.scheduler.lost
        while self.flying:
            self.scheduler.update(*self.flying.pop(0))
        self.check()
        ended = Counter(e.event.id for e in self.log.entries if isinstance(e.event, Finish))
        assert all(ended[name] == 1 for name in self.reqs if name not in self.scheduler.lost)


SGLang.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestSGLang = pytest.mark.filterwarnings("ignore")(SGLang.TestCase)
