"""Public cases by number: what somebody reported, and what the twin makes of it."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from kvsched import cases, invariants
from kvsched.contract import WHOLE_SEQUENCE, Denial, Plan
from kvsched.engine import Engine, run
from kvsched.log import Admit, Deny, Finish, Log, Preempt, Refuse, Resume
from kvsched.request import Request
from kvsched.vllm import Config, Scheduler
from kvsched.workload import Arrival, Cancel, Door, WorkloadEvent


class TestCase4:
    """Cases 4 and 6: without the whole-sequence gate a fifth long prompt comes in too early.

    Its first chunk fits, its prefill does not, it is thrown out, and its first chunk fits again.
    """

    def test_case_4_gate_and_cache_off_it_is_thrown_out_again_and_again(self) -> None:
        log, outcome = cases.fifth_prompt(gate=False, caching=False).run()
        victims = Counter(entry.event.id for entry in log.of(Preempt))
        assert outcome.verdict == "all_done"
        assert set(victims) == {"E"}
        assert victims["E"] >= 100

    @pytest.mark.parametrize("caching", [True, False])
    def test_case_6_with_the_gate_on_it_waits(self, caching: bool) -> None:
        log, _ = cases.fifth_prompt(gate=True, caching=caching).run()
        assert not log.of(Preempt)
        admitted = {entry.event.id: entry.step for entry in log.of(Admit)}
        assert admitted["E"] == log.of(Finish)[0].step + 1

    def test_case_6_gate_off_and_cache_on_it_is_thrown_out_once_and_stalls(self) -> None:
        log, _ = cases.fifth_prompt(gate=False, caching=True).run()
        ((out,), (back,)) = log.of(Preempt), log.of(Resume)
        assert out.event.id == back.event.id == "E"
        assert back.step == log.of(Finish)[0].step + 1


class TestCase7:
    """vllm issue 39734: a 100k request in a pool of 4,790 blocks waits for ever, first in line."""

    CONFIG = Config(num_gpu_blocks=4791, block_size=16, max_model_len=262_144)
    EVENTS = (
        Arrival(0, Request("large", ((0, 100_000),), 100)),
        Arrival(1, Request("next", ((200_000, 100),), 4)),
    )
    REFUSAL = Denial("large", WHOLE_SEQUENCE, need=6250, free=4790)

    def test_case_7_the_twin_waits_for_ever_and_blocks_the_next(self) -> None:
        log = Log()
        scheduler = Scheduler(self.CONFIG, log)
        assert run(scheduler, self.EVENTS, log).verdict == "deadlock"
        assert not log.of(Admit)
        assert scheduler.snapshot(Plan()).containers["waiting"] == ["large", "next"]
        assert [entry.event for entry in log.of(Deny)] == [Deny(self.REFUSAL)]

    def test_case_7_the_front_door_refuses_it_by_name(self) -> None:
        log = Log()
        door = Door(usable_blocks=4790, block_size=16)
        outcome = run(Scheduler(self.CONFIG, log), self.EVENTS, log, door=door)
        assert outcome.verdict == "all_done"
        (refusal,) = log.of(Refuse)
        assert refusal.event.denial == self.REFUSAL._replace(need=6257)
        assert [entry.event.id for entry in log.of(Admit)] == ["next"]


class TestCase11:
    """32 requests of at most 128 tokens, in two sizes of pool."""

    @pytest.mark.parametrize(("blocks", "preempts"), [(136, True), (779, False)])
    def test_case_11_a_pool_below_their_sum_preempts(self, blocks: int, preempts: bool) -> None:
        log, outcome = cases.small_pool(blocks).run()
        assert outcome.verdict == "all_done"
        assert bool(log.of(Preempt)) is preempts


class TestCase12:
    """Four slots, two running, one waiting for capacity."""

    def test_case_12_blocks_bind_while_slots_are_free(self) -> None:
        case = cases.free_slots()
        log, _ = case.run()
        refused = [e for e in log.of(Deny) if e.event.denial.test == WHOLE_SEQUENCE]
        admitted = {entry.event.id: entry.step for entry in log.of(Admit)}
        finished = {entry.event.id: entry.step for entry in log.of(Finish)}
        assert refused
        for entry in refused:
            denial = entry.event.denial
            running = [i for i in admitted if admitted[i] <= entry.step <= finished[i]]
            assert denial.id == "r02"
            assert denial.asked > denial.limit
            assert len(running) == 2 < case.config.max_num_seqs


class TestCase33:
    """ai-dynamo/dynamo issue 9718: a simulator that let waiting requests preempt runners."""

    def test_case_33_no_waiting_request_preempts_in_any_recording(self, survey: Any) -> None:
        assert survey.counts["preemptions"] == 2260
        assert [found for found in survey.wrong if "evicts" in found] == []

    @pytest.mark.parametrize("name", ["cascade_fcfs", "cascade_priority", "prio_refund_budget"])
    def test_case_33_nor_in_the_twin(self, case: Any, name: str) -> None:
        log = case(name).log
        assert log.of(Preempt)
        assert invariants.waiting_never_preempts(log) is None

    def test_case_33_no_waiting_request_preempts_in_random_runs(self) -> None:
        preemptions = 0
        for seed in range(60):
            log = random_run(random.Random(seed))
            assert invariants.waiting_never_preempts(log) is None
            preemptions += len(log.of(Preempt))
        assert preemptions > 500


class TestCase42:
    """LMCache issue 1969: 10 blocks of 16, cache off, two prompts of 34 tokens, 35 new ones."""

    def test_case_42_exactly_one_preemption_at_the_predicted_step(self) -> None:
        log = Log()
        config = Config(10, 16, enable_prefix_caching=False)
        requests = [Arrival(0, Request(name, ((0, 34),), 35)) for name in "AB"]
        assert run(Scheduler(config, log), requests, log).verdict == "all_done"
        # Step k writes position 33 + k. Four blocks of 16 are full after position 63; the ninth
        # usable block goes to A, and B fails.
        predicted = 64 - 33
        assert [(e.step, e.event.id) for e in log.of(Preempt)] == [(predicted, "B")]
        assert [(e.step, e.event.tokens) for e in log.of(Resume)] == [(35, 34 + predicted)]

    def test_case_42_one_more_block_and_nobody_is_preempted(self) -> None:
        log = Log()
        requests = [Arrival(0, Request(name, ((0, 34),), 35)) for name in "AB"]
        run(Scheduler(Config(11, 16, enable_prefix_caching=False), log), requests, log)
        assert not log.of(Preempt)


class TestCase44:
    """vllm PR 42827: operators want to see who was evicted and how much was lost."""

    def test_case_44_the_event_says_who_what_was_lost_and_how_often(self, drive: Any) -> None:
        run = drive(enable_prefix_caching=False)
        run.add("A", 15)
        run.add("B", 15)
        run.steps(3)
        (entry,) = run.log.of(Preempt)
        event = entry.event
        assert (entry.step, event.id, event.tokens_lost) == (2, "B", 16)
        assert (event.free_before, event.free_after) == (0, 4)
        assert (event.preemptions, event.refunded) == (1, 0)

    def test_case_44_the_numbers_are_those_of_the_steps(self, case: Any) -> None:
        count: Counter[str] = Counter()
        for before, now in pairwise(case("cascade_priority").steps):
            for event in now.of(Preempt):
                count[event.id] += 1
                assert event.preemptions == count[event.id]
                assert event.tokens_lost == before.live_end[event.id].num_computed_tokens
        assert sum(count.values()) == 52

    def test_case_44_and_why(self, drive: Any) -> None:
        run = drive()
        run.add("A", 16)
        run.add("B", 16)
        step = run.steps(2)[-1]
        (event,) = step.of(Preempt)
        assert event.denial == Denial("A", "block", need=1, have=4)


def random_run(rng: random.Random) -> Log:
    """A tight pool, a few dozen requests, some cancelled."""
    log = Log()
    config = Config(
        num_gpu_blocks=rng.randint(8, 20),
        block_size=rng.randint(1, 4),
        max_num_seqs=8,
        max_num_batched_tokens=rng.randint(8, 40),
        max_model_len=64,
        policy=rng.choice(["fcfs", "priority"]),
        watermark=rng.choice([0.0, 0.1]),
        enable_prefix_caching=rng.random() < 0.5,
        scheduler_reserve_full_isl=rng.random() < 0.5,
    )
    events: list[WorkloadEvent] = []
    for i in range(30):
        prompt = ((rng.choice([0, 1000 * i]), rng.randint(1, 12)),)
        request = Request(f"r{i}", prompt, rng.randint(1, 12), rng.randint(0, 3), rng.randint(0, 2))
        events.append(Arrival(rng.randint(0, 40), request))
        if rng.random() < 0.1:
            events.append(Cancel(rng.randint(0, 60), f"r{i}"))
    engine = Engine(Scheduler(config, log), events, log)
    while not engine.done and engine.steps < 300:
        engine.step()
    return log
