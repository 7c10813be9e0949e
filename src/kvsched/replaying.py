"""``kvsched replay``: from options and a trace file to records, sentences or a table."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from kvsched import profiles, reserve
from kvsched.clock import Clock, CostClock
from kvsched.compare import policies, row
from kvsched.engine import Outcome
from kvsched.errors import InputError
from kvsched.explain.reservation import Telling
from kvsched.replay import OPTIONS, replay, replay_reserve
from kvsched.reserve.records import Record
from kvsched.ui import progress
from kvsched.whole import whole
from kvsched.workload import Limit
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
        count = len(outcome.cycle)
        waiting = "1 request waits for ever" if count == 1 else f"{count} requests wait for ever"
        sys.stderr.write(f"kvsched: {outcome.verdict} at t={outcome.now}: {waiting}\n")
        return False

    def compare(self) -> list[dict[str, Any]]:
        """A row for each policy that knows the configuration."""
        wanted = policies(self.config)
        return [row(policy, self._lines(policy), self.config, self.clock) for policy in wanted]

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


@contextmanager
def _opened(output: Path | None) -> Iterator[IO[str]]:
    """Standard output; or a file that appears whole, or not at all."""
    if output is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    with whole(output, "--output") as stream:
        yield stream
