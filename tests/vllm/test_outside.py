"""What waits outside, sessions and endings: each surprise of vLLM 0.28.0, shown by a recording."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kvsched.conform import compare, load
from kvsched.conform.recording import Recording
from kvsched.conform.replay import replay, verdict
from kvsched.contract import RESERVED, NextChunk
from kvsched.engine import run
from kvsched.explain import explain_case
from kvsched.log import (
    Admit,
    Cache,
    ChunkEnd,
    Deny,
    Finish,
    Load,
    Log,
    Preempt,
    Progress,
    Promote,
    Reserve,
    ResetCache,
)
from kvsched.request import Request
from kvsched.steps import StepRecord, rebuild
from kvsched.vllm import Config, Scheduler
from kvsched.vllm.status import TRANSITIONS, RequestStatus
from kvsched.workload import Arrival, Order

GOLDEN = Path(__file__).parents[1] / "golden" / "vllm2"
SCHEDULER = "vllm/v1/core/sched/scheduler.py"


class Case(NamedTuple):
    """A recording, its replay, and the rebuilt steps."""

    recording: Recording
    log: Log
    steps: list[StepRecord]

    def of(self, kind: type, name: str) -> list[tuple[int, Any]]:
        """(step, event) of a request's events of one kind."""
        return [(e.step, e.event) for e in self.log.of(kind) if getattr(e.event, "id", "") == name]


@cache
def case(name: str) -> Case:
    recording = load(GOLDEN / f"{name}.json.gz")
    log = replay(recording).log
    return Case(recording, log, list(rebuild(log)))


def rule(flag: str, default: object, lines: str, ours: str = "") -> pytest.MarkDecorator:
    return pytest.mark.rule("vLLM", "0.28.0", flag, default, lines, ours)


@rule("", "always", f"{SCHEDULER}:1047", "kvsched.vllm.Scheduler")
def test_a_finished_load_behind_a_head_that_does_not_fit_is_a_deadlock() -> None:
    """A promoted head that does not fit stands before a finished load that holds its blocks."""
    deadlock = case("kv_deadlock_fcfs").recording
    outcome = verdict(deadlock)
    assert (outcome.verdict, outcome.cycle) == ("deadlock", {"g": 0, "k": 10})
    assert "this never resolves" in explain_case(deadlock, 5)[-1]


@rule("", "always", f"{SCHEDULER}:1429-1467", "kvsched.vllm.sessions.Sessions")
def test_a_waiting_session_keeps_blocks_that_a_preempted_request_needs() -> None:
    """A continuing session holds its blocks while the preempted head before it cannot fit."""
    outcome = verdict(case("st_preempted_fcfs").recording)
    assert outcome.verdict == "deadlock"
    assert outcome.cycle["s"] == 4


@rule("kv-transfer-config", "none", f"{SCHEDULER}:2756-2762", "kvsched.vllm.loads.Loads")
def test_a_one_token_prompt_is_loaded_again() -> None:
    """A fully loaded one-token prompt falls back to 0 computed, looks fresh and is loaded again."""
    found = case("kv_one_token_fcfs")
    name = next(r["id"] for r in found.recording.requests if "remote" in r)
    assert len(found.of(Load, name)) > 1
    assert next(event.num_computed_tokens for _, event in found.of(Progress, name)) == 0


@rule("enable_prefix_caching", True, f"{SCHEDULER}:1429-1462", "kvsched.vllm.sessions.Sessions")
def test_a_dropped_token_leaves_its_block_under_the_wrong_hash() -> None:
    """After a session's chunk a block is found under the hash of a token that was dropped."""
    found = case("st_stale_hash_fcfs")
    hits = {e.event.id: e.event.computed for e in found.log.of(Admit) if e.event.id in "xy"}
    assert hits == {"y": 12, "x": 8}


@rule("", "always", f"{SCHEDULER}:1429", "kvsched.vllm.sessions.Sessions")
def test_a_chunk_s_own_max_tokens_is_ignored() -> None:
    """The first chunk's max_tokens stays, whatever a later chunk asks for."""
    log = Log()
    request = Request("s", ((0, 4),), max_tokens=2, resumable=True)
    chunk = NextChunk("s", ((900, 4),), 5, None, max_tokens=9)
    scheduler = Scheduler(Config(20, 4, max_num_batched_tokens=256), log)
    run(scheduler, [Arrival(0, request), Order(4, chunk)], log, max_steps=12)
    ends = [entry.step for entry in log.of(ChunkEnd)]
    assert ends == [1, 5]  # two tokens each time


@rule("policy", "fcfs", f"{SCHEDULER}:1429", "kvsched.queues.PriorityQueue")
def test_a_chunk_changes_its_key_inside_the_heap() -> None:
    """Under priority a chunk's arrival time changes in the heap, which is not rebuilt."""
    found = case("st_heap_key_change").recording
    assert found.config["policy"] == "priority"
    assert compare(found).divergence is None


@rule("policy", "fcfs", f"{SCHEDULER}:2152-2162", "kvsched.vllm.Scheduler.next_queue")
def test_fcfs_is_not_the_order_of_arrival() -> None:
    """Who was ever set aside is tried before everybody in the first queue."""
    found = case("gram_vs_head_fcfs")
    arrival = {r["id"]: r["arrival_step"] for r in found.recording.requests}
    admitted = [entry.event.id for entry in found.log.of(Admit)]
    assert arrival["w"] < arrival["g"]
    assert admitted.index("g") < admitted.index("w")


@rule("min_tokens", 0, "vllm/v1/core/sched/utils.py:94", "kvsched.vllm.endings.check_stop")
def test_min_tokens_switches_off_the_length_limit() -> None:
    """With min_tokens beyond the room a request stays RUNNING, unscheduled, with its blocks."""
    found = case("fin_min_tokens_model_len")
    last = found.steps[-1]
    idle = [i for i in last.running_end if i not in last.scheduled]
    stuck = [e for e in found.steps if e.running and not e.scheduled]
    assert idle or stuck


@rule("", "always", "vllm/v1/core/sched/utils.py:105-116", "kvsched.vllm.endings.check_stop")
def test_eos_as_the_last_allowed_token_is_stop() -> None:
    """EOS is tested before the length, so EOS as the last allowed token ends as stop."""
    reasons = [entry.event.reason for entry in case("fin_eos_and_max").log.of(Finish)]
    assert "stop" in reasons


@rule("", "always", f"{SCHEDULER}:1908-1919", "kvsched.vllm.Scheduler.update")
def test_a_rejecting_grammar_beats_a_stop() -> None:
    """If the grammar rejects the tokens of a stop, the request ends with an error."""
    statuses = [e.event.status for e in case("fin_grammar_rejects_last").log.of(Finish)]
    assert "FINISHED_ERROR" in statuses


@rule("", "always", f"{SCHEDULER}:1135", "kvsched.vllm.Scheduler")
def test_a_continuing_session_is_reported_as_new() -> None:
    """A session's next chunk is admitted as a new request, without a prefix lookup."""
    admissions = case("st_basic_fcfs").of(Admit, "s")
    assert [(step, type(event), event.computed) for step, event in admissions] == [
        (0, Admit, 0),
        (8, Admit, 12),
    ]


@rule("", "always", f"{SCHEDULER}:2788", "kvsched.vllm.waits.Waits")
def test_a_failed_grammar_goes_unnoticed_until_the_queue_is_walked() -> None:
    """A walk that ends early does not see a grammar that failed behind its end."""
    found = case("gram_error_unseen_fcfs")
    failing = next(r for r in found.recording.requests if r.get("grammar", {}).get("error"))
    [(step, event)] = found.of(Finish, failing["id"])
    assert event.status == "FINISHED_ERROR"
    assert step > failing["grammar"]["ready"]


@rule("", "always", f"{SCHEDULER}:2511-2531", "kvsched.vllm.orders")
def test_a_reset_with_a_paused_session_fails_after_preempting_everybody() -> None:
    """reset_prefix_cache(running) raises RuntimeError after the preemptions it was to follow."""
    found = case("reset_with_session_fcfs")
    [reset] = found.log.of(ResetCache)
    thrown = [entry for entry in found.log.of(Preempt) if entry.step == reset.step]
    assert reset.event.outcome == "error"
    assert thrown
    assert all(entry.event.denial is None for entry in thrown)


@rule("", "always", "vllm/v1/request.py:365", "kvsched.vllm.status.RequestStatus")
def test_finished_ignored_is_never_assigned() -> None:
    """FINISHED_IGNORED stands in the enum and in the reason map, and nothing assigns it."""
    targets = {move.target for move in TRANSITIONS}
    assert set(RequestStatus) - targets == {RequestStatus.FINISHED_IGNORED}


@rule("kv-transfer-config", "none", f"{SCHEDULER}:1025-1031", "kvsched.vllm.Scheduler.reserved")
def test_a_load_leaves_the_blocks_that_work_in_flight_still_lacks() -> None:
    """Reserved blocks refuse an asynchronous load, and nobody else."""
    found = case("kv_reserved_loads_fcfs")
    remote = {r["id"] for r in found.recording.requests if "remote" in r}
    assert max(entry.event.blocks for entry in found.log.of(Reserve)) > 0
    refused = {e.event.denial.id for e in found.log.of(Deny) if e.event.denial.test == RESERVED}
    assert refused
    assert refused <= remote


@rule("kv-transfer-config", "none", f"{SCHEDULER}:2756", "kvsched.vllm.loads.Loads.promote")
def test_loaded_blocks_are_hashed_at_promotion() -> None:
    """An asynchronous load takes blocks and no hashes; they come when its request is promoted."""
    found = case("kv_not_cached_until_done_priority")
    name = next(r["id"] for r in found.recording.requests if "remote" in r)
    begun, done = found.of(Load, name)[0][0], found.of(Promote, name)[0][0]
    assert begun < done
    assert found.of(Cache, name)[0][0] == done


@rule("kv-transfer-config", "none", f"{SCHEDULER}:1349", "kvsched.vllm.Scheduler.preempt")
def test_a_loading_request_is_never_a_victim() -> None:
    """A request that loads holds blocks and no slot, and nobody can preempt it."""
    found = case("kv_loading_not_victim_fcfs")
    before: set[str] = set()
    victims = 0
    for record in found.steps:
        out = {event.id for event in record.of(Preempt)}
        victims += len(out)
        assert out <= before
        before = set(record.running_end)
    assert victims > 0
