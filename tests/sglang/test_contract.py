"""The one contract: who comes, who goes, what a plan says, and how a run ends."""

from __future__ import annotations

from typing import Any

import pytest

from kvsched.contract import POLICY, RESERVATION, SLOT, TOKEN, Close, Denial
from kvsched.engine import Engine, run
from kvsched.errors import InputError
from kvsched.log import Abort, Admit, Allocate, Deny, Finish, Level, Log, Preempt, Resume
from kvsched.request import Request, Stop
from kvsched.sglang import Config, Scheduler, State, derived_state, rebuild
from kvsched.sglang import Request as Own
from kvsched.sglang.events import Sorted
from kvsched.sglang.req import Req
from kvsched.workload import Arrival, Cancel


def prompts(count: int, prompt: int, out: int) -> list[Arrival]:
    return [Arrival(i, Request(f"r{i}", ((1000 * i, prompt),), out)) for i in range(count)]


class TestTheDoor:
    """What is refused before it is queued: only what no scheduler could name or compute."""

    def test_an_id_in_use(self, drive: Any) -> None:
        driven = drive()
        driven.add("A", 4)
        with pytest.raises(InputError, match="the id is in use"):
            driven.scheduler.add(Request("A", ((0, 4),), 4))

    def test_an_id_comes_again_after_its_end(self, drive: Any) -> None:
        driven = drive()
        driven.add("A", 4, 2)
        driven.finish()
        assert driven.scheduler.add(Request("A", ((0, 4),), 4)) is None

    def test_an_empty_prompt(self, drive: Any) -> None:
        with pytest.raises(InputError, match="the prompt is empty"):
            drive().scheduler.add(Request("A", (), 4))

    def test_a_request_larger_than_the_pool_is_queued_and_waits(self, drive: Any) -> None:
        driven = drive()
        driven.add("A", 100)
        driven.add("B", 4)
        assert driven.steps(50)[-1].waiting == ["A", "B"]

    def test_orders(self, drive: Any) -> None:
        with pytest.raises(InputError, match="order Close"):
            drive().scheduler.control(Close("A"))

    @pytest.mark.parametrize(
        ("knobs", "names"),
        [
            ({"page_size": 0}, "page_size"),
            ({"page_size": 128}, "max_total_tokens"),
            ({"schedule_policy": "sjf"}, "schedule_policy"),
            ({"retraction_policy": "lifo"}, "retraction_policy"),
            ({"max_running_requests": True}, "max_running_requests"),
            ({"schedule_conservativeness": -1.0}, "schedule_conservativeness"),
            ({"chunked_prefill_size": "16"}, "chunked_prefill_size"),
        ],
    )
    def test_a_value_no_scheduler_could_run_with(self, knobs: Any, names: str) -> None:
        with pytest.raises(InputError, match=rf"^{names}: "):
            Config(**{"max_total_tokens": 64, **knobs})

    def test_a_configuration_from_a_mapping(self) -> None:
        assert Config.from_dict({"max_total_tokens": 64}) == Config(64)
        with pytest.raises(InputError, match=r"^pages: unknown"):
            Config.from_dict({"max_total_tokens": 64, "pages": 1})
        with pytest.raises(InputError, match=r"^max_total_tokens: missing"):
            Config.from_dict({})

    def test_outputs_are_cut_once_at_arrival(self) -> None:
        config = Config(160, page_size=16, context_length=60)
        cut = {n: Req(Request("A", ((0, n),), 1000), config).max_new_tokens for n in (1, 33, 50)}
        assert cut == {1: 57, 33: 25, 50: 8}
        assert Req(Request("A", ((0, 33),), 1000), Config(160, page_size=16)).max_new_tokens == 95


class TestAbort:
    """A client gives up, in every state."""

    def after(self, driven: Any, name: str = "A") -> tuple[str | None, State]:
        """Abort; run to the end; the state logged, and the one it ends in."""
        driven.abort(name)
        (event,) = [e.event for e in driven.log.entries if isinstance(e.event, Abort)]
        for _ in range(60):
            driven.step()
        assert name not in driven.scheduler.requests
        kv = driven.scheduler.kv
        assert kv.available + kv.evictable == driven.scheduler.config.max_total_tokens
        assert driven.scheduler.slots_taken == 0
        ends = [e.event for e in driven.log.entries if isinstance(e.event, Finish)]
        assert [e.id for e in ends].count(name) == 1
        return event.status, derived_state(driven.reqs[name], driven.scheduler)

    def test_an_unknown_id(self, drive: Any) -> None:
        driven = drive()
        driven.abort("nobody")
        assert [e.event for e in driven.log.entries] == [Abort("nobody", None)]

    def test_waiting(self, drive: Any) -> None:
        driven = drive()
        driven.add("A", 4)
        assert self.after(driven) == ("WAITING", State.GONE)

    @pytest.mark.parametrize("lag", [0, 1])
    def test_running_ends_with_the_next_token(self, drive: Any, lag: int) -> None:
        driven = drive(lag=lag)
        r = driven.add("A", 4, 30)
        driven.steps(4)
        before = r.num_output_tokens
        assert self.after(driven) == ("RUNNING", State.FINISHED)
        assert r.num_output_tokens == before + 1
        assert r.finished == "FINISH_ABORT"

    def test_prefilled(self, drive: Any) -> None:
        driven = drive(lag=1)
        driven.add("A", 4, 30)
        driven.step()
        assert self.after(driven) == ("PREFILLED", State.FINISHED)

    @pytest.mark.parametrize("lag", [0, 1])
    def test_chunking_ends_before_the_next_pass(self, drive: Any, lag: int) -> None:
        driven = drive(lag=lag, chunked_prefill_size=8)
        r = driven.add("A", 40)
        driven.steps(2)
        assert self.after(driven) == ("CHUNKING", State.GONE)
        assert r.num_output_tokens == 0

    @pytest.mark.parametrize("lag", [0, 1])
    def test_retracted(self, drive: Any, lag: int) -> None:
        driven = drive(lag=lag, max_total_tokens=40)
        driven.add("B", 8, 20)
        driven.add("A", 8, 20)
        while not driven.log.of(Preempt) and len(driven.plans) < 100:
            driven.step()
        assert self.after(driven) == ("RETRACTED", State.GONE)

    def test_riding_in_a_mixed_pass(self, drive: Any) -> None:
        driven = drive(lag=1, chunked_prefill_size=16, enable_mixed_chunk=True)
        driven.add("A", 8, 30)
        driven.steps(3)
        driven.add("B", 8, 2)
        assert driven.step().kind == "mixed"
        assert self.after(driven) == ("RUNNING_MIXED", State.FINISHED)

    def test_lost(self, drive: Any) -> None:
        driven = lossy(drive)
        driven.steps(2)
        driven.abort("B")
        driven.abort("A")
        states = [e.event.status for e in driven.log.entries if isinstance(e.event, Abort)]
        assert states == ["WAITING", "LOST"]
        assert not driven.scheduler.has_work()


def lossy(drive: Any) -> Any:
    """B is let in for a place, and refused for its prompt."""
    driven = drive(
        max_total_tokens=100,
        max_running_requests=1,
        enable_priority_scheduling=True,
        schedule_low_priority_values_first=True,
        priority_scheduling_preemption_threshold=0,
    )
    driven.add("A", 30, 20, priority=9)
    driven.steps(3)
    driven.add("B", 90, 20, priority=0).max_new_tokens = 20
    return driven


class TestPlan:
    """What a plan says."""

    def test_a_chunk_that_is_not_the_last_samples_nothing(self, drive: Any) -> None:
        driven = drive(chunked_prefill_size=16)
        driven.add("A", 20, 4)
        driven.steps(2)
        assert [plan.sampling for plan in driven.plans] == [[], ["A"]]
        assert [plan.kind for plan in driven.plans] == ["extend", "extend"]
        assert [plan.scheduled for plan in driven.plans] == [{"A": 16}, {"A": 4}]

    def test_the_kinds_of_pass(self, drive: Any) -> None:
        driven = drive(chunked_prefill_size=16, enable_mixed_chunk=True)
        driven.step()
        driven.add("A", 8, 30)
        driven.steps(2)
        driven.add("B", 8, 30)
        driven.step()
        assert [plan.kind for plan in driven.plans] == ["idle", "extend", "decode", "mixed"]
        assert driven.plans[-1].scheduled == {"B": 8, "A": 1}

    def test_rows_name_their_pages(self, drive: Any) -> None:
        driven = drive(page_size=4)
        driven.add("A", 6, 4)
        plan = driven.scheduler.schedule(0)
        (row,) = plan.rows
        assert (row.id, row.start, row.tokens, list(row.blocks)) == ("A", 0, 6, [1, 2])

    def test_victims_and_resumed(self, drive: Any) -> None:
        driven = drive(max_total_tokens=40)
        for name in "AB":
            driven.add(name, 8, 20)
        driven.finish()
        assert [plan.victims for plan in driven.plans if plan.victims] == [["B"]]
        assert [plan.resumed for plan in driven.plans if plan.resumed] == [["B"]]
        assert [plan.admitted for plan in driven.plans if plan.admitted] == [["A"], ["B"]]

    def test_a_resumed_request_finds_its_own_prompt(self, drive: Any) -> None:
        """Its pages stay in the tree, unlocked, unless the 20 tokens of room need them."""
        for pool, out, hits in ((90, 40, 16), (60, 20, 0)):
            driven = drive(max_total_tokens=pool)
            for name in "AB":
                driven.add(name, 16, out)
            driven.finish()
            (event,) = [e.event for e in driven.log.entries if isinstance(e.event, Resume)]
            assert (event.id, event.computed) == ("B", hits)
            assert (event.own_hits, event.shared_hits) == (hits, 0)


class TestEndings:
    """A token ends a request, unless it ignores them; else its length does."""

    @pytest.mark.parametrize(
        ("ignore_eos", "status", "outputs"),
        [(False, "FINISH_MATCHED_TOKEN", 3), (True, "FINISH_LENGTH", 6)],
    )
    def test_the_end_of_sequence(
        self, drive: Any, ignore_eos: bool, status: str, outputs: int
    ) -> None:
        driven = drive()
        r = driven.add("A", 4, 6, ends=3, ignore_eos=ignore_eos)
        driven.finish()
        assert (r.finished, r.num_output_tokens) == (status, outputs)

    def test_a_stop_token(self, drive: Any) -> None:
        driven = drive()
        driven.add("A", 4, 6)
        request = Request("B", ((5000, 4),), 6, stop=Stop(stop_token_ids=(1_020_001,)))
        driven.scheduler.add(request)
        driven.reqs["B"] = r = driven.scheduler.requests["B"]
        driven.first["B"], driven.out["B"] = 1_020_000, 99
        driven.finish()
        assert (r.finished, r.num_output_tokens) == ("FINISH_MATCHED_TOKEN", 2)


class TestDenials:
    """The head's refusal names its test, and both sides of an inequality that holds."""

    def first(self, driven: Any) -> Denial:
        for _ in range(5):
            driven.step()
            for plan in driven.plans:
                if plan.denials:
                    denial: Denial = plan.denials[0]
                    assert denial.asked > denial.limit
                    return denial
        raise AssertionError("nobody was refused")

    def test_slot(self, drive: Any) -> None:
        driven = drive(max_running_requests=1)
        driven.add("A", 4)
        driven.add("B", 4)
        assert self.first(driven) == Denial("B", SLOT, 2, free=1)

    def test_reservation(self, drive: Any) -> None:
        driven = drive()
        driven.add("A", 40, 10)
        driven.add("B", 40, 10)
        assert self.first(driven) == Denial("B", RESERVATION, 51, free=64, reserved=52)

    def test_the_chunk(self, drive: Any) -> None:
        driven = drive(chunked_prefill_size=16)
        driven.add("A", 16, 4)
        driven.add("B", 16, 4)
        assert self.first(driven) == Denial("B", TOKEN, 1, free=0)

    def test_the_input_budget(self, drive: Any) -> None:
        driven = drive(max_prefill_tokens=20)
        driven.add("A", 16, 4)
        driven.add("B", 16, 4)
        assert self.first(driven) == Denial("B", TOKEN, 17, free=4)

    def test_the_most_of_one_pass(self, drive: Any) -> None:
        driven = drive(prefill_max_requests=1)
        driven.add("A", 4, 4)
        driven.add("B", 4, 4)
        assert self.first(driven) == Denial("B", POLICY, 2, free=1)

    def test_a_full_batch_repeats_what_filled_it(self, drive: Any) -> None:
        driven = drive(max_running_requests=1)
        driven.add("A", 4, 30)
        driven.step()
        driven.add("B", 4)
        driven.steps(5)
        written = [e.event for e in driven.log.entries if isinstance(e.event, Deny)]
        assert written == [Deny(Denial("B", SLOT, 1, free=0))]
        driven.abort("B")
        driven.add("C", 4)
        driven.step()
        assert driven.plans[-1].denials == [Denial("C", POLICY, 1)]


class TestRuns:
    """From the first arrival to a verdict."""

    def test_a_run_ends(self) -> None:
        log = Log()
        outcome = run(Scheduler(Config(64), log), prompts(6, 8, 20), log)
        assert (outcome.verdict, outcome.cycle) == ("all_done", {})
        assert log.delivered == 120

    def test_a_lost_request_is_a_deadlock_that_names_it(self) -> None:
        log = Log()
        config = Config(
            100,
            max_running_requests=1,
            enable_priority_scheduling=True,
            schedule_low_priority_values_first=True,
            priority_scheduling_preemption_threshold=0,
            schedule_conservativeness=0.0,
        )
        scheduler = Scheduler(config, log)
        engine = Engine(scheduler, [Arrival(0, Own("A", ((0, 30),), 20, priority=9))], log)
        engine.step()
        engine.step()
        scheduler.add(Own("B", ((1000, 90),), 8, priority=0))
        scheduler.requests["B"].max_new_tokens = 20  # more than the cut at arrival leaves
        outcome = run(scheduler, [Cancel(5, "B")], log)
        assert outcome.verdict == "deadlock"
        assert outcome.cycle == {"A": 0}
        assert derived_state(scheduler.requests["A"], scheduler) is State.LOST

    def test_metrics_alone_change_no_decision(self) -> None:
        logs = [Log(Level.METRICS), Log(Level.EVENTS)]
        for log in logs:
            run(Scheduler(Config(64, schedule_conservativeness=0.0), log), prompts(6, 8, 20), log)
        few, all_of_them = logs
        kinds = (Admit, Resume, Preempt, Finish)
        assert few.of(*kinds) == all_of_them.of(*kinds)
        assert not few.of(Allocate)

    def test_the_same_input_gives_the_same_log(self) -> None:
        logs = [Log(), Log()]
        for log in logs:
            config = Config(64, schedule_policy="random", schedule_conservativeness=0.0, seed=3)
            run(Scheduler(config, log), prompts(8, 8, 20), log)
        assert logs[0].entries == logs[1].entries
        assert logs[0].of(Sorted)


class Front(Scheduler):
    """What if victims went to the front, as vLLM's do?"""

    def place_of_victims(self) -> int:
        return 0


class Newest(Scheduler):
    """What if the newest went, as under vLLM's FCFS?"""

    def keep_rank(self, r: Req) -> tuple[Any, ...]:
        return (-r.entry_order,)


class TestWhatIf:
    """A what-if overrides one decision."""

    def victims(self, kind: type[Scheduler]) -> list[str]:
        log = Log()
        scheduler = kind(Config(41, schedule_conservativeness=0.0), log)
        requests = [(0, "A", 4, 19), (5, "L", 10, 6), (6, "B", 4, 6), (6, "C", 4, 6)]
        arrivals = [Arrival(t, Request(n, ((hash_of(n), p),), m)) for t, n, p, m in requests]
        run(scheduler, arrivals, log)
        return [e.event.id for e in log.entries if isinstance(e.event, Preempt)]

    def test_another_victim(self) -> None:
        assert self.victims(Scheduler)[:1] != self.victims(Newest)[:1]

    def test_another_place_in_the_queue(self) -> None:
        order, waiting = {}, {}
        for kind in (Scheduler, Front):
            log = Log()
            scheduler = kind(Config(40, schedule_conservativeness=0.0), log)
            run(scheduler, prompts(3, 8, 20), log)
            order[kind] = [entry.event.id for entry in log.of(Resume, Admit)]
            waiting[kind] = next(it.waiting for it in rebuild(log) if it.preempted)
        assert order[Scheduler] == ["r0", "r1", "r2", "r1"]
        assert order[Front] == ["r0", "r1", "r1", "r2"]
        assert waiting == {Scheduler: ["r2", "r1"], Front: ["r1", "r2"]}


def hash_of(name: str) -> int:
    return 1000 * ord(name)
