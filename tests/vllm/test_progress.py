"""Whom the order of victims protects under FCFS, and from what follows that everybody ends."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kvsched.engine import Engine
from kvsched.log import Log, Preempt
from kvsched.request import Request
from kvsched.vllm import Config, Scheduler
from kvsched.whatif import PassingOver
from kvsched.workload import Arrival

STREAMS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 40), st.integers(1, 40)), min_size=2, max_size=14
)
"""Steps after the one before, prompt and outputs: at most 79 tokens of 80 that the pool holds."""
KNOBS = st.fixed_dictionaries(
    {
        "watermark": st.sampled_from([0.0, 0.1, 0.5]),
        "max_num_seqs": st.integers(1, 8),
        "max_num_batched_tokens": st.integers(8, 64),
        "enable_prefix_caching": st.booleans(),
        "scheduler_reserve_full_isl": st.booleans(),
    }
)


def started(stream: list[tuple[int, int, int]], knobs: dict[str, Any]) -> tuple[Engine, Scheduler]:
    at, arrivals = 0, []
    for i, (gap, prompt, output) in enumerate(stream):
        at += gap
        arrivals.append(Arrival(at, Request(f"r{i:02}", ((1000 * i, prompt),), output, at)))
    log = Log()
    scheduler = Scheduler(Config(21, 4, max_model_len=80, **knobs), log)
    return Engine(scheduler, arrivals, log), scheduler


@settings(max_examples=60, deadline=None)
@given(STREAMS, KNOBS)
def test_nobody_is_thrown_out_for_who_came_later_and_everybody_ends(
    stream: list[tuple[int, int, int]], knobs: dict[str, Any]
) -> None:
    """Who runs came before all who wait; so the eldest always gets on, until it ends."""
    engine, scheduler = started(stream, knobs)
    while not engine.done:
        assert engine.steps < 5000
        engine.step()
        names = [r.id for r in (*scheduler.running, *scheduler.waiting)]
        assert names == sorted(names)
    for entry in engine.log.of(Preempt):
        denial = entry.event.denial
        assert denial is not None
        assert denial.id <= entry.event.id


def test_passing_over_breaks_it() -> None:
    """The same stream under ``continue``: somebody runs who came after one who waits."""
    log = Log()
    arrivals = [
        Arrival(0, Request("r00", ((0, 40),), 20)),
        Arrival(0, Request("r01", ((1000, 60),), 8)),
        Arrival(0, Request("r02", ((2000, 8),), 8)),
    ]
    scheduler = PassingOver(Config(21, 4, max_model_len=80), log)
    engine = Engine(scheduler, arrivals, log)
    engine.step()
    assert [r.id for r in scheduler.running] == ["r00", "r02"]
