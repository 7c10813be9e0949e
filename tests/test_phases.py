"""Every state of both engines has its display phase, and every ending its word."""

from __future__ import annotations

from itertools import product

import pytest

from kvsched.palette import BLOCKED, DECODE, DONE, DRAINING, PHASES, PREEMPTED, PREFILL, WAITING
from kvsched.phases import ENDING, PHASE_OF, ending, phase
from kvsched.sglang.state import HOLDING, State
from kvsched.vllm.status import BLOCKED as WAITS_OUTSIDE
from kvsched.vllm.status import RequestStatus


def test_every_state_of_an_engine_is_in_the_table_and_no_other() -> None:
    assert list(PHASE_OF["vllm"]) == [status.name for status in RequestStatus]
    assert set(PHASE_OF["sglang"]) == {state.value for state in State}


def test_every_phase_is_the_phase_of_something() -> None:
    reached = {
        phase("vllm", status.name, prefilling=p, holding=h)
        for status in RequestStatus
        for p, h in product((False, True), repeat=2)
    }
    assert reached == set(PHASES)
    assert set(PHASE_OF["sglang"].values()) == set(PHASES) - {BLOCKED}


@pytest.mark.parametrize("status", RequestStatus)
def test_finished_blocked_and_running_are_the_engines_own_groups(status: RequestStatus) -> None:
    shown = phase("vllm", status.name)
    assert (shown is DONE) == status.is_finished
    assert (shown is BLOCKED) == (status in WAITS_OUTSIDE)
    assert (shown is DECODE) == (status is RequestStatus.RUNNING)


def test_only_states_with_memory_are_shown_as_running() -> None:
    running = {
        State(name) for name, shown in PHASE_OF["sglang"].items() if shown in (PREFILL, DECODE)
    }
    assert running == HOLDING


def test_what_a_state_alone_does_not_say() -> None:
    assert phase("vllm", "RUNNING", prefilling=True) is PREFILL
    assert phase("vllm", "FINISHED_STOPPED", holding=True) is DRAINING
    assert phase("vllm", "WAITING", prefilling=True, holding=True) is WAITING
    assert phase("vllm", "PREEMPTED", prefilling=True, holding=True) is PREEMPTED


def test_every_ending_but_the_wanted_ones_has_its_own_word() -> None:
    done = {state for table in PHASE_OF.values() for state, shown in table.items() if shown is DONE}
    assert set(ENDING) <= done
    assert len(set(ENDING.values())) == len(ENDING)
    assert {state for state in done if ending(state) == "done"} == {
        "FINISHED_STOPPED", "FINISHED_LENGTH_CAPPED", "FINISHED_REPETITION", "FINISHED",
    }  # fmt: skip
