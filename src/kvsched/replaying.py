"""``kvsched replay``: from options and a trace file to records, sentences or a table."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from kvsched import profiles, reserve
from kvsched.clock import Clock, CostClock
from kvsched.engine import Outcome, run
from kvsched.errors import InputError
from kvsched.explain.reservation import Telling
from kvsched.log import Finish, Log, Preempt, Refuse
from kvsched.metrics import measure
from kvsched.replay import OPTIONS, POLICIES, Answers, Feed, replay, replay_reserve, twin
from kvsched.reserve.as_log import as_log
from kvsched.reserve.records import Record
from kvsched.ui import progress
from kvsched.workload import Door, Limit
from kvsched.workload.trace import Line, Trace


def read(path: Path, policy: str, law: str, profile: str | None, sort: bool, **knobs: Any) -> Job:
    """Read the whole trace and every option, so that nothing is half-run.

    Raises InputError naming the option, or file, line and field.
    """
    try:
        limit = Limit.parse(law)
    except InputError as error:
        raise error.called({"max_tokens": "--max-tokens"}) from None
    trace = Trace(path, limit, sort)
    if (trace.unit == "ns") != (profile is not None):
        found = f"a trace in {trace.unit}" + (", and no profile" if profile is None else "")
        known = ", ".join(profiles.names())
        fix = "leave it out" if profile else f"give one of {known}, or write the trace in ticks"
        raise InputError("--profile", found, fix)
    clock = CostClock(profiles.load(profile)) if profile is not None else None
    budget = knobs.pop("token_budget")
    chunk = knobs.pop("chunk") or budget
    served = policy if policy in reserve.POLICIES else "continuous"
    try:
        config = reserve.Config(served, max_tokens=budget, chunk=chunk, **knobs)
    except InputError as error:
        raise error.called(OPTIONS) from None
    events = sum(1 for _ in progress(iter(trace), "reading", trace.events))
    return Job(trace, events, policy, config, clock)


@dataclass(frozen=True, slots=True)
class Job:
    """A trace that was read once without error, and how to replay it."""

    trace: Trace
    events: int
    policy: str
    config: reserve.Config
    clock: Clock | None

    def write(self, output: Path | None, told: bool) -> bool:
        """Write records, or sentences. True unless the run got stuck."""
        if told and self.policy not in reserve.POLICIES:
            fix = "use --policy serial or continuous"
            raise InputError("--explain", f"{self.policy} writes events, not records", fix)
        with _opened(output) as stream:
            outcome = self._tell(stream) if told else self._record(stream)
        if outcome.verdict == "all_done":
            return True
        waiting = f"{len(outcome.cycle)} requests wait for ever"
        sys.stderr.write(f"kvsched: {outcome.verdict} at t={outcome.now}: {waiting}\n")
        return False

    def compare(self) -> list[dict[str, Any]]:
        """A row for each policy. The twins have no extension, so with one on they are left out."""
        plain = replace(reserve.Config(), **{k: getattr(self.config, k) for k in SHARED})
        extended = replace(self.config, policy="continuous") != plain
        return [self._row(policy) for policy in (POLICIES[:2] if extended else POLICIES)]

    def _lines(self, label: str) -> Iterator[Line]:
        return progress(iter(self.trace), label, self.events)

    def _record(self, stream: IO[str]) -> Outcome:
        def write(record: dict[str, Any]) -> None:
            stream.write(json.dumps(record, separators=(",", ":")) + "\n")

        return replay(self._lines("replaying"), self.policy, self.config, self.clock, write)

    def _tell(self, stream: IO[str]) -> Outcome:
        told = Telling(self.config)

        def write(record: Record) -> None:
            stream.writelines(f"t={record.t}: {text}\n" for text in told.see(record))

        return replay_reserve(self._lines("replaying"), self.config, self.clock, write)

    def _row(self, policy: str) -> dict[str, Any]:
        if policy in reserve.POLICIES:
            config = replace(self.config, policy=policy)
            kept: list[Record] = []
            outcome = replay_reserve(self._lines(policy), config, self.clock, kept.append)
            log = as_log(kept)
        else:
            log, answers = Log(), Answers()
            feed = Feed(self._lines(policy), answers)
            door = Door(self.config.blocks, self.config.block_size)
            scheduler = twin(policy, self.config, log)
            outcome = run(scheduler, feed, log, self.clock, answers, door=door)
        return {"policy": policy, "run": outcome.verdict, **_counts(log), **_times(log)}


SHARED = ("block_size", "blocks", "max_tokens", "max_rows", "chunk")
"""Knobs that the twins have too."""


def _counts(log: Log) -> dict[str, Any]:
    kinds = Counter(type(entry.event) for entry in log.entries)
    ends = [entry.event for entry in log.entries if isinstance(entry.event, Finish)]
    return {
        "done": sum(end.reason in ("length", "stop") for end in ends),
        "refused": kinds[Refuse],
        "preempted": kinds[Preempt],
        "end": log.ends[-1] if log.ends else 0,
    }


def _times(log: Log) -> dict[str, Any]:
    """What the clients saw."""
    names = ("ttft", "p99", "e2e", "p99 e2e", "redone")
    found = measure(log, second=1)
    latencies = (found.time_to_first_token, found.e2e_latency)
    values: list[float] = []
    for times in latencies:
        values += (round(times.mean, 1), times.percentile(99)) if times.count else (0, 0)
    values.append(found.tokens_recomputed)
    return dict(zip(names, values, strict=True))


@contextmanager
def _opened(output: Path | None) -> Iterator[IO[str]]:
    """Standard output; or a file that appears whole, or not at all."""
    if output is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    part = output.with_name(f"{output.name}.part")
    try:
        with part.open("w", encoding="utf-8", newline="\n") as stream:
            yield stream
        part.replace(output)
    except OSError as error:
        problem = f"cannot be written ({error.strerror})"
        raise InputError(f"--output {output}", problem, "check the path") from None
    finally:
        part.unlink(missing_ok=True)
