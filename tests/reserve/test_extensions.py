"""What goes beyond the contract: off by default, visible in the records when on."""

from __future__ import annotations

from typing import Any

import pytest

from kvsched.engine import run
from kvsched.log import Log
from kvsched.metrics import measure
from kvsched.replay import twin
from kvsched.request import Request
from kvsched.reserve import Config, Record, as_json
from kvsched.reserve.as_log import as_log
from kvsched.reserve.records import (
    AdmissionBlocked,
    Admitted,
    Arrival,
    Completed,
    Dispatch,
    Preempted,
    Snapshot,
    Stalled,
    Truncated,
)
from kvsched.workload import Arrival as Arriving


def of(kind: type, found: list[Record]) -> list[Any]:
    return [record for record in found if isinstance(record, kind)]


def admitted(found: list[Record]) -> list[tuple[int, str]]:
    return [(r.t, r.id) for r in of(Admitted, found)]


TIGHT = ("0 a 4 9", "0 b 4 9")
"""Three blocks each in the end, one at first."""


class TestPromiseOfThePromptAlone:
    """Two ways out when a promise was too small."""

    def test_whole_serves_one_after_the_other(self, play: Any) -> None:
        assert admitted(play(*TIGHT, blocks=4)) == [(0, "a"), (9, "b")]

    def test_truncate_cuts_the_first_short_that_cannot_grow(self, play: Any) -> None:
        found = play(*TIGHT, blocks=4, reserve="truncate")
        assert admitted(found) == [(0, "a"), (0, "b")]
        assert of(Truncated, found) == [Truncated(5, "a", 5)]
        assert of(Completed, found) == [Completed(9, "b")]

    def test_preempt_throws_out_the_last_and_computes_it_again(self, play: Any) -> None:
        found = play(*TIGHT, blocks=4, reserve="preempt")
        assert of(Preempted, found) == [Preempted(5, "b", "a", 2, 8, 5)]
        assert of(Admitted, found)[-1] == Admitted(9, "b", 3, again=True)
        assert [r.id for r in of(Completed, found)] == ["a", "b"]
        again = next(r for r in of(Dispatch, found) if r.t == 9)
        assert again.rows[0] == ("b", "prefill", 9)

    def test_draining_pages_stall_instead(self, play: Any) -> None:
        found = play("0 a 4 5", "0 b 4 1", blocks=2, reserve="truncate", release_delay=6)
        assert of(Stalled, found)[0] == Stalled(1, "a", 1)
        assert of(Dispatch, found)[1].t == 7

    def test_a_cap_above_the_output_is_promised_and_not_used(self, play: Any) -> None:
        found = play("0 a 4 1 max_tokens=13", "0 b 4 1", blocks=4)
        assert of(Arrival, found)[0].output == 13
        assert admitted(found) == [(0, "a"), (1, "b")]

    def test_preempting_gives_the_times_of_vllm_s_twin_on_the_same_trace(self, play: Any) -> None:
        knobs: dict[str, Any] = {"blocks": 4, "max_tokens": 64, "chunk": 64}
        own = measure(as_log(play(*TIGHT, reserve="preempt", **knobs)), second=1)
        requests = [Request(name, ((10**6 * i, 4),), 9) for i, name in enumerate("ab")]
        log, config = Log(), Config(block_size=4, max_rows=8, **knobs)
        run(twin("vllm", config, log), [Arriving(0, request) for request in requests], log)
        assert own.requests == measure(log, second=1).requests
        assert own.num_preemptions == 1


class TestPrefixCache:
    """Shared blocks are promised once."""

    def test_a_computed_prefix_is_not_promised_again(self, play: Any) -> None:
        found = play("0 a 8 6 first=0", "1 b 8 2 first=0", prefix_cache=True)
        assert of(Admitted, found)[1] == Admitted(1, "b", 2, hits=4)
        assert of(Dispatch, found)[1].rows[1] == ("b", "prefill", 4)

    def test_a_page_outlives_its_owner_and_is_paid_by_the_heir(self, play: Any) -> None:
        found = play("0 a 8 2 first=0", "1 b 8 9 first=0", prefix_cache=True)
        after = next(r for r in of(Snapshot, found) if r.t == 3)
        assert (after.active, after.credits, after.allocated) == (1, 4, 3)

    def test_off_by_default(self, play: Any) -> None:
        found = play("0 a 8 6 first=0", "1 b 8 2 first=0")
        assert "hits" not in as_json(of(Admitted, found)[1])


class TestOrder:
    """Who is first in the queue."""

    def test_priority(self, play: Any) -> None:
        trace = ("0 a 32 1", "0 b 32 1 priority=2", "0 c 32 1 priority=1")
        assert admitted(play(*trace, order="priority", chunk=16)) == [(0, "a"), (2, "c"), (4, "b")]

    def test_deadline_those_without_come_last(self, play: Any) -> None:
        trace = ("0 a 32 1", "0 b 32 1 deadline=9", "0 c 32 1 deadline=4")
        found = admitted(play(*trace, order="deadline"))
        assert [name for _, name in found] == ["c", "b", "a"]

    def test_fifo_looks_at_neither(self, play: Any) -> None:
        trace = ("0 a 32 1", "0 b 32 1 priority=2", "0 c 32 1 priority=-1 deadline=4")
        assert [name for _, name in admitted(play(*trace))] == ["a", "b", "c"]


class TestBatches:
    """Static and dynamic batches."""

    def test_static_nobody_joins_a_batch_that_runs(self, play: Any) -> None:
        found = play("0 a 4 3", "0 b 4 1", "1 c 4 1", batch_size=2)
        assert admitted(found) == [(0, "a"), (0, "b"), (3, "c")]
        assert of(AdmissionBlocked, found)[0].binding == "batch"

    def test_dynamic_a_batch_waits_to_be_full_but_not_for_ever(self, play: Any) -> None:
        found = play("0 a 4 1", "3 b 4 1", "9 c 4 1", batch_size=2, batch_wait=5)
        assert admitted(found) == [(3, "a"), (3, "b"), (14, "c")]


class TestReadings:
    """Metrics read a replay as they read a run."""

    def test_metrics_of_a_replay_with_waiting(self, play: Any) -> None:
        found = play("0 a 4 3", "0 b 4 3", policy="serial")
        metrics = measure(as_log(found), second=1)
        a, b = metrics.requests
        assert (a.time_to_first_token, a.e2e_latency, a.num_output_tokens) == (1, 3, 3)
        assert (b.queued_time, b.time_to_first_token, b.e2e_latency) == (3, 4, 6)

    def test_a_request_that_gets_no_row_is_no_faster_for_it(self, play: Any) -> None:
        found = play("0 a 1 5", "0 b 1 5", max_rows=1)
        a, b = measure(as_log(found), second=1).requests
        assert (a.e2e_latency, b.time_to_first_token, b.e2e_latency) == (5, 6, 10)

    def test_an_event_while_everybody_stalls_gives_nobody_a_token(self, play: Any) -> None:
        knobs: dict[str, Any] = {"blocks": 2, "release_delay": 5, "reserve": "preempt"}
        trace = ("0 b 4 1", "0 a 4 3")
        found = play(*trace, "3 c 40 1", "4 d 40 1", **knobs)
        assert len(of(Stalled, found)) == 3
        a = next(r for r in measure(as_log(found), second=1).requests if r.id == "a")
        assert (a.time_to_first_token, a.e2e_latency, a.num_output_tokens) == (1, 8, 3)

    @pytest.mark.parametrize("policy", ["serial", "continuous"])
    def test_metrics_agree_with_the_records(self, play: Any, policy: str) -> None:
        trace = [f"{i} r{i} {1 + i % 7} {1 + i % 5}" for i in range(40)]
        found = play(*trace, policy=policy, max_tokens=3, max_rows=2)
        metrics = measure(as_log(found), second=1)
        done = {r.id: r.t for r in of(Completed, found)}
        assert {r.id: r.arrival_time + (r.e2e_latency or 0) for r in metrics.requests} == done
        assert metrics.generation_tokens == sum(1 + i % 5 for i in range(40))
