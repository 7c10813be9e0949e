"""A run as pandas tables: its steps, its requests, its events.

Times are in the clock's units, whole numbers. What has not happened is missing (``<NA>``).
"""

from __future__ import annotations

from typing import Any

import pandas as pd  # type: ignore[import-untyped]

from kvsched.log import Admit, Event, Finish, Log, Preempt, Resume, record
from kvsched.metrics import RequestMetrics, measure, usable_blocks
from kvsched.reader import of_engine
from kvsched.sglang.records import records
from kvsched.steps import StepRecord, rebuild

STEP = {
    "step": "int64", "start": "int64", "end": "Int64", "tokens": "int64", "emitted": "int64",
    "running": "int64", "waiting": "int64", "skipped": "int64", "admitted": "int64",
    "resumed": "int64", "preempted": "int64", "finished": "int64", "denied": "string",
    "test": "string", "free": "int64", "kv_cache_usage": "float64",
}  # fmt: skip
REQUEST = {
    "id": "string", "arrival_time": "int64", "num_prompt_tokens": "int64",
    "num_output_tokens": "int64", "num_preemptions": "int64", "tokens_recomputed": "int64",
    "own_hits": "int64", "shared_hits": "int64", "queued_time": "Int64",
    "time_to_first_token": "Int64", "prefill_time": "Int64", "decode_time": "Int64",
    "inference_time": "Int64", "e2e_latency": "Int64", "time_per_output_token": "Float64",
}  # fmt: skip
"""Columns and their types; a capital letter means that a value may be missing."""


def steps(log: Log) -> pd.DataFrame:
    """One row a step, by its number, of a log of level EVENTS.

    ``start`` and ``end`` of its pass. ``tokens`` computed; ``emitted`` to clients. ``running``,
    ``waiting``, ``skipped``: requests there after ``schedule()``. ``admitted`` for the first time,
    ``resumed``, ``preempted``, ``finished``: requests to which that happened in the step.
    ``denied``, ``test``: the request that was refused and the test that bound. ``free``,
    ``kv_cache_usage``: blocks free after ``update()``, and the share of the others.

    Raises InputError for a log of milestones alone.
    """
    usable = usable_blocks(log)
    rebuilt = of_engine(log, {"vllm": rebuild, "sglang": records})(log)
    return _table([_step(r, log, usable) for r in rebuilt], STEP)


def requests(log: Log) -> pd.DataFrame:
    """One row a request, by its id, in order of arrival: what ``RequestMetrics`` says of it."""
    return _table([_request(r) for r in measure(log).requests], REQUEST)


def events(log: Log, *kinds: type[Event]) -> pd.DataFrame:
    """One row an event of these kinds, or of all, in the order in which they happened.

    Columns: ``step``, ``phase``, ``event``, then the fields of any kind among them; those of a
    denial as ``denial.test`` and so on.
    """
    entries = log.of(*kinds) if kinds else log.entries
    return pd.json_normalize([record(entry) for entry in entries]).convert_dtypes()


def _table(rows: list[list[Any]], columns: dict[str, str]) -> pd.DataFrame:
    index, *_ = columns
    return pd.DataFrame(rows, columns=list(columns)).astype(columns).set_index(index)


def _step(r: StepRecord, log: Log, usable: int) -> list[Any]:
    """The values of STEP."""
    resumed = len(r.of(Resume))
    denial = r.denial
    return [
        r.step,
        r.now,
        log.ends[r.step] if r.step < len(log.ends) else None,
        sum(r.scheduled.values()),
        sum(r.emitted.values()),
        len(r.running),
        len(r.waiting),
        len(r.skipped),
        len(r.of(Admit)) - resumed,
        resumed,
        len(r.of(Preempt)),
        len(r.of(Finish)),
        denial.id if denial is not None else None,
        denial.test if denial is not None else None,
        r.free_end,
        1 - r.free_end / usable,
    ]


def _request(r: RequestMetrics) -> list[Any]:
    """The values of REQUEST."""
    return [getattr(r, name) for name in REQUEST]
