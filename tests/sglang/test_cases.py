"""Public cases about SGLang, each with the numbers of its thread. ``[chosen]``: ours."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kvsched import cases, vllm
from kvsched.contract import RESERVATION, Denial
from kvsched.engine import Engine
from kvsched.log import Admit, Deny, Finish, Log, Preempt
from kvsched.request import Request
from kvsched.sglang import Config, Scheduler, State, derived_state, rebuild
from kvsched.sglang import Request as Own
from kvsched.sglang.events import Full, Offer, Retract
from kvsched.sglang.ignore_eos import Adder
from kvsched.sglang.ratio import NewTokenRatio
from kvsched.sglang.retract import OUT_OF_MEMORY
from kvsched.sglang.retraction_lines import between, retractions
from kvsched.workload import Arrival

LOGS = Path(__file__).parents[2] / "labs" / "data" / "logs"
rule = partial(pytest.mark.rule, engine="SGLang", version="0.5.18")
SRT = "python/sglang/srt"
POLICY = f"{SRT}/managers/schedule_policy.py"
TRACKER = f"{SRT}/managers/scheduler_components/new_token_ratio_tracker.py"


def many(count: int, prompt: int, out: int, **fields: Any) -> list[Request]:
    """Requests that share no token."""
    return [Own(f"r{i}", ((10**6 * i, prompt),), out, **fields) for i in range(count)]


def engine(config: Config, requests: list[Request]) -> tuple[Engine, Scheduler]:
    log = Log()
    scheduler = Scheduler(config, log)
    return Engine(scheduler, [Arrival(0, r) for r in requests], log), scheduler


class TestCase21:
    """sglang issue 4184: ratio 0.1919 at one retraction, 0.1207 at the next, six seconds later."""

    @rule(flag="schedule_conservativeness", default=1.0, source=f"{TRACKER}:20-32")
    def test_case_21_floor_and_slope(self) -> None:
        """At the defaults the ratio falls by 0.0010033 a decode step, down to 0.098."""
        ratio = NewTokenRatio(Config(1000))
        assert ratio.min == pytest.approx(0.098, abs=1e-15)
        assert ratio.decay == pytest.approx(0.602 / 600, abs=1e-15)

    def test_case_21_two_log_lines_give_the_step_time(self) -> None:
        """The retracting step decodes and does not decay; both times are cut to the second."""
        text = (LOGS / "104-sglang-decode-oom-tp16.log").read_text(encoding="utf-8")
        found = between(*retractions(text)[1:])
        assert found.decays == (71, 71)
        assert found.steps == (72, 72)
        assert [round(1000 * bound) for bound in found.step_seconds] == [69, 97]

    def test_case_21_the_floor_is_reached_in_87_steps(self) -> None:
        ratio = NewTokenRatio(Config(1000))
        ratio.current = 0.1845
        steps = 0
        while ratio.current > ratio.min:
            ratio.decay_step()
            steps += 1
        assert steps == 87

    @rule(
        flag="schedule_conservativeness",
        default=1.0,
        source=f"{SRT}/managers/scheduler.py:3481-3554",
        ours="kvsched.sglang.Scheduler.after_fit",
    )
    def test_case_21_the_retracting_step_runs_and_does_not_decay(self, drive: Any) -> None:
        """Only decode passes whose memory check holds let the ratio decay."""
        run = drive(max_total_tokens=60, schedule_conservativeness=0.1)
        for name in "AB":
            run.add(name, 4, 40)
        iterations = run.steps(36)
        (retracting,) = [it for it in iterations if it.of(Retract)]
        (event,) = retracting.of(Retract)
        assert retracting.kind == "decode"
        assert retracting.ratio == event.ratio
        before, after = iterations[retracting.step - 1], iterations[retracting.step + 1]
        assert before.ratio == iterations[retracting.step - 2].ratio - run.scheduler.ratio.decay
        assert after.ratio == event.ratio - run.scheduler.ratio.decay


class TestCase22:
    """sglang issue 7133: running stops far below what the clip would let in."""

    @rule(
        flag="disable_radix_cache",
        default=False,
        source=f"{POLICY}:1065-1199",
        ours="kvsched.sglang.ignore_eos.Adder.add_ignore_eos",
    )
    @pytest.mark.parametrize("clip", [512, 4096])
    def test_case_22_the_plateau_is_full_reservation_whatever_the_clip(self, clip: int) -> None:
        """Without a radix cache, requests that ignore EOS are admitted by their whole length."""
        assert cases.plateau(cases.ignoring_eos(clip)) == 4_000_000 // (2048 + 8192) == 390

    def test_case_22_the_clip_works_where_eos_may_come(self) -> None:
        assert cases.plateau(cases.ignoring_eos(512, ignore_eos=False)) == 1024


class TestCase23:
    """sglang-omni PR 2073: the clip alone decides between 7 and 64."""

    @rule(
        flag="SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION",
        default=4096,
        source=f"{POLICY}:1219-1226",
        ours="kvsched.sglang.adder.PrefillAdder.charge",
    )
    @pytest.mark.parametrize(("clip", "admitted"), [(4096, 7), (256, 64)])
    def test_case_23_clip(self, clip: int, admitted: int) -> None:
        """A request reserves its outputs up to the clip: 4096 admits 7, 256 admits 64."""
        assert len(cases.clip_of_outputs(clip).engine().step().admitted) == admitted

    def test_case_23_a_ratio_of_1_is_safe_as_far_as_the_clip_sees(self) -> None:
        """Held at 1.0 it lets in more than memory holds, where answers outgrow the clip."""
        case = cases.clip_of_outputs(256, answer=512)
        log, _ = case.turned(schedule_conservativeness=1.5, min_new_token_ratio_factor=1.0).run()
        (first, *_), out = log.of(Retract), log.of(Preempt)
        assert first.event.ratio < 1.0
        assert len(out) == 12

    @rule(
        flag="enable_priority_scheduling",
        default=False,
        source=f"{SRT}/managers/scheduler.py:3198-3205",
        ours="kvsched.sglang.Scheduler.new_prefill_batch",
    )
    def test_case_23_nobody_is_tried_until_somebody_leaves(self) -> None:
        """After NO_TOKEN nobody is tried until one leaves; priority preemption clears the flag."""
        case = cases.clip_of_outputs(4096, answer=512)
        tried = {}
        for priority in (False, True):
            engine = case.turned(enable_priority_scheduling=priority).engine()
            while not engine.log.of(Finish):
                engine.step()
            tried[priority] = [entry.step for entry in engine.log.of(Offer)]
            assert len(engine.log.of(Admit)) == (26 if priority else 9)
        assert set(tried[False]) == {0, 1}
        assert set(tried[True]) == set(range(engine.steps))


class TestCase26:
    """sglang issue 23365: one request is left, and nobody to take memory from."""

    @rule(
        flag="",
        default=None,
        source=f"{SRT}/managers/schedule_batch.py:2838-2855",
        ours="kvsched.sglang.Scheduler.retract_decode",
    )
    def test_case_26_sglang_aborts_the_last_survivor(self, drive: Any) -> None:
        """The last request whose next token does not fit is aborted, and not queued again."""
        run = drive(max_total_tokens=32)
        a = run.add("A", 8, 16)
        run.steps(2)
        run.scheduler.kv.pool.take(len(run.scheduler.kv.pool) - 2)  # memory goes elsewhere
        iterations = run.steps(4)
        ended = [event for it in iterations for event in it.finished]
        assert [(event.id, event.status, event.reason) for event in ended] == [
            ("A", "FINISH_ABORT", OUT_OF_MEMORY)
        ]
        assert derived_state(a, run.scheduler) is State.OOM_ABORTED
        assert not run.scheduler.has_work()
        last = next(it for it in iterations if it.finished)
        assert (last.kind, last.ratio) == ("idle", 0.0)

    def test_case_26_the_next_decode_lifts_the_ratio_from_zero_to_the_floor(
        self, drive: Any
    ) -> None:
        run = drive(max_total_tokens=32, schedule_conservativeness=1.0)
        run.add("A", 8, 16)
        run.steps(2)
        run.add("B", 8, 4)
        ballast = run.scheduler.kv.pool.take(len(run.scheduler.kv.pool))
        assert run.step().ratio == 0.0
        run.scheduler.kv.pool.give(ballast)
        assert run.step().kind == "extend"
        assert run.step().ratio == run.scheduler.ratio.min

    def test_case_26_vllm_does_not_schedule_it(self) -> None:
        log = Log()
        scheduler = vllm.Scheduler(
            vllm.Config(num_gpu_blocks=4, block_size=4, max_model_len=64), log
        )
        run = Engine(scheduler, [Arrival(0, Request("A", ((0, 12),), 16))], log)
        plans = [run.step() for _ in range(5)]
        assert [plan.scheduled for plan in plans] == [{"A": 12}, {}, {}, {}, {}]
        assert [e.id for e in scheduler.waiting] == ["A"]


class TestCase28:
    """sglang issue 28530: a request of exactly the supply is refused, and all behind it starve."""

    PAGE, POOL, PROMPT = 16, 160, 33

    class Lenient(Adder):
        """What if the test were ``>``?"""

        def refuses(self, wanted: int) -> bool:
            return wanted > self.total_left

    @rule(
        flag="page_size",
        default=1,
        source=f"{POLICY}:1236-1237",
        ours="kvsched.sglang.adder.PrefillAdder.refuses",
    )
    def test_case_28_equal_is_refused_for_ever(self, drive: Any) -> None:
        """Admission asks for less than what is there: a need equal to the supply waits for ever."""
        run = self.prepared(drive, Adder, 0)
        iterations = run.steps(200)
        assert all(it.kind == "idle" for it in iterations)
        assert iterations[-1].waiting == ["A", "B"]
        denial = Denial("A", RESERVATION, need=160, free=160, reserved=1)
        assert [it.of(Deny) for it in iterations if it.of(Deny)] == [[Deny(denial)]]
        assert (denial.asked, denial.limit) == (160, 159)

    def test_case_28_equal_is_admitted_by_greater(self, drive: Any) -> None:
        run = self.prepared(drive, self.Lenient, 0)
        assert {event.id for it in run.finish() for event in it.finished} == {"A", "B"}

    def test_case_28_one_token_less_is_admitted(self, drive: Any) -> None:
        run = self.prepared(drive, Adder, 1)
        assert {event.id for it in run.finish() for event in it.finished} == {"A", "B"}

    def test_case_28_the_cut_at_arrival_leaves_that_token(self, drive: Any) -> None:
        """0.5.18 takes one output more than the page away from what is allowed."""
        run = drive(max_total_tokens=self.POOL, page_size=self.PAGE)
        asked = run.add("A", 32, 10_000)
        assert 32 + asked.max_new_tokens + self.PAGE == self.POOL - 1
        run.finish()

    def prepared(self, drive: Any, adder: type[Adder], less: int) -> Any:
        run = drive(max_total_tokens=self.POOL, page_size=self.PAGE)
        run.scheduler.adder_class = adder
        first = run.add("A", self.PROMPT, 1)
        first.max_new_tokens = self.POOL - self.PROMPT - self.PAGE - less
        run.add("B", 4, 4)
        return run


class TestCase30:
    """sglang issue 14972: in the overlap loop a pass is in flight when its request is retracted."""

    @pytest.fixture
    def run(self, drive: Any) -> Any:
        """Two grow until one must go; a third waits."""
        run = drive(lag=1, max_total_tokens=40)
        for name in "ABC":
            run.add(name, 8, 20)
        return run

    @rule(
        flag="disable_overlap_schedule",
        default=False,
        source=f"{SRT}/managers/scheduler_components/batch_result_processor.py:850-855",
        ours="kvsched.sglang.Scheduler.update",
    )
    def test_case_30_the_token_in_flight_is_dropped(self, run: Any) -> None:
        """A request retracted while its pass runs loses that token, and computes it again."""
        iterations = run.steps(15)
        (it,) = [it for it in iterations if it.preempted]
        assert [event.id for event in it.preempted] == ["B"]
        assert run.plans[it.step - 1].scheduled == {"A": 1, "B": 1}, "that pass is still in flight"
        assert it.emitted == ["A"]
        assert run.reqs["B"].output_ids == [run.token("B", k) for k in range(12)]
        run.finish()
        for name, r in run.reqs.items():
            assert r.output_ids == [run.token(name, k) for k in range(20)]

    def test_case_30_as_the_chapter_runs_it(self) -> None:
        log = cases.retracted_in_flight()
        (it,) = [it for it in rebuild(log) if it.of(Retract)]
        assert ([e.id for e in it.preempted], it.dropped) == (["B"], ["B"])
        assert {e.event.id for e in log.of(Finish)} == {"A", "B", "C"}

    def test_case_30_pages_are_not_reused_before_the_boundary(self, run: Any) -> None:
        """What the pass in flight writes is handed out, at the earliest, to the next pass."""
        scheduler, kv = run.scheduler, run.scheduler.kv
        flying: set[int] = set()
        retracted_in_flight = 0
        while scheduler.has_work() and len(run.log.times) < 500:
            free = set(kv.pool)
            assert not flying & free, "a page is free that the pass in flight writes"
            held = {r.id: set(r.pages) for r in run.reqs.values()}
            everyone = free.union(*held.values())
            tree = set(range(1, 41)) - everyone
            plan = scheduler.schedule(run.log.step)
            written = [p for row in plan.rows for p in row.blocks[row.start :][: row.tokens]]
            assert len(written) == len(set(written)), "two rows write the same page"
            given_back = set().union(*(held[name] for name in plan.victims))
            assert set(written) <= free | tree | given_back, "a page of somebody who stays"
            retracted_in_flight += bool(flying & given_back)
            run.flying.append((plan, run.run(plan)))
            if len(run.flying) > 1:
                scheduler.update(*run.flying.pop(0))
            flying = set(written)
            run.log.begin(len(run.log.times), len(run.log.times))
        assert retracted_in_flight > 0


class TestCase32:
    """sglang issue 1947: four requests of 1,000 tokens in a server of 8,000, and only three run."""

    @rule(
        flag="schedule_conservativeness",
        default=1.0,
        source=f"{POLICY}:1366-1378",
        ours="kvsched.sglang.adder.PrefillAdder.deduct",
    )
    def test_case_32_three_run(self) -> None:
        """A pass charges prompt, outputs and a page for each request it admits: three, not four."""
        first = cases.three_of_four().engine().step()
        assert len(first.admitted) == 3
        (denial,) = first.denials
        assert denial == Denial("r3", RESERVATION, need=2001, free=5000 + 3000, reserved=6004)

    @pytest.mark.parametrize(
        ("outputs", "knobs", "own"),
        [
            (1000, {"disable_radix_cache": True}, {"ignore_eos": True}),
            (1000, {"schedule_conservativeness": 1.5, "page_size": 16}, {}),
            (1300, {}, {}),
        ],
        ids=["the reservation is whole", "the ratio is 1", "the outputs are longer"],
    )
    def test_case_32_three_run_until_one_ends(
        self, outputs: int, knobs: dict[str, Any], own: dict[str, Any]
    ) -> None:
        """So it stays where the second pass refuses as well: its full flag is the batch's."""
        run, scheduler = engine(Config(8000, **knobs), many(4, 1000, outputs, **own))
        run.step()
        for _ in range(outputs - 1):
            assert not run.log.of(Finish)
            run.step()
            assert len(scheduler.running) == 3
        assert len(run.log.of(Finish)) == 3

    @pytest.mark.parametrize(("outputs", "joins"), [(1000, True), (1290, True), (1291, False)])
    def test_case_32_the_fourth_joins_in_the_next_pass_where_a_share_leaves_room(
        self, outputs: int, joins: bool
    ) -> None:
        """The full flag of the first pass was the empty running batch's, and goes with it.

        From then on each of the three reserves 0.7 of its outputs.
        """
        run = cases.three_of_four(outputs).engine()
        assert len(run.step().admitted) == 3
        assert [entry.event.full for entry in run.log.of(Full)] == [True]
        assert run.step().admitted == (["r3"] if joins else [])
