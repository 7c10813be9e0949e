"""A run as a trace that Perfetto and chrome://tracing open.

The Trace Event Format (a JSON object with ``traceEvents``): one thread a request, a span for each
display phase it is in, an instant for each preemption, counters for the pool and the queues.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvsched.board import LaneState
from kvsched.log import Log, Preempt
from kvsched.phases import phase
from kvsched.reader import of_engine
from kvsched.sglang.records import records
from kvsched.steps import StepRecord, rebuild
from kvsched.whole import whole

TICK_US = 1000
"""A run counted in ticks is drawn with one step a millisecond."""

Event = dict[str, Any]


def write(log: Log, path: Path) -> None:
    """Write the trace, whole or not at all. InputError if the place cannot be written."""
    body = {
        "traceEvents": list(events(log)),
        "displayTimeUnit": "ms",
        "otherData": {"engine": f"{log.engine} {log.version}", "tick": f"{TICK_US} us"},
    }
    with whole(path) as stream:
        stream.write(json.dumps(body))


def events(log: Log) -> Iterator[Event]:
    """The trace's events, in order of time within each request."""
    spans = _Spans(log.engine)
    yield {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": log.engine}}
    for record in of_engine(log, {"vllm": rebuild, "sglang": records})(log):
        yield from spans.see(record)
        yield _counter(record, "blocks", {"free": record.free, "cached": record.cached})
        waiting = len(record.waiting) + len(record.skipped)
        yield _counter(record, "requests", {"running": len(record.running), "waiting": waiting})
    yield from spans.close()


class _Spans:
    """Open spans by request; a span ends where the phase changes."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self.threads: dict[str, int] = {}
        self.open: dict[str, tuple[str, int]] = {}
        self.now = 0

    def see(self, record: StepRecord) -> Iterator[Event]:
        """Close and open spans as this step's phases say."""
        self.now = record.now * TICK_US
        for request_id, state in record.live.items():
            yield from self._name(request_id)
            name = self._phase(record, request_id, state)
            started = self.open.get(request_id)
            if started is None or started[0] != name:
                yield from self._end(request_id)
                self.open[request_id] = (name, self.now)
        for request_id in [i for i in self.open if i not in record.live]:
            yield from self._end(request_id)
        for event in record.of(Preempt):
            yield self._preemption(event)

    def close(self) -> Iterator[Event]:
        """End what is still open, one step after the last."""
        self.now += TICK_US
        for request_id in list(self.open):
            yield from self._end(request_id)

    def _phase(self, record: StepRecord, request_id: str, state: LaneState) -> str:
        prefilling = request_id in record.prefilling or record.scheduled.get(request_id, 0) > 1
        return phase(self.engine, state.status, prefilling=prefilling).name

    def _name(self, request_id: str) -> Iterator[Event]:
        if request_id not in self.threads:
            self.threads[request_id] = thread = len(self.threads) + 1
            yield {
                "ph": "M",
                "pid": 1,
                "tid": thread,
                "name": "thread_name",
                "args": {"name": request_id},
            }

    def _end(self, request_id: str) -> Iterator[Event]:
        if request_id in self.open:
            name, start = self.open.pop(request_id)
            yield {
                "ph": "X",
                "pid": 1,
                "tid": self.threads[request_id],
                "name": name,
                "ts": start,
                "dur": self.now - start,
            }

    def _preemption(self, event: Preempt) -> Event:
        cause = event.denial.id if event.denial is not None else "reset"
        return {
            "ph": "i",
            "s": "t",
            "pid": 1,
            "tid": self.threads[event.id],
            "name": "preempted",
            "ts": self.now,
            "args": {"for": cause, "tokens_lost": event.tokens_lost},
        }


def _counter(record: StepRecord, name: str, values: dict[str, int]) -> Event:
    return {"ph": "C", "pid": 1, "name": name, "ts": record.now * TICK_US, "args": values}
