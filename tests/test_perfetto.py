"""The trace for tracing viewers: spans by phase, preemptions, counters; whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvsched import sglang
from kvsched.engine import run
from kvsched.errors import InputError
from kvsched.log import Log
from kvsched.perfetto import TICK_US, events, write
from kvsched.workload import Arrival


@pytest.fixture
def trace(case: Any) -> list[dict[str, Any]]:
    return list(events(case("seed_a_finish6").log))


def spans(trace: list[dict[str, Any]], name: str) -> list[tuple[str, int, int]]:
    """(phase, first step, steps) of one request's spans."""
    thread = next(e["tid"] for e in trace if e.get("args", {}).get("name") == name)
    found = [e for e in trace if e["ph"] == "X" and e["tid"] == thread]
    return [(e["name"], e["ts"] // TICK_US, e["dur"] // TICK_US) for e in found]


def test_a_run_of_sglang_is_drawn_by_the_same_phases() -> None:
    """A decodes, waits for B's prefill, and decodes again: it runs all the while."""
    log = Log()
    requests = [sglang.Request(name, ((100 * i, 8),), 20) for i, name in enumerate("AB", 1)]
    config = sglang.Config(max_total_tokens=40, schedule_conservativeness=0.0)
    run(sglang.Scheduler(config, log), [Arrival(0, r) for r in requests], log)
    found = list(events(log))
    assert spans(found, "A") == [("prefill", 0, 1), ("decode", 1, 20)]
    assert [name for name, _, _ in spans(found, "B")] == [
        "waiting", "prefill", "decode", "preempted", "prefill", "decode"
    ]  # fmt: skip
    (out,) = [e for e in found if e["ph"] == "i"]
    assert out["args"] == {"for": "A", "tokens_lost": 20}


def test_the_victim_is_out_for_five_steps(trace: list[dict[str, Any]]) -> None:
    assert spans(trace, "D") == [
        ("prefill", 0, 1),
        ("preempted", 1, 5),
        ("prefill", 6, 1),
        ("decode", 7, 38),
    ]


def test_a_preemption_says_for_whom_and_what_was_lost(trace: list[dict[str, Any]]) -> None:
    [event] = [e for e in trace if e["ph"] == "i"]
    assert event["args"] == {"for": "B", "tokens_lost": 8192}


def test_the_pool_is_counted_in_every_step(trace: list[dict[str, Any]]) -> None:
    free = [e["args"]["free"] for e in trace if e["ph"] == "C" and e["name"] == "blocks"]
    assert (len(free), free[0], free[1]) == (45, 1, 510)


def test_it_is_written_whole_or_not_at_all(case: Any, tmp_path: Path) -> None:
    log = case("seed_a_finish6").log
    write(log, tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    with pytest.raises(InputError, match="cannot be written"):
        write(log, tmp_path / "no" / "trace.json")
    assert [p.name for p in tmp_path.iterdir()] == ["trace.json"]
