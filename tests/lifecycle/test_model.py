"""Contracts of the lifecycle model, item by item."""

from __future__ import annotations

from typing import Any

import pytest

from kvsched.engine import Engine
from kvsched.errors import InputError
from kvsched.invariants import InvariantViolation
from kvsched.lifecycle import Allocator, Lifecycle, Refused
from kvsched.log import Log, Preempt, Resume
from kvsched.request import Request
from kvsched.vllm import Config, Scheduler
from kvsched.workload import Arrival


def worked(pages: int = 4, size: int = 2) -> Lifecycle:
    """The worked example: prompt [10, 11, 12], emitted [20, 21]."""
    model = Lifecycle(pages, size)
    model.start("a", [10, 11, 12])
    model.step("a", 20)
    model.step("a", 21)
    return model


def state(model: Lifecycle) -> tuple[Any, ...]:
    """All that a refused move must leave alone."""
    requests = [
        (r.id, r.state, list(r.emitted), list(r.pages), r.resident, r.replay_rows, r.preemptions)
        for r in model.requests.values()
    ]
    allocator = model.allocator
    held = [model.held(request_id) for request_id in model.requests]
    return requests, sorted(allocator.free), allocator.draining, allocator.referenced, held


class TestProgressAndResidency:
    """What a request has achieved, and what memory holds of it, are two things."""

    def test_the_last_emitted_token_has_not_entered_the_model(self) -> None:
        model = worked()
        request = model.requests["a"]
        assert request.entered == (10, 11, 12, 20)
        assert request.pending == 21
        assert model.held("a") == [10, 11, 12, 20]

    def test_preempt_drops_the_pages_and_keeps_the_history(self) -> None:
        model = worked()
        assert len(model.preempt("a")) == 2
        request = model.requests["a"]
        assert (request.prompt, request.emitted, request.entered) == (
            (10, 11, 12),
            [20, 21],
            (10, 11, 12, 20),
        )
        assert (request.pages, request.resident, model.held("a")) == ([], 0, [])

    def test_recompute_restores_four_rows_and_emits_nothing(self) -> None:
        model = worked()
        model.preempt("a")
        assert model.resume("a") == 4
        assert model.held("a") == [10, 11, 12, 20]
        assert model.requests["a"].emitted == [20, 21]
        assert model.requests["a"].replay_rows == 4

    def test_the_pending_token_is_consumed_once_and_the_client_gets_one_new_token(self) -> None:
        model = worked()
        model.preempt("a")
        model.resume("a")
        assert model.step("a", 22) == 22
        assert model.held("a") == [10, 11, 12, 20, 21]
        assert model.requests["a"].emitted == [20, 21, 22]

    def test_a_preempted_request_ends_up_as_an_undisturbed_one(self) -> None:
        plain, disturbed = worked(), worked()
        disturbed.preempt("a")
        disturbed.resume("a")
        for model in (plain, disturbed):
            model.step("a", 22)
        assert plain.held("a") == disturbed.held("a")
        assert plain.requests["a"].emitted == disturbed.requests["a"].emitted

    def test_preempted_before_its_first_step_there_is_nothing_to_replay(self) -> None:
        model = Lifecycle(4, 2)
        model.start("a", [10, 11])
        model.preempt("a")
        assert model.resume("a") == 0
        assert model.step("a", 20) == 20
        assert model.held("a") == [10, 11]

    def test_every_reconstruction_adds_its_rows_to_the_counter(self) -> None:
        model = worked()
        for _ in range(2):
            model.preempt("a")
            model.resume("a")
        assert model.requests["a"].replay_rows == 8
        assert model.requests["a"].preemptions == 2


class TestFailedReconstruction:
    """Without room for every row nothing is taken."""

    def test_it_rolls_back_every_page_and_stays_suspended(self) -> None:
        model = worked(pages=3)
        model.preempt("a")
        model.start("b", [1, 2, 3])
        model.step("b", 4)
        before = state(model)
        with pytest.raises(Refused, match=r"resume a: too few free pages \(1 free, 0 draining\)"):
            model.resume("a")
        assert state(model) == before
        assert model.requests["a"].state == "suspended"

    def test_it_succeeds_once_there_is_room_and_counts_only_then(self) -> None:
        model = worked(pages=3)
        model.preempt("a")
        model.start("b", [1, 2, 3])
        model.step("b", 4)
        with pytest.raises(Refused):
            model.resume("a")
        model.cancel("b")
        model.resume("a")
        assert model.requests["a"].replay_rows == 4
        assert model.requests["a"].emitted == [20, 21]


class TestCancel:
    """An end that stays one."""

    def test_a_cancelled_request_cannot_resume(self) -> None:
        model = worked()
        model.preempt("a")
        model.cancel("a")
        with pytest.raises(Refused, match="it is cancelled"):
            model.resume("a")

    def test_twice_is_harmless(self) -> None:
        model = worked()
        assert len(model.cancel("a")) == 2
        before = state(model)
        assert model.cancel("a") == []
        assert state(model) == before


class TestVictims:
    """What a victim gives back is not what it holds."""

    def test_the_four_page_case_frees_nothing_before_the_drain(self) -> None:
        model = worked(pages=4)
        transfer = model.transfer("a")
        assert model.allocator.free == []
        assert model.recoverable("a") == 0
        assert model.preempt("a") == []
        assert model.abort(transfer) == []
        assert (len(model.allocator.free), len(model.allocator.draining)) == (0, 4)
        with pytest.raises(Refused, match="wait for the drain"):
            model.resume("a")
        assert len(model.drained(transfer)) == 4
        assert model.resume("a") == 4

    def test_the_longest_context_may_give_back_the_least(self) -> None:
        model = Lifecycle(8, 2)
        model.start("long", [1, 2, 3, 4, 5, 6])
        model.step("long", 7)
        model.fork("long", "child")
        model.start("short", [9])
        model.step("short", 10)
        assert len(model.requests["long"].entered) > len(model.requests["short"].entered)
        assert (model.recoverable("long"), model.recoverable("short")) == (0, 1)

    def test_recoverable_is_what_a_preemption_frees(self) -> None:
        model = worked()
        assert model.recoverable("a") == 2 == len(model.preempt("a"))


class TestSharing:
    """Forks, copies on write, and pinned pages."""

    def test_a_fork_shares_every_page_the_partial_one_too(self) -> None:
        model = Lifecycle(4, 4)
        model.start("a", [1, 2, 3])
        model.step("a", 4)
        child = model.fork("a", "b")
        assert child.pages == model.requests["a"].pages
        assert len(model.allocator.free) == 3

    def test_who_writes_first_gets_a_copy_of_the_partial_page(self) -> None:
        model = Lifecycle(4, 4)
        model.start("a", [1, 2])
        model.step("a", 3)
        model.fork("a", "b")
        model.step("b", 50)
        model.step("b", 51)
        model.step("a", 4)
        assert model.held("b") == [1, 2, 3, 50]
        assert model.held("a") == [1, 2, 3]
        assert set(model.requests["a"].pages).isdisjoint(model.requests["b"].pages)

    def test_full_pages_stay_shared(self) -> None:
        model = Lifecycle(6, 2)
        model.start("a", [1, 2, 3])
        model.step("a", 4)
        child = model.fork("a", "b")
        model.step("b", 5)
        assert child.pages[0] == model.requests["a"].pages[0]
        assert child.pages[1] != model.requests["a"].pages[1]

    def test_a_page_lives_as_long_as_its_last_reference(self) -> None:
        model = Lifecycle(4, 4)
        model.start("a", [1, 2, 3])
        model.step("a", 4)
        model.fork("a", "b")
        assert model.cancel("a") == []
        assert model.held("b") == [1, 2, 3]
        assert len(model.cancel("b")) == 1

    def test_a_pinned_partial_page_is_not_written(self) -> None:
        model = Lifecycle(4, 4)
        model.start("a", [1, 2])
        model.step("a", 3)
        transfer = model.transfer("a")
        source = model.requests["a"].pages[0]
        model.step("a", 4)
        assert model.requests["a"].pages[0] != source
        assert source in model.allocator.draining
        model.drained(transfer)
        assert model.held("a'") == [1, 2]
        model.step("a'", 4)
        assert model.held("a'") == [1, 2, 3]


REFUSED = {
    "a known id": (lambda m: m.start("a", [1]), "the id is in use"),
    "no prompt": (lambda m: m.start("z", []), "the prompt is empty"),
    "unknown": (lambda m: m.step("z", 1), "no such request; known: a, b, a'"),
    "step of a suspended one": (lambda m: m.step("b", 1), "it is suspended; resume it first"),
    "preempted twice": (lambda m: m.preempt("b"), "it is suspended"),
    "resume of an active one": (lambda m: m.resume("a"), "it is active; preempt it first"),
    "fork onto a known id": (lambda m: m.fork("a", "b"), "the id b is in use"),
    "fork of a suspended one": (lambda m: m.fork("b", "c"), "it is suspended"),
    "transferred twice": (lambda m: m.transfer("a"), "it was made before"),
    "a receiver before its rows are there": (lambda m: m.step("a'", 1), "still arriving"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_move_says_why_and_changes_nothing(name: str) -> None:
    move, message = REFUSED[name]
    model = worked(pages=6)
    model.start("b", [7])
    model.step("b", 8)
    model.preempt("b")
    model.transfer("a")
    before = state(model)
    with pytest.raises(Refused) as error:
        move(model)
    assert message in str(error.value)
    assert isinstance(error.value, InputError)
    assert state(model) == before


def test_a_drain_is_acknowledged_once() -> None:
    model = worked()
    transfer = model.transfer("a")
    model.drained(transfer)
    with pytest.raises(Refused, match="said before"):
        model.drained(transfer)
    with pytest.raises(Refused, match="it has drained"):
        model.abort(transfer)


def test_the_allocator_says_no_and_changes_nothing() -> None:
    allocator = Allocator(2)
    assert allocator.take(3) is None
    assert allocator.free == [0, 1]


def test_a_lost_page_is_noticed() -> None:
    allocator = Allocator(3)
    allocator.free.pop()
    with pytest.raises(InvariantViolation, match=r"free 2 \+ draining 0 \+ referenced 0 = 3"):
        allocator.check()


def test_admission_asks_the_pool_not_what_the_victim_held() -> None:
    model = worked(pages=4)
    transfer = model.transfer("a")
    assert len(model.requests["a"].pages) == 2
    model.preempt("a")
    model.start("b", [1])
    with pytest.raises(Refused, match="too few free pages"):
        model.step("b", 2)
    model.drained(transfer)
    assert model.step("b", 2) == 2


def test_every_change_of_the_allocator_asserts_the_conservation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checks: list[int] = []
    check = Allocator.check
    monkeypatch.setattr(Allocator, "check", lambda self: (checks.append(1), check(self)))
    allocator = Allocator(4)
    pages = allocator.take(2) or []
    allocator.share(pages)
    allocator.drop(pages)
    transfer = allocator.begin(pages, [])
    allocator.drop(pages)
    allocator.acknowledge(transfer.number)
    assert len(checks) == 6
    assert len(allocator.free) == 4


class TestCase19:
    """SGLang pull request 17143, issue 31765: aborted while it waited, and never cleaned up."""

    STATES = (
        "before its first step",
        "active",
        "sharing its pages",
        "suspended",
        "being copied",
        "receiving",
        "cancelled",
    )

    @pytest.mark.parametrize("state", STATES)
    def test_case_19_every_state_is_left_by_the_same_cleanup(self, state: str) -> None:
        model = Lifecycle(8, 2)
        model.start("a", [1, 2, 3])
        if state != self.STATES[0]:
            model.step("a", 4)
        if state == "sharing its pages":
            model.fork("a", "b")
        if state == "suspended":
            model.preempt("a")
        if state in ("being copied", "receiving"):
            model.transfer("a")
        if state == "cancelled":
            model.cancel("a")
        name = "a'" if state == "receiving" else "a"
        model.cancel(name)
        request = model.requests[name]
        assert (request.state, request.pages, request.resident) == ("cancelled", [], 0)
        for move in (model.resume, model.preempt, lambda n: model.step(n, 9)):
            with pytest.raises(Refused):
                move(name)
        for other in model.requests:
            model.cancel(other)
        for transfer in list(model.allocator.transfers.values()):
            model.drained(transfer)
        assert sorted(model.allocator.free) == list(range(8))
        assert not model.receivers


def test_case_30_pages_of_work_in_flight_are_not_reused_before_its_end() -> None:
    """SGLang issue 14972: the step in flight still writes for the request just thrown out."""
    model = worked(pages=6)
    in_flight = model.allocator.begin(model.requests["a"].pages, [])
    pages = set(model.requests["a"].pages)
    assert model.preempt("a") == []
    model.start("b", [1, 2, 3, 4, 5])
    model.step("b", 6)
    assert pages.isdisjoint(model.requests["b"].pages)
    assert set(model.allocator.acknowledge(in_flight.number)) == pages


def test_vllm_consumes_the_pending_token_in_the_pass_that_recomputes() -> None:
    """The contrast to the model: five rows, three blocks, and the next token at once."""
    asked = [Request("b", ((1000, 9),), 5), Request("a", ((10, 3),), 5)]
    config = Config(
        8, 2, max_num_seqs=2, max_num_batched_tokens=64, max_model_len=64,
        enable_prefix_caching=False,
    )  # fmt: skip
    log = Log()
    engine = Engine(Scheduler(config, log), [Arrival(0, request) for request in asked], log)
    outputs: list[int] = []
    while not log.of(Resume):
        engine.step()
        outputs.append(engine.scheduler.requests["a"].num_output_tokens)
    (out,), (back,) = log.of(Preempt), log.of(Resume)
    assert (out.event.id, out.event.tokens_lost) == ("a", 4)
    assert back.event.tokens == 5
    assert outputs[out.step :] == [2, 2, 2, 3]
    model = worked()
    model.preempt("a")
    assert model.resume("a") == 4
    assert len(model.requests["a"].pages) == 2
    assert len(model.requests["a"].emitted) == 2
