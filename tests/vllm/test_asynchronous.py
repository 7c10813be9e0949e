"""Asynchronous scheduling: a step is decided before the last one's tokens are known."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kvsched import courses
from kvsched.conform import load
from kvsched.conform.replay import replay, replayed_steps, verdict
from kvsched.engine import Engine, run
from kvsched.errors import InputError
from kvsched.log import Defer, Deliver, Leave, Log, Preempt, Resume, Return, TakeIn
from kvsched.request import Request
from kvsched.steps import StepRecord, rebuild
from kvsched.vllm import AsyncScheduler, Config, Scheduler
from kvsched.vllm.status import PREEMPTED, RUNNING, STREAM
from kvsched.workload import Arrival

GOLDEN = Path(__file__).parents[1] / "golden"
SCHEDULER = "vllm/v1/core/sched/scheduler.py"
ASYNC = "vllm/v1/core/sched/async_scheduler.py"
OURS = "kvsched.vllm.asynchronous.AsyncScheduler"
POLICIES = ["fcfs", "priority"]

rule = partial(
    pytest.mark.rule, engine="vLLM", version="0.28.0", flag="async_scheduling", default="None"
)


def request(name: str, prompt: int, out: int) -> Request:
    return Request(name, ((100_000 * ord(name), prompt),), out)


def steps_of(*requests: Request, **knobs: Any) -> list[StepRecord]:
    """These requests alone on a small asynchronous engine."""
    log = Log()
    values = {
        "num_gpu_blocks": 13,
        "block_size": 4,
        "max_num_seqs": 8,
        "max_num_batched_tokens": 64,
    }
    config = Config(**{**values, "max_model_len": 64, "async_scheduling": True, **knobs})
    scheduler = AsyncScheduler(config, log)
    outcome = run(scheduler, [Arrival(0, r) for r in requests], log, lag=1)
    assert outcome.verdict == "all_done"
    return list(rebuild(log))


def victims(step: StepRecord) -> list[str]:
    return [event.id for event in step.of(Preempt)]


class TestPlaceholders:
    """A token being sampled counts as one that is there."""

    @rule(source=(f"{ASYNC}:19-49", f"{SCHEDULER}:1379"), ours=f"{OURS}.schedule")
    def test_the_next_pass_is_scheduled_before_the_token_is_known(self) -> None:
        """A step is scheduled while the last one runs; a token being sampled has a placeholder."""
        first, second, *_ = steps_of(request("a", 9, 3))
        assert (first.updated, first.emitted) == (None, {})
        assert (second.scheduled, second.updated, second.emitted) == ({"a": 1}, 0, {"a": 1})
        assert second.live["a"][1:6] == (10, 9, 0, 2, 10)
        assert second.live_end["a"][1:6] == (10, 10, 0, 1, 1)

    @rule(source=f"{SCHEDULER}:530-544", ours=f"{OURS}.last_token_in_flight")
    def test_the_last_token_is_not_scheduled_twice(self) -> None:
        """A request whose last allowed token is being sampled is not scheduled again."""
        steps = steps_of(request("a", 9, 3))
        assert [step.scheduled.get("a", 0) for step in steps[:4]] == [9, 1, 1, 0]
        assert sum(step.emitted.get("a", 0) for step in steps) == 3

    @rule(source=(f"{SCHEDULER}:530-544", f"{SCHEDULER}:1801-1807"), ours=f"{OURS}.take_in")
    def test_a_stop_token_costs_a_surplus_step(self, case2: Any) -> None:
        """A stop token cannot be foreseen: one more pass is scheduled and its output ignored."""
        steps = case2("async_eos_priority").steps
        sampled = sum(sum(step.sampling.values()) for step in steps)
        assert sampled > sum(sum(step.emitted.values()) for step in steps)

    @rule(source=f"{ASYNC}:51-69", ours=f"{OURS}.take_in")
    def test_a_block_gets_its_hash_when_its_last_token_is_there(self) -> None:
        """A block whose last token is in flight is hashed once that token is there."""
        steps = steps_of(request("a", 7, 2))
        assert [(step.cached, step.cached_end) for step in steps[:3]] == [(1, 1), (1, 1), (1, 2)]

    def test_everybody_gets_all_tokens(self) -> None:
        steps = steps_of(request("a", 9, 6), request("b", 3, 4))
        assert sum(sum(step.emitted.values()) for step in steps) == 10


class TestAVictimsOutput:
    """What was in flight when a request was thrown out."""

    @rule(source=(f"{SCHEDULER}:1366-1370", f"{SCHEDULER}:1801-1822"), ours=f"{OURS}.take_in")
    def test_it_is_delivered_to_a_request_that_does_not_run(self, case2: Any) -> None:
        """Output in flight at a preemption is still delivered, to a request that is PREEMPTED."""
        for step in case2("async_role_none_fcfs").steps:
            if victims(step):
                break
        [out] = victims(step)
        assert step.live[out].status == PREEMPTED.name
        assert step.live[out].num_stale_output_tokens == 1
        assert step.emitted[out] == 1

    @rule(source=f"{SCHEDULER}:683", ours="kvsched.vllm.scheduler.Scheduler.drops")
    def test_a_sender_drops_it(self, case2: Any) -> None:
        """With a KV connector that must deliver, a victim's token in flight is sampled again."""
        steps = case2("async_role_producer_fcfs").steps
        dropped = [step for step in steps if victims(step)]
        assert all(step.of(Deliver) == [Deliver(v, 0) for v in victims(step)] for step in dropped)

    def test_it_can_end_a_request_that_does_not_run(self, case2: Any) -> None:
        ends = {
            (step.live[i].status, i in step.live_end)
            for step in case2("async_finish_while_preempted_priority").steps
            for i in step.emitted
            if i in step.live
        }
        assert (PREEMPTED.name, False) in ends

    @rule(source=f"{SCHEDULER}:779-788", ours=f"{OURS}.find")
    def test_at_depth_three_it_holds_the_request_back(self, case2: Any) -> None:
        """A victim whose output is in flight is not admitted: only with three batches in flight."""
        held = [
            (i, step.step)
            for step in case2("async3_stale_skip_fcfs").steps
            for i in step.skipped
            if step.live[i].num_stale_output_tokens
        ]
        assert held == [("b", 7)]

    def test_at_depth_two_it_never_does(self, case2: Any) -> None:
        for name in ("async_cascade_priority", "async_preempt_fcfs", "async_seed_nocache"):
            case = case2(name)
            assert not any(step.skipped for step in case.steps)


class TestDeferredFrees:
    """A connector that receives keeps freed blocks until the pass in flight is back."""

    @pytest.mark.parametrize("policy", POLICIES)
    @rule(
        source=(f"{SCHEDULER}:148-157", f"{SCHEDULER}:2429-2466"),
        ours="kvsched.vllm.deferred.DeferringKVCacheManager",
    )
    def test_one_shortage_throws_everybody_out(self, case2: Any, policy: str) -> None:
        """With a KV consumer a victim yields no block in its step, so everybody is thrown out."""
        for step in case2(f"async_consumer_defer_{policy}").steps:
            if victims(step):
                break
        assert (step.step, len(victims(step)), step.running) == (6, 3, [])
        assert len(step.of(Defer)) == len(step.of(Return)) == 3
        assert {event.denial.free for event in step.of(Preempt)} == {step.free}

    @pytest.mark.parametrize("policy", POLICIES)
    def test_a_connector_of_both_roles_livelocks(self, golden2: Path, policy: str) -> None:
        """Nobody gets a block, and the tokens are dropped: the run never ends of itself."""
        outcome = verdict(load(golden2 / f"async_drop_livelock_{policy}.json.gz"))
        assert outcome.verdict == "livelock"
        assert outcome.cycle.keys() == {"a", "b", "c"}

    @pytest.mark.parametrize("role", ["consumer", "producer", "none"])
    def test_with_either_role_alone_the_same_load_ends(self, golden2: Path, role: str) -> None:
        for policy in POLICIES:
            outcome = verdict(load(golden2 / f"async_role_{role}_{policy}.json.gz"))
            assert outcome.verdict == "all_done"


class TestSessions:
    """Surplus output meets a session that has paused."""

    def test_a_session_gets_a_token_after_its_stop(self, case2: Any) -> None:
        late = [
            step
            for step in case2("async_session_eos_fcfs").steps
            if any(step.live.get(i) and step.live[i].status == STREAM.name for i in step.emitted)
        ]
        assert late

    @pytest.mark.parametrize("policy", POLICIES)
    def test_a_second_stop_hides_a_request_that_runs(self, golden2: Path, policy: str) -> None:
        """The session is counted twice and lost; the engine stops with ``a`` in RUNNING."""
        recording = load(golden2 / f"async_session_double_stop_{policy}.json.gz")
        outcome = verdict(recording)
        assert outcome.verdict == "deadlock"
        assert outcome.cycle["a"] > 0
        *_, last = replayed_steps(recording)
        assert not last.made
        assert last.live_end["a"].status == RUNNING.name

    def test_a_stop_on_stale_output_takes_it_out_of_every_queue(self, case2: Any) -> None:
        case = case2("async_session_lost_fcfs")
        [leave] = case.log.of(Leave)
        step = case.steps[leave.step]
        assert leave.event.id not in [*step.waiting_end, *step.skipped_end, *step.running_end]


class TestTheRecordings:
    """The same four prompts, scheduled either way."""

    def test_same_victim_same_hits_one_step_later(self, case2: Any) -> None:
        path = GOLDEN / "vllm" / "seed_a_finish6.json.gz"
        runs = [list(replayed_steps(load(path))), case2("async_seed_a_finish6").steps]
        out = [[(s.step, *victims(s)) for s in steps if victims(s)] for steps in runs]
        back = [[(s.step, e.id, e.computed) for s in steps for e in s.of(Resume)] for steps in runs]
        assert out == [[(1, "D")], [(1, "D")]]
        assert back == [[(6, "D", 8160)], [(7, "D", 8160)]]

    def test_facts_follow_from_the_configuration(self, golden2: Path) -> None:
        for name in ("async_role_consumer_fcfs", "async3_plain_fcfs", "spec_pard_fcfs", "fin_eos"):
            recording = load(golden2 / f"{name}.json.gz")
            config, facts = replay(recording).config, recording.facts
            assert config.defer_block_free == facts["defer_block_free"]
            assert config.requires_kv_delivery == facts["requires_kv_delivery"]
            assert config.max_concurrent_batches == facts["batch_queue"]
            assert config.num_lookahead_tokens == facts["num_lookahead_tokens"]
            assert config.draft_slots == facts["draft_slots"]


class TestTheLoop:
    """With a lag nothing is scheduled without work, and the queue of batches is emptied."""

    def test_every_batch_is_taken_in_once_and_in_order(self) -> None:
        log = Log()
        config = Config(13, 4, 8, 64, 64, async_scheduling=True)
        engine = Engine(AsyncScheduler(config, log), [Arrival(0, request("a", 5, 4))], log, lag=1)
        while not (engine.done and not engine.batches):
            engine.step()
        taken = [entry.event.step for entry in log.of(TakeIn)]
        assert taken == list(range(len(taken)))
        assert [step.made for step in rebuild(log)][-1] is False

    def test_readings_that_know_no_lag_refuse_its_log(self) -> None:
        log = Log()
        config = Config(13, 4, 8, 64, 64, async_scheduling=True)
        run(AsyncScheduler(config, log), [Arrival(0, request("a", 5, 4))], log, lag=1)
        with pytest.raises(InputError, match="synchronous"):
            courses.read(log)

    def test_the_synchronous_scheduler_is_untouched_by_its_knobs(self) -> None:
        log = Log()
        run(Scheduler(Config(13, 4, 8, 64, 64), log), [Arrival(0, request("a", 5, 4))], log)
        assert all(step.updated == step.step for step in rebuild(log))
