"""The loop: what a beginner's scheduler needs, in which order things happen, how a run ends."""

from __future__ import annotations

from typing import Any

import pytest

from kvsched import sglang
from kvsched.contract import TOKEN, WHOLE_SEQUENCE, Denial, Plan, Result
from kvsched.engine import Engine, Outcome, ScriptedExecutor, run
from kvsched.engine.loop import PATIENCE
from kvsched.errors import InputError
from kvsched.log import Abort, Arrive, Log, Preempt, Refuse
from kvsched.request import Request
from kvsched.sglang.events import Ratio
from kvsched.vllm import Config, Scheduler
from kvsched.workload import Arrival, Calendar, Cancel, ClosedLoop, Door


class Beginner:
    """Everybody decodes one token a step: a whole scheduler in twenty lines."""

    def __init__(self, most: int = 1_000_000) -> None:
        self.left: dict[str, int] = {}
        self.most = most
        self.calls: list[str] = []

    def add(self, request: Request) -> Denial | None:
        self.calls.append(f"add {request.id}")
        if request.max_tokens > self.most:
            return Denial(request.id, TOKEN, request.max_tokens, free=self.most)
        self.left[request.id] = request.max_tokens
        return None

    def abort(self, request_id: str) -> None:
        self.calls.append(f"abort {request_id}")
        self.left.pop(request_id, None)

    def schedule(self, now: int) -> Plan:
        self.calls.append(f"schedule {now}")
        return Plan(dict.fromkeys(self.left, 1))

    def update(self, plan: Plan, result: Result) -> None:
        self.calls.append(f"update {','.join(plan.scheduled)}")
        for name in result.tokens:
            if name in self.left:
                self.left[name] -= 1
                if self.left[name] <= 0:
                    del self.left[name]

    def has_work(self) -> bool:
        return bool(self.left)


def request(name: str, prompt: int = 4, out: int = 3) -> Request:
    return Request(name, ((100_000 * (1 + ord(name[0])), prompt),), out)


def small(log: Log, **knobs: Any) -> Scheduler:
    return Scheduler(
        Config(11, 4, max_num_seqs=8, max_num_batched_tokens=64, max_model_len=64, **knobs), log
    )


def recorded_again(recording: Any, log: Log) -> Outcome:
    """The requests of a recording, run to an end of our own instead of the recording's."""
    arrivals = [
        Arrival(
            r["arrival_step"],
            Request(
                r["id"], tuple((first, count) for first, count in r["prompt"]), r["max_tokens"]
            ),
        )
        for r in recording.requests
    ]
    return run(Scheduler(Config.from_dict(recording.config), log), arrivals, log)


class TestABeginnersScheduler:
    """Four methods and ``Plan({"a": 1})`` run to the end, in any workload."""

    def test_it_runs_to_the_end(self) -> None:
        outcome = run(Beginner(), [Arrival(0, request("a")), Arrival(1, request("b"))], Log())
        assert outcome == Outcome("all_done", steps=4, now=4)

    def test_each_step_adds_then_schedules_then_updates(self) -> None:
        beginner = Beginner()
        run(beginner, [Arrival(0, request("a", out=1))], Log())
        assert beginner.calls == ["add a", "schedule 0", "update a"]

    def test_with_lag_one_a_plan_is_updated_after_the_next_is_made(self) -> None:
        beginner = Beginner()
        engine = Engine(beginner, [Arrival(0, request("a"))], Log(), lag=1)
        for _ in range(3):
            engine.step()
        assert beginner.calls == [
            "add a", "schedule 0", "schedule 1", "update a", "schedule 2", "update a",
        ]  # fmt: skip

    @pytest.mark.parametrize("lag", [0, 1, 2])
    def test_every_lag_ends(self, lag: int) -> None:
        outcome = run(Beginner(), [Arrival(0, request("a"))], Log(), lag=lag)
        assert outcome.verdict == "all_done"

    def test_a_long_run_is_no_deadlock(self) -> None:
        outcome = run(Beginner(), [Arrival(0, request("a", out=1500))], Log())
        assert outcome == Outcome("all_done", steps=1500, now=1500)

    def test_its_own_refusal_is_logged(self) -> None:
        log = Log()
        outcome = run(Beginner(most=5), [Arrival(0, request("a", out=6))], log)
        assert outcome.verdict == "all_done"
        assert [entry.event for entry in log.entries] == [Refuse(Denial("a", TOKEN, 6, free=5))]


class TestOrderOfEvents:
    """Time, and what comes first when several things are due."""

    def test_arrivals_come_before_cancels_of_the_same_time(self) -> None:
        beginner = Beginner()
        events = [Cancel(0, "a"), Arrival(0, request("b")), Arrival(0, request("a"))]
        run(beginner, events, Log())
        assert beginner.calls[:4] == ["add b", "add a", "abort a", "schedule 0"]

    def test_one_that_idles_is_asked_once_before_the_jump(self) -> None:
        beginner = Beginner()
        beginner.idles = True  # type: ignore[attr-defined]
        events = [Arrival(5, request("a", out=1)), Arrival(70, request("b", out=1))]
        outcome = run(beginner, events, Log(), max_steps=2)
        assert outcome == Outcome("horizon", steps=2, now=70)
        outcome = run(beginner, events, Log())
        assert outcome == Outcome("all_done", steps=3, now=71)
        assert [c for c in beginner.calls if c.startswith("s")] == [
            "schedule 5", "schedule 6", "schedule 5", "schedule 6", "schedule 70",
        ]  # fmt: skip

    @pytest.mark.parametrize("lag", [0, 1])
    def test_with_a_pass_in_flight_it_jumps_too_and_resets_the_ratio(self, lag: int) -> None:
        """An empty batch in the queue is no reason to tick on until patience ends."""
        log = Log()
        asked = [Arrival(at, sglang.Request(f"r{at}", ((at, 8),), 4)) for at in (0, 5000)]
        outcome = run(sglang.Scheduler(sglang.Config(64), log), asked, log, lag=lag)
        assert outcome == Outcome("all_done", steps=9 + 4 * lag, now=5004 + 2 * lag)
        ratios = [round(entry.event.value, 3) for entry in log.of(Ratio)]
        assert ratios[3 + lag] == 0.7 > ratios[4 + lag]
        assert len(log.free_blocks) == outcome.steps - lag

    def test_an_idle_engine_jumps_to_the_next_arrival(self) -> None:
        beginner = Beginner()
        events = [Arrival(0, request("a", out=1)), Arrival(70, request("b", out=2))]
        outcome = run(beginner, events, Log())
        assert outcome == Outcome("all_done", steps=3, now=72)
        assert [c for c in beginner.calls if c.startswith("s")] == [
            "schedule 0", "schedule 70", "schedule 71",
        ]  # fmt: skip

    def test_the_log_has_the_time_of_every_step(self) -> None:
        log = Log()
        run(Beginner(), [Arrival(5, request("a", out=2))], log)
        assert log.times == [5, 6]

    def test_a_cancel_of_a_running_request_frees_its_blocks(self) -> None:
        log = Log()
        scheduler = small(log)
        run(scheduler, [Arrival(0, request("a", out=50)), Cancel(3, "a")], log)
        assert [entry.event for entry in log.of(Abort)] == [Abort("a", "RUNNING")]
        assert len(scheduler.snapshot(Plan()).free) == 10

    def test_a_clock_says_how_long_a_step_takes(self) -> None:
        class Slow:
            def duration(self, plan: Plan) -> int:
                return 10 * len(plan.scheduled)

        log = Log()
        events = [Arrival(0, request("a", out=1)), Arrival(0, request("b", out=2))]
        assert run(Beginner(), events, log, clock=Slow()).now == 30
        assert log.times == [0, 20]


class TestTheExecutor:
    """Tokens come from a script."""

    def test_a_token_for_each_sampling_request(self) -> None:
        executor = ScriptedExecutor({"a": 50, "": 9})
        plan = Plan({"a": 4, "b": 2, "c": 1}, sampling=["a", "c"])
        assert executor(plan).tokens == {"a": (50,), "c": (9,)}
        assert executor(plan).tokens == {"a": (51,), "c": (10,)}

    def test_a_plan_that_does_not_say_samples_everyone(self) -> None:
        assert ScriptedExecutor()(Plan({"a": 1})).tokens == {"a": (1_000_000,)}


class TestTheDoor:
    """The front end's check, if one is wanted, is made before the scheduler is asked."""

    def test_it_turns_away_by_name_what_can_never_be_served(self) -> None:
        log = Log()
        events = [Arrival(0, request("a", 37, 5)), Arrival(0, request("b", 36, 5))]
        outcome = run(small(log), events, log, door=Door(10, 4))
        assert outcome.verdict == "all_done"
        refusals = [entry.event.denial for entry in log.of(Refuse)]
        assert refusals == [Denial("a", WHOLE_SEQUENCE, need=11, free=10)]
        assert [entry.event.id for entry in log.of(Arrive)] == ["b"]
        assert not log.of(Preempt)

    @pytest.mark.parametrize("wait", [False, True])
    def test_a_cap_below_one_token_is_no_client_s(self, wait: bool) -> None:
        """The SamplingParams of vLLM refuse it; the scheduler alone would take it."""
        asked = request("a", 4, 0)
        with pytest.raises(InputError, match="request a: max_tokens is 0; allow >= 1 token"):
            ClosedLoop([asked], 1, Log()) if wait else Calendar([Arrival(0, asked)])
        assert small(Log()).add(asked) is None

    def test_without_a_door_the_twin_refuses_nobody(self) -> None:
        log = Log()
        outcome = run(small(log), [Arrival(0, request("a", 37, 5))], log, max_steps=50)
        assert not log.of(Refuse)
        assert outcome.verdict == "horizon"


class TestHowARunEnds:
    """Nothing runs for ever: the verdict says why it stopped and names who is stuck."""

    def test_the_horizon_is_exact(self) -> None:
        outcome = run(Beginner(), [Arrival(0, request("a", out=50))], Log(), max_steps=7)
        assert outcome == Outcome("horizon", steps=7, now=7)

    def test_an_empty_workload_is_done_at_once(self) -> None:
        assert run(Beginner(), [], Log()) == Outcome("all_done", steps=0, now=0)

    @pytest.mark.parametrize(
        ("name", "verdict"),
        [
            ("hol_too_big_forever", "deadlock"),
            ("outgrows_pool", "deadlock"),
            ("too_big_reserve_off", "deadlock"),
            ("too_big_reserve_off_nocache", "livelock"),
            ("exact_fit", "all_done"),
        ],
    )
    def test_verdicts_of_recorded_cases(self, case: Any, name: str, verdict: str) -> None:
        log = Log()
        assert recorded_again(case(name).recording, log).verdict == verdict
        if verdict == "livelock":
            assert len(log.of(Preempt)) > 300

    @pytest.mark.parametrize(
        ("name", "stuck"),
        [("hol_too_big_forever", {"huge", "s0"}), ("too_big_reserve_off_nocache", {"huge", "s0"})],
    )
    def test_all_who_are_stuck_are_named(self, case: Any, name: str, stuck: set[str]) -> None:
        assert set(recorded_again(case(name).recording, Log()).cycle) == stuck

    def test_holders_of_blocks_are_named_with_their_blocks(self) -> None:
        class Stuck(Scheduler):
            def running_tokens(self, r: Any, step: Any) -> int:
                return 0

        log = Log()
        scheduler = Stuck(Config(11, 4, max_num_seqs=8, max_num_batched_tokens=64), log)
        outcome = run(scheduler, [Arrival(0, request("a", 9)), Arrival(0, request("b", 4))], log)
        assert (outcome.verdict, outcome.cycle) == ("deadlock", {"a": 3, "b": 1})

    def test_a_long_prompt_in_small_chunks_is_progress(self) -> None:
        log = Log()
        config = Config(2000, 4, max_num_seqs=1, max_num_batched_tokens=1)
        outcome = run(Scheduler(config, log), [Arrival(0, request("a", 3000, 1))], log)
        assert outcome == Outcome("all_done", steps=3000, now=3000)

    def test_what_is_still_to_come_can_end_a_standstill(self) -> None:
        log = Log()
        events = [Arrival(0, request("huge", 50)), Arrival(0, request("s")), Cancel(1200, "huge")]
        outcome = run(small(log), events, log)
        assert outcome == Outcome("all_done", steps=PATIENCE + 3, now=1203)

    def test_what_is_far_off_is_waited_for_by_a_jump(self) -> None:
        """The second also waits behind the first, which can never come in."""
        log = Log()
        events = [Arrival(0, request("huge", 50)), Arrival(10**9, request("s"))]
        outcome = run(small(log), events, log)
        assert (outcome.verdict, outcome.steps) == ("deadlock", 2 * PATIENCE)
        assert outcome.now == 10**9 + PATIENCE
