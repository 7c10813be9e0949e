"""One trace under several policies: a row of counts and latencies for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from kvsched import reserve
from kvsched.clock import Clock
from kvsched.engine import run
from kvsched.log import Finish, Log, Preempt, Refuse
from kvsched.metrics import measure
from kvsched.replay import POLICIES, Answers, Feed, replay_reserve, twin
from kvsched.reserve.as_log import as_log
from kvsched.reserve.records import Record
from kvsched.workload import Door
from kvsched.workload.trace import Line

SHARED = ("block_size", "blocks", "max_tokens", "max_rows", "chunk")
"""Knobs that the twins have too."""


def policies(config: reserve.Config) -> tuple[str, ...]:
    """Those that know the configuration: the twins have no extension of the simulator's."""
    plain = replace(reserve.Config(), **{name: getattr(config, name) for name in SHARED})
    return POLICIES if replace(config, policy="continuous") == plain else reserve.POLICIES


def row(
    policy: str, lines: Iterator[Line], config: reserve.Config, clock: Clock | None = None
) -> dict[str, Any]:
    """How a trace went under a policy.

    ``run`` is the verdict; then requests done, refused, preempted; the time of the end; mean and
    99th percentile of TTFT and of end-to-end latency, in the clock's units; tokens redone.
    """
    if policy in reserve.POLICIES:
        kept: list[Record] = []
        outcome = replay_reserve(lines, replace(config, policy=policy), clock, kept.append)
        log = as_log(kept)
    else:
        log, answers = Log(), Answers()
        door = Door(config.blocks, config.block_size)
        scheduler = twin(policy, config, log)
        outcome = run(scheduler, Feed(lines, answers), log, clock, answers, door=door)
    return {"policy": policy, "run": outcome.verdict, **_counts(log), **_times(log)}


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
