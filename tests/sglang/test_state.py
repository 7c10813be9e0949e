"""The derived states: of the live scheduler, of its log, and of the recordings are the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kvsched.conform.sglang.moves import moves
from kvsched.conform.sglang.replay import engine_of
from kvsched.contract import Plan
from kvsched.sglang import Scheduler, State, derived_state, rebuild
from kvsched.sglang.req import Req
from kvsched.sglang.state import HOLDING

GOLDEN = Path(__file__).parent.parent / "golden" / "sglang"
OVER = ("FINISHED", "GONE")
LOOPS = ("loop", "loop_overlap")


class Seen(NamedTuple):
    """What the replay of every recorded loop showed."""

    wrong: list[str]
    moves: Counter[tuple[str, str]]
    compared: int


def recorded_state(rid: int, where: dict[str, set[Any]]) -> str:
    """The first that applies."""
    is_in = {name for name, members in where.items() if rid in members}
    return next(
        state
        for state, holds in (
            ("FINISHED_LINGER", "finished" in is_in and is_in & {"running", "rows", "chunked"}),
            ("FINISHED", "finished" in is_in),
            ("RETRACTED", "waiting" in is_in and "retracted" in is_in),
            ("WAITING", "waiting" in is_in),
            ("CHUNKING", "chunked" in is_in),
            ("RUNNING", "running" in is_in),
            ("PREFILLED", "prefills" in is_in),
            ("RUNNING_MIXED", "riders" in is_in),
            ("GONE", "gone" in is_in),
            ("LOST", True),
        )
        if holds
    )


def recorded_states(run: dict[str, Any]) -> Iterator[dict[str, str]]:
    """States after schedule(), from the recording alone, of requests that have arrived."""
    wait: list[int] = []
    running: list[int] = []
    finished: set[int] = set()
    retracted: set[int] = set()
    gone: set[int] = set()
    arrived: set[int] = set()
    for entry in run["trace"]:
        wait, running = entry.get("wait", wait), entry.get("run", running)
        arrived |= set(entry.get("arr", ()))
        gone |= {rid for rid, _, _ in entry.get("abort", ())}
        calls = entry.get("adder", {}).get("calls", ())
        prefill = entry["k"] in "PM"
        rows = [row[0] if prefill else row for row in entry.get("rows", ())]
        count = sum(1 for c in calls if c[0] == "chunk" or (c[0] == "add" and c[2] is not None))
        prefills = rows[:count] if prefill else []
        riders = rows[count:] if prefill else []
        retracted |= {int(rid) for c in calls if c[0] == "preempt" and c[3] for rid in c[2]}
        retracted -= set(prefills)
        retracted |= set(entry.get("retract", {}).get("retracted", ()))
        chunked = entry.get("chunked") if prefill else None

        where = {
            "waiting": set(wait),
            "running": set(running),
            "prefills": set(prefills),
            "riders": set(riders),
            "rows": set(rows),
            "chunked": {chunked},
            "finished": finished,
            "retracted": retracted,
            "gone": gone,
        }
        yield {str(rid): recorded_state(rid, where) for rid in arrived}
        finished |= set(entry.get("fin", ()))


def wrong_memory(
    scheduler: Scheduler, reqs: dict[str, Req], states: dict[str, str]
) -> Iterator[str]:
    """Who holds memory holds a slot, and both go with the state; each is in one place."""
    places = Counter(r.id for r in (*scheduler.waiting, *scheduler.running))
    if scheduler.chunked_req is not None:
        places[scheduler.chunked_req.id] += 1
    yield from (f"{rid} is in {count} places" for rid, count in places.items() if count > 1)
    for rid, state in states.items():
        r, holds = reqs[rid], state in HOLDING
        if (holds, holds) != (r.has_slot, bool(r.pages)):
            yield f"{rid} is {state} and holds slot {r.has_slot}, {len(r.pages)} pages"
        if state == "WAITING" and (r.num_output_tokens or r.retraction_count):
            yield f"{rid} waits and was here before"
        if state == "RETRACTED" and (not r.retraction_count or r.inflight_middle_chunks):
            yield f"{rid} is retracted and {r.retraction_count} {r.inflight_middle_chunks}"
        if holds and (r.is_retracted or (scheduler.kv.tree is not None and r.last_node is None)):
            yield f"{rid} holds memory and is_retracted or has no node"


class Watched(Scheduler):
    """Notes every state right after schedule(); who is done, or gone, only once."""

    def watch(self) -> None:
        self.reqs: dict[str, Req] = {}
        self.states: dict[str, str] = {}
        self.wrong: list[str] = []

    def schedule(self, now: int) -> Plan:
        self.reqs = {i: r for i, r in self.reqs.items() if self.states.get(i) not in OVER}
        self.reqs.update(self.requests)
        plan = super().schedule(now)
        self.states = self.check()
        return plan

    def check(self) -> dict[str, str]:
        states = {i: derived_state(r, self).value for i, r in self.reqs.items()}
        self.wrong.extend(wrong_memory(self, self.reqs, states))
        return states


def look(run: dict[str, Any], seen: Seen) -> Seen:
    """One replay, looked at after every schedule() and after every update()."""
    engine = engine_of(run)
    scheduler = engine.scheduler
    assert isinstance(scheduler, Scheduler)
    scheduler.__class__ = Watched
    assert isinstance(scheduler, Watched)
    scheduler.watch()
    before: dict[str, str] = {}
    steps: list[dict[str, str]] = []
    for step, expected in enumerate(recorded_states(run)):
        engine.step()
        here = scheduler.states
        over = {i: s for i, s in expected.items() if s in OVER and i not in here}
        if {**here, **over} != expected:
            seen.wrong.append(f"{run['kind']} {run['seed']} step {step}: {here} not {expected}")
        scheduler.check()
        seen.moves.update((s, here[i]) for i, s in before.items() if here.get(i, s) != s)
        before = here
        steps.append({i: s for i, s in here.items() if s not in OVER})
    for it, states in zip(rebuild(engine.log), steps, strict=True):
        if {i: s[0] for i, s in it.live.items()} != states:
            seen.wrong.append(f"{run['kind']} {run['seed']}: the log of {it.step} says otherwise")
    seen.wrong.extend(scheduler.wrong)
    return seen._replace(compared=seen.compared + sum(map(len, steps)))


@pytest.fixture(scope="module")
def seen(content: Any) -> Seen:
    """Every recorded loop."""
    result = Seen([], Counter(), 0)
    for name in LOOPS:
        for run in content(name)["runs"]:
            result = look(run, result)
    return result


def test_the_states_follow_from_the_recordings(seen: Seen) -> None:
    assert seen.wrong == []
    assert seen.compared > 100_000


def test_only_these_moves_occur(seen: Seen) -> None:
    """From one schedule() to the next; a request that waits has never run."""
    assert set(seen.moves) <= {
        ("WAITING", "PREFILLED"),
        ("WAITING", "CHUNKING"),
        ("WAITING", "GONE"),
        ("CHUNKING", "PREFILLED"),
        ("PREFILLED", "RUNNING"),
        ("PREFILLED", "RUNNING_MIXED"),
        ("PREFILLED", "RETRACTED"),
        ("PREFILLED", "FINISHED"),
        ("PREFILLED", "FINISHED_LINGER"),
        ("RUNNING", "RUNNING_MIXED"),
        ("RUNNING", "RETRACTED"),
        ("RUNNING", "FINISHED_LINGER"),
        ("RUNNING", "FINISHED"),
        ("RUNNING", "LOST"),
        ("RUNNING_MIXED", "RUNNING"),
        ("RUNNING_MIXED", "FINISHED"),
        ("RUNNING_MIXED", "FINISHED_LINGER"),
        ("RUNNING_MIXED", "RETRACTED"),
        ("RETRACTED", "PREFILLED"),
        ("RETRACTED", "CHUNKING"),
        ("FINISHED_LINGER", "FINISHED"),
    }


def test_one_request_of_all_is_lost(seen: Seen) -> None:
    assert seen.moves["RUNNING", "LOST"] == 1


def test_a_request_can_be_retracted_right_after_its_prefill(seen: Seen) -> None:
    """The prefill batch is merged and checked in the same call."""
    assert seen.moves["PREFILLED", "RETRACTED"] > 0


def test_the_count_of_moves_names_the_lost_request() -> None:
    counted = moves(GOLDEN)
    assert counted.lost == [(29, "0")]
    assert counted.counts[State.RUNNING, State.LOST] == 1
    assert counted.counts[State.CHUNKING, State.RETRACTED] == 0
