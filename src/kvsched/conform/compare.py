"""Is the twin's replay equal to the recording, in every field of every step?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kvsched.conform.audit import Totals
from kvsched.conform.fields import first_format, second_format
from kvsched.conform.recording import Recording, load
from kvsched.conform.replay import replay
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


def check(path: Any) -> CaseResult:
    """Replay one recording and compare. Raises InputError if the file cannot be used."""
    return compare(load(path))


def compare(recording: Recording) -> CaseResult:
    """Replay and compare a loaded recording."""
    run = replay(recording, len(recording.trace))
    first = recording.format == "vllm-golden-1"
    totals = Totals(run.config.block_size, first and run.config.enable_prefix_caching)
    divergence = None
    steps = 0
    for recorded, record in zip(recording.trace, rebuild(run.log), strict=False):
        fields = step_fields(recording, record, run.log.config)
        divergence = _first_difference(recorded, fields, steps)
        if divergence is not None:
            break
        totals.see(record)
        steps += 1
    if divergence is None:
        summary = (
            totals.first_format(run.stop)
            if first
            else totals.second_format(run.stop, run.log.config)
        )
        divergence = _compare_end(recording, summary, len(run.log.times))
    return _result(recording, steps, divergence)


def _result(recording: Recording, steps: int, divergence: Divergence | None) -> CaseResult:
    return CaseResult(
        recording.name,
        recording.engine,
        recording.version,
        str(recording.path),
        steps,
        divergence,
    )


def step_fields(recording: Recording, record: StepRecord, config: dict[str, Any]) -> dict[str, Any]:
    """A rebuilt step under the field names of the recording's format; the log's ``config``."""
    if recording.format == "vllm-golden-1":
        return first_format(record)
    return second_format(record, config)


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
    """Equal; ``live`` and ``live_end`` also in the same order, the order of arrival."""
    ordered = name in ("live", "live_end")
    return bool(recorded == got) and (not ordered or list(recorded) == list(got))


def _compare_end(recording: Recording, summary: dict[str, object], steps: int) -> Divergence | None:
    if steps != len(recording.trace):
        return Divergence(None, "steps", len(recording.trace), steps, "  the runs end apart")
    for name in _fields(recording.summary, summary):
        expected, got = recording.summary.get(name), summary.get(name)
        if expected != got:
            return Divergence(None, name, expected, got, "  every step matches")
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
