"""The log: events in their place, lines of bytes, three levels of detail."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvsched.contract import Denial
from kvsched.engine import run
from kvsched.log import (
    MILESTONES,
    Admit,
    Allocate,
    Arrive,
    Deny,
    Finish,
    Free,
    Level,
    Log,
    Phase,
    Preempt,
    Refuse,
    Resume,
    Undeny,
)
from kvsched.request import Request
from kvsched.vllm import Config, Scheduler
from kvsched.workload import Arrival

KNOBS: dict[str, Any] = {"max_num_seqs": 4, "max_num_batched_tokens": 64, "max_model_len": 64}


def logged(level: Level = Level.EVENTS) -> Log:
    """Two requests in eight blocks: one preemption, one return."""
    log = Log(level)
    events = [Arrival(0, Request(n, ((100 * i, 15),), 8)) for i, n in enumerate("AB")]
    run(Scheduler(Config(9, 4, **KNOBS), log), events, log)
    return log


class TestPlace:
    """Each event knows its step and its part of the step."""

    def test_an_event_lies_in_the_step_and_phase_in_which_it_was_added(self) -> None:
        log = Log()
        log.begin(0, 5)
        log.add(Undeny("a"))
        log.phase = Phase.SCHEDULE
        log.add(Undeny("b"))
        log.begin(1, 9)
        log.add(Undeny("c"))
        places = [(e.step, e.phase, e.event.id) for e in log.entries]
        assert places == [
            (0, Phase.ARRIVALS, "a"),
            (0, Phase.SCHEDULE, "b"),
            (1, Phase.ARRIVALS, "c"),
        ]
        assert log.times == [5, 9]

    def test_phases_are_in_the_order_of_a_step(self) -> None:
        assert Phase.ARRIVALS < Phase.SCHEDULE < Phase.MID < Phase.UPDATE

    def test_a_run_logs_each_kind_in_its_phase(self) -> None:
        where = {(type(e.event), e.phase) for e in logged().entries}
        in_schedule = {kind for kind, phase in where if phase is Phase.SCHEDULE}
        assert {Admit, Preempt, Resume, Allocate} <= in_schedule
        assert {(Arrive, Phase.ARRIVALS), (Finish, Phase.UPDATE), (Free, Phase.UPDATE)} <= where


class TestLevels:
    """How much is kept is the caller's choice; what is kept is the same."""

    def test_metrics_keep_the_milestones_only(self) -> None:
        full, slim = logged(), logged(Level.METRICS)
        assert slim.entries == [e for e in full.entries if type(e.event) in MILESTONES]
        assert len(slim.entries) < len(full.entries)
        assert slim.delivered == full.delivered == 16

    def test_what_an_operator_asks_for_is_a_milestone(self) -> None:
        assert {Arrive, Admit, Resume, Preempt, Finish, Refuse} <= MILESTONES
        assert not {Allocate, Free, Deny} & MILESTONES


class TestLines:
    """Equal runs give equal bytes."""

    def test_every_line_is_one_json_object(self) -> None:
        head, *events = map(json.loads, logged().lines())
        assert (head["engine"], head["version"]) == ("vllm", "0.28.0")
        assert head["config"]["num_gpu_blocks"] == 9
        assert len(events) == len(logged().entries)
        assert events[0] == {
            "step": 0, "phase": "arrivals", "event": "arrive", "id": "A", "num_prompt_tokens": 15,
            "max_tokens": 8, "priority": 0, "arrival_time": 0, "status": "WAITING",
            "queue": "waiting",
        }  # fmt: skip

    def test_a_preemption_is_told_with_its_cause(self) -> None:
        line = next(e for e in map(json.loads, logged().lines()) if e.get("event") == "preempt")
        assert line["id"] == "B"
        assert line["denial"]["id"] == "A"
        assert line["denial"]["test"] == "block"
        assert (line["free_before"], line["free_after"], line["tokens_lost"]) == (0, 4, 16)

    def test_lines_are_repeatable(self) -> None:
        assert list(logged().lines()) == list(logged().lines())
        log = logged()
        assert list(log.lines()) == list(log.lines())

    def test_a_refusal_can_be_written(self) -> None:
        log = Log()
        log.add(Refuse(Denial("a", "token", 5)))
        assert json.loads(list(log.lines())[1])["denial"]["need"] == 5


class TestOf:
    """Entries by kind."""

    def test_of_is_exact_about_the_kind(self) -> None:
        log = logged()
        assert [e.event.id for e in log.of(Admit)] == ["A", "B"]
        assert [e.event.id for e in log.of(Resume)] == ["B"]
        assert len(log.of(Admit, Resume)) == 3


@pytest.mark.parametrize("steps", [5, 20])
def test_a_standing_denial_is_written_once(drive: Any, steps: int) -> None:
    run = drive()
    run.add("A", 4)
    run.add("huge", 50)
    run.steps(steps)
    changes = [entry.event.denial.free for entry in run.log.of(Deny)]
    assert changes == sorted(set(changes), key=changes.index)
    run.abort("huge")
    run.step()
    assert [entry.event for entry in run.log.of(Undeny)] == [Undeny("huge")]
