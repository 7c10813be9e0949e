"""Steps are rebuilt from events alone, and agree with what the scheduler said at the time."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from kvsched.log import Chunk, Level, Log
from kvsched.request import Request
from kvsched.steps import rebuild
from kvsched.vllm import Config, Scheduler


class TestOneStep:
    """The fields of a record, one by one, on a small run."""

    @pytest.fixture
    def steps(self, drive: Any) -> Any:
        run = drive()
        run.add("A", 9, out=2)
        run.add("B", 16)
        run.add("C", 4)
        run.steps(2)
        run.abort("C")
        run.step()
        return list(rebuild(run.log))

    def test_what_was_decided(self, steps: Any) -> None:
        assert steps[0].scheduled == {"A": 9, "B": 16, "C": 4}
        assert steps[0].blocks == {"A": [1, 2, 3], "B": [4, 5, 6, 7], "C": [8]}
        assert steps[0].running == ["A", "B", "C"]
        assert (steps[0].free, steps[0].cached, steps[0].failures) == (0, 7, [])

    def test_a_victim_has_no_blocks_and_its_asker_is_a_failure(self, steps: Any) -> None:
        assert steps[1].failures == ["B"]
        assert (steps[1].waiting, steps[1].running) == (["C"], ["A", "B"])
        assert steps[1].blocks == {"B": [8]}
        assert steps[1].erased == [{"C": 1}]

    def test_live_numbers_are_those_after_schedule(self, steps: Any) -> None:
        assert steps[0].live["A"][:4] == ("RUNNING", 9, 9, 0)
        assert steps[0].live_end["A"][:4] == ("RUNNING", 9, 10, 0)
        assert steps[1].live["C"][:4] == ("PREEMPTED", 0, 5, 1)

    def test_tokens_reach_their_clients(self, steps: Any) -> None:
        assert [list(step.emitted) for step in steps] == [["A", "B", "C"], ["A", "B"], ["B"]]

    def test_who_ended_is_told_in_the_next_step(self, steps: Any) -> None:
        assert [step.ended_before for step in steps] == [[], [], ["A", "C"]]

    def test_the_free_queue_before_after_and_at_the_end(self, steps: Any) -> None:
        assert [(s.free_before, s.free, s.free_end) for s in steps] == [
            (8, 0, 0),
            (0, 0, 3),
            (3, 3, 3),
        ]
        ids = "3,2,1"
        assert steps[1].free_crc_end == zlib.crc32(ids.encode())

    def test_steps_are_numbered_and_timed(self, steps: Any) -> None:
        assert [(step.step, step.now) for step in steps] == [(0, 0), (1, 1), (2, 2)]


class TestImplied:
    """A decode leaves no event: it is implied, unless somebody is idle."""

    def test_a_decode_step_without_events_still_computes(self, drive: Any) -> None:
        run = drive()
        run.add("A", 6)
        run.steps(2)
        *_, last = rebuild(run.log)
        assert last.entries == []
        assert (last.scheduled, list(last.emitted)) == ({"A": 1}, ["A"])

    def test_a_chunk_is_written_unless_it_is_the_last_token(self, drive: Any) -> None:
        run = drive(long_prefill_token_threshold=4)
        run.add("A", 9)
        steps = run.steps(3)
        assert [step.of(Chunk) for step in steps] == [[], [Chunk("A", 4)], []]
        assert [list(step.emitted) for step in steps] == [[], [], ["A"]]

    def test_an_idle_request_computes_nothing(self, case: Any) -> None:
        step = case("prio_all_tie").steps[3]
        assert (step.running, step.scheduled, list(step.emitted)) == (["B", "C", "D"], {}, [])


class TestRebuild:
    """Any time, any number of times."""

    def test_twice_gives_the_same(self, case: Any) -> None:
        replayed = case("prefix_shared_preempt")
        assert list(rebuild(replayed.log)) == replayed.steps

    def test_a_log_without_steps_has_none(self) -> None:
        log = Log()
        Scheduler(Config(9), log)
        assert list(rebuild(log)) == []

    def test_a_step_in_the_middle_can_be_looked_at(self) -> None:
        log = Log()
        scheduler = Scheduler(Config(9, 4, max_num_seqs=4, max_num_batched_tokens=16), log)
        log.begin(0, 0)
        scheduler.add(Request("A", ((0, 6),), 3))
        scheduler.schedule(0)
        (step,) = rebuild(log)
        assert (step.scheduled, step.free) == ({"A": 6}, 6)

    def test_a_log_of_milestones_is_refused(self) -> None:
        log = Log(Level.METRICS)
        scheduler = Scheduler(Config(9, 4, max_num_seqs=4, max_num_batched_tokens=16), log)
        log.begin(0, 0)
        scheduler.add(Request("A", ((0, 6),), 3))
        scheduler.schedule(0)
        with pytest.raises(ValueError, match="EVENTS"):
            list(rebuild(log))
