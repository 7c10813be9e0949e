"""Is the twin's replay equal to the recording, in every field of every step?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kvsched.conform.audit import Totals
from kvsched.conform.recording import Recording, load
from kvsched.conform.replay import replay
from kvsched.log import Abort, Admit, Arrive, Finish, Preempt, Resume
from kvsched.steps import StepRecord, rebuild


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first field that differs. ``step`` None is the summary."""

    step: int | None
    field: str
    expected: Any
    got: Any
    context: str

    def text(self) -> str:
        """Both values and the state around them, over a few lines."""
        place = "summary" if self.step is None else f"step {self.step}"
        return (
            f"{place}, field {self.field}\n"
            f"  recorded: {_short(self.expected)}\n"
            f"  twin:     {_short(self.got)}\n{self.context}"
        )


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One recording's verdict: no divergence is a match."""

    name: str
    engine: str
    version: str
    path: str
    steps: int
    divergence: Divergence | None = None
    unsupported: str | None = None


def check(path: Any) -> CaseResult:
    """Replay one recording and compare. Raises InputError if the file cannot be used."""
    return compare(load(path))


def compare(recording: Recording) -> CaseResult:
    """Replay and compare a loaded recording."""
    log, stop = replay(recording)
    totals = Totals(recording.config["block_size"], bool(recording.config["enable_prefix_caching"]))
    divergence = None
    steps = 0
    for record in rebuild(log):
        if steps == len(recording.trace):
            break
        divergence = _first_difference(recording.trace[steps], step_fields(record), steps)
        if divergence is not None:
            break
        totals.see(record)
        steps += 1
    if divergence is None:
        divergence = _compare_end(recording, totals.summary(stop), len(log.times))
    return CaseResult(
        recording.name, recording.engine, recording.version, str(recording.path), steps, divergence
    )


def step_fields(record: StepRecord) -> dict[str, Any]:
    """A rebuilt step under the field names of format ``vllm-golden-1``."""
    admitted = record.of(Admit)
    return {
        "step": record.step,
        "ev": [_event(event) for event in record.of(Arrive, Abort)],
        "sched": [[request_id, tokens] for request_id, tokens in record.scheduled.items()],
        "new": [event.id for event in admitted if not isinstance(event, Resume)],
        "resumed": [event.id for event in record.of(Resume)],
        "preempted": [event.id for event in record.of(Preempt)],
        "alloc_fail": record.failures,
        "hits": {event.id: event.computed for event in admitted},
        "blocks": record.blocks,
        "finished_prev": record.ended_before,
        "free": record.free,
        "free_crc": record.free_crc,
        "cached": record.cached,
        "waiting": record.waiting,
        "skipped": [],
        "running": record.running,
        "live": {request_id: list(state) for request_id, state in record.live.items()},
        "emitted": record.emitted,
        "finished": [[event.id, event.reason] for event in record.of(Finish)],
        "free_end": record.free_end,
        "free_crc_end": record.free_crc_end,
    }


def _event(event: object) -> list[Any]:
    if isinstance(event, Arrive):
        return ["add", event.id]
    assert isinstance(event, Abort)
    return ["abort", event.id, event.status]


def _first_difference(
    recorded: dict[str, Any], got: dict[str, Any], step: int
) -> Divergence | None:
    for name in _fields(recorded, got):
        if not _same(name, recorded.get(name), got.get(name)):
            return Divergence(
                step, name, recorded.get(name), got.get(name), _both_states(recorded, got)
            )
    return None


def _fields(recorded: dict[str, Any], got: dict[str, Any]) -> Iterator[str]:
    """The twin's fields in their order, then what only the recording has."""
    yield from got
    yield from (name for name in recorded if name not in got)


def _same(name: str, recorded: Any, got: Any) -> bool:
    """Equal; ``live`` is also in the same order, the order of arrival."""
    return bool(recorded == got) and (name != "live" or list(recorded) == list(got))


def _compare_end(recording: Recording, summary: dict[str, object], steps: int) -> Divergence | None:
    if steps != len(recording.trace):
        return Divergence(None, "steps", len(recording.trace), steps, "  the runs end apart")
    for name, expected in recording.summary.items():
        if summary.get(name) != expected:
            return Divergence(None, name, expected, summary.get(name), "")
    return None


def _both_states(recorded: dict[str, Any], got: dict[str, Any]) -> str:
    lines = []
    for title, side in (("recorded", recorded), ("twin", got)):
        lines.append(f"  {title} state:")
        for name in ("sched", "preempted", "alloc_fail", "waiting", "running", "free", "cached"):
            lines.append(f"    {name:<10} {_short(side.get(name))}")
    return "\n".join(lines)


def _short(value: Any, limit: int = 200) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"
