"""Courses and metrics of SGLang's runs: what the iterations say, from the milestones alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from kvsched import courses, frames
from kvsched.conform.sglang.replay import Asked, Script, config_of, engine_of, replay, request_of
from kvsched.courses import Course
from kvsched.engine import Engine, run
from kvsched.log import Level, Log
from kvsched.metrics import measure
from kvsched.sglang import Config, Request, Scheduler, rebuild
from kvsched.workload import Arrival


def tokens_of(found: list[Course]) -> Counter[tuple[str, int]]:
    """(request, step) of every token."""
    return Counter(
        (course.id, step)
        for course in found
        for first, last in course.runs
        for step in range(first, last + 1)
    )


def milestones_of(recorded: dict[str, Any]) -> Log:
    """The log of a recorded loop that keeps milestones alone."""
    log = Log(Level.METRICS)
    asked = [Asked(*row) for row in recorded["reqs"]]
    arrivals = [Arrival(a.arrival, request_of(i, a)) for i, a in enumerate(asked)]
    scheduler = Scheduler(config_of(recorded), log)
    engine = Engine(scheduler, arrivals, log, executor=Script(asked), lag=int(recorded["overlap"]))
    for _ in recorded["trace"]:
        engine.step()
    return log


@pytest.mark.parametrize(("name", "apart"), [("loop", 4), ("loop_overlap", 1)])
def test_the_courses_are_what_the_iterations_say(
    name: str, apart: int, content: Callable[[str], Any]
) -> None:
    """Every token in its step, every prefill row, every admission and every loss."""
    for recorded in content(name)["runs"][::apart]:
        log = replay(recorded).log
        found = courses.read(log)
        tokens: Counter[tuple[str, int]] = Counter()
        rows: list[tuple[str, int, int, int]] = []
        for it in rebuild(log):
            tokens.update((request_id, it.step) for request_id in it.emitted)
            if it.kind in ("extend", "mixed"):
                decodes = {i for i, (state, *_) in it.live.items() if state == "RUNNING_MIXED"}
                rows += [(i, it.step, s, e - s) for i, s, e in it.rows if i not in decodes]
        label = f"{recorded['kind']} {recorded['seed']}"
        assert tokens_of(found) == tokens, label
        assert sorted(rows) == sorted((c.id, *p[:3]) for c in found for p in c.prefills), label
        assert [c.num_output_tokens for c in found] == recorded["out"], label
        assert [c.num_preemptions for c in found] == recorded["retractions"], label
        assert [c.ended for c in found] == recorded["done_at"], label


def test_milestones_are_enough(content: Callable[[str], Any]) -> None:
    for recorded in [*content("loop_overlap")["runs"][::4], content("loop")["runs"][43]]:
        engine = engine_of(recorded)
        for _ in recorded["trace"]:
            engine.step()
        assert courses.read(milestones_of(recorded)) == courses.read(engine.log)


def two_grow(lag: int = 0) -> Log:
    """Two of 8 and 20 tokens in a pool of 40: B goes once and comes back."""
    log = Log()
    config = Config(max_total_tokens=40, schedule_conservativeness=0.0)
    requests = [Request(name, ((100 * i, 8),), 20) for i, name in enumerate("AB", 1)]
    run(Scheduler(config, log), [Arrival(0, r) for r in requests], log, lag=lag)
    return log


class TestMetrics:
    """By hand, in ticks."""

    @pytest.mark.parametrize("lag", [0, 1])
    def test_times(self, lag: int) -> None:
        """A comes and prefills in step 0, B in step 1, in which A's decode waits."""
        a, b = measure(two_grow(lag), 1).requests
        assert (a.queued_time, a.time_to_first_token, a.e2e_latency) == (0, 1 + lag, 21 + lag)
        assert (b.queued_time, b.time_to_first_token) == (1, 2 + lag)
        assert (a.num_preemptions, b.num_preemptions) == (0, 1)

    def test_a_gap_of_two_is_a_prefill_of_somebody_else(self) -> None:
        """B's prefill costs A one step; B itself is out from its loss to its return."""
        found = measure(two_grow(), 1)
        lost = next(c for c in courses.read(two_grow()) if c.id == "B")
        (_, out), (back, _) = lost.runs
        gaps = found.inter_token_latency
        assert (gaps.percentile(50), gaps.max) == (1, back - out)
        a = next(c for c in courses.read(two_grow()) if c.id == "A")
        assert a.runs == [(0, 0), (2, 20)]

    def test_recomputed_tokens_and_hits(self) -> None:
        """The retraction evicts B's prompt too, so all that B had is computed again."""
        log = two_grow()
        found = measure(log, 1)
        (b,) = [course for course in courses.read(log) if course.num_preemptions]
        assert (found.num_preemptions, b.tokens_lost, found.own_hits) == (1, 20, 0)
        assert found.tokens_recomputed == 20
        assert (found.prefix_cache_queries, found.prefix_cache_hits) == (16, 0)
        assert found.generation_tokens == 40

    def test_usage_counts_what_can_be_evicted_as_free(self) -> None:
        log = two_grow()
        usage = measure(log, 1).kv_cache_usage
        ends = [it.free_end + it.evictable_end for it in rebuild(log)]
        assert usage == [1 - end / 40 for end in ends]
        assert max(usage) == 1.0
        assert usage[-1] == 0.0

    def test_the_tables_say_the_same(self) -> None:
        log = two_grow()
        table = frames.steps(log)
        assert list(table["kv_cache_usage"]) == measure(log, 1).kv_cache_usage
        assert (table["preempted"].sum(), table["resumed"].sum()) == (1, 1)
        assert table["emitted"].sum() == 40
        assert list(frames.requests(log)["tokens_recomputed"]) == [0, 20]

    def test_who_was_aborted_has_not_finished(self, content: Callable[[str], Any]) -> None:
        (recorded,) = [r for r in content("loop_overlap")["runs"] if r["kind"] == "timeout"]
        found = measure(replay(recorded).log, 1)
        aborts = [abort for entry in recorded["trace"] for abort in entry.get("abort", [])]
        turned_away = {str(rid) for rid, _, _ in aborts}
        assert turned_away
        assert {r.id for r in found.requests} - {r.id for r in found.finished} == turned_away
