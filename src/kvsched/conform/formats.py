"""The recording formats, field by field, as tests/golden/*/FORMAT.md describes them.

Values of ``config`` are left to the engine's own Config, so that its limits are written once.
"""

from __future__ import annotations

from typing import Any

from kvsched.errors import InputError
from kvsched.shape import (
    LARGEST,
    Check,
    a_list,
    all_of,
    an_object,
    array,
    cells,
    flag,
    integer,
    line,
    mapping,
    nullable,
    number,
    of_type,
    one_of,
    record,
    refused,
    row,
    tagged,
    word,
)

LONGEST_PROMPT = 10_000_000
"""Tokens; the longest context any published model claims."""

NONE = type(None)
_count = of_type(int)
_ids = all_of(str)
_events = array(a_list)
_positive = integer(1)
_runs = array(row(integer(), _positive), least=1)


def _prompt(value: Any) -> None:
    """Runs of token ids, at least one token and not absurdly many."""
    _runs(value)
    total = sum(count for _, count in value)
    if total > LONGEST_PROMPT:
        raise InputError("", f"{total} tokens", f"write at most {LONGEST_PROMPT}")


REQUEST: dict[str, Check] = {
    "id": word,
    "arrival_step": integer(),
    "arrival_time": number,
    "prompt": _prompt,
    "max_tokens": _positive,
    "priority": integer(-LARGEST),
}
_STOP = record(
    {},
    {
        "eos": integer(),
        "stop_ids": array(integer()),
        "min_tokens": integer(),
        "repetition": row(_positive, integer(), _positive),
    },
)
_GRAMMAR = record({"ready": nullable(integer(-LARGEST))}, {"error": flag, "reject_at": integer()})
_REMOTE = record(
    {"tokens": integer()},
    {
        "async": flag,
        "delay": integer(),
        "ask": integer(),
        "times": integer(),
        "fail": array(integer()),
        "fails": integer(),
        "send": integer(),
    },
)
_MORE_REQUEST: dict[str, Check] = {
    "grammar": _GRAMMAR,
    "remote": _REMOTE,
    "resumable": flag,
    "stop": _STOP,
    "sample": mapping(integer()),
    "drafts": array(integer(), least=1),
    "accepts": array(integer(), least=1),
}


def _event(fields: dict[str, Check], optional: dict[str, Check] | None = None) -> Check:
    always = {"step": integer(), "op": word}
    return record({**always, **fields}, {"when": one_of("pre", "mid"), **(optional or {})})


_EVENT = tagged(
    "op",
    {
        "abort": _event({"id": word}),
        "chunk": _event(
            {"id": word, "prompt": _prompt, "arrival_time": number},
            {"max_tokens": _positive, "stop": _STOP},
        ),
        "close": _event({"id": word}),
        "reset": _event({"running": flag}),
        "pause": _event({"state": one_of("none", "new", "all")}),
    },
)

_SCHEDULED: dict[str, Check] = {
    "sched": array(cells(str, int)),
    "new": _ids,
    "resumed": _ids,
    "preempted": _ids,
    "alloc_fail": _ids,
    "hits": mapping(_count),
    "blocks": mapping(all_of(int)),
    "finished_prev": _ids,
    "free": _count,
    "free_crc": _count,
    "cached": _count,
    "waiting": _ids,
    "skipped": _ids,
    "running": _ids,
}
_STEP_1 = record(
    {
        "step": _count,
        "ev": _events,
        **_SCHEDULED,
        "live": mapping(cells(str, int, int, int)),
        "emitted": _ids,
        "finished": array(cells(str, str)),
        "free_end": _count,
        "free_crc_end": _count,
    }
)

_live_2 = mapping(cells(str, *[int] * 8))
_ALWAYS_2: dict[str, Check] = {
    "step": _count,
    "ev": _events,
    "scheduled": flag,
    "update": of_type(int, NONE),
    "ev_mid": _events,
    "free_end": _count,
    "free_crc_end": _count,
    "cached_end": _count,
    "waiting_end": _ids,
    "skipped_end": _ids,
    "running_end": _ids,
    "slots_end": _count,
    "live_end": _live_2,
}
_SCHEDULED_2: dict[str, Check] = {
    **_SCHEDULED,
    "tried": array(cells(str, str, bool)),
    "inflight": _ids,
    "sampling": array(cells(str, int)),
    "slots": _count,
    "live": _live_2,
}
_SCHEDULED_2_MAYBE: dict[str, Check] = {
    "reserved": all_of(int),
    "kv_ask": array(cells(str, int, (int, NONE), bool)),
    "kv_load": array(cells(str, int, bool, list)),
    "drafts": mapping(_count),
}
_UPDATED_2: dict[str, Check] = {
    "emitted": array(cells(str, int)),
    "finished": array(cells(str, str, (int, str, NONE))),
}
_UPDATED_2_MAYBE: dict[str, Check] = {
    "kv_done": record({"recv": _ids, "sent": _ids, "invalid": all_of(int)}),
    "proposed": array(cells(str, int)),
}


def _step_2(scheduled: bool, updated: bool) -> Check:
    required, optional = dict(_ALWAYS_2), dict[str, Check]()
    if scheduled:
        required |= _SCHEDULED_2
        optional |= _SCHEDULED_2_MAYBE
    if updated:
        required |= _UPDATED_2
        optional |= _UPDATED_2_MAYBE
    return record(required, optional)


_STEPS_2 = {(s, u): _step_2(s, u) for s in (False, True) for u in (False, True)}


def _any_step_2(value: Any) -> None:
    """A step, with the fields that ``scheduled`` and ``update`` say are there."""
    an_object(value)
    _STEPS_2[value.get("scheduled") is not False, value.get("update") is not None](value)


def _consecutive(step: Check) -> Check:
    """A trace: steps 0, 1, 2, ... without gaps."""
    steps = array(step, least=1)

    def check(value: Any) -> None:
        steps(value)
        for position, entry in enumerate(value):
            if entry["step"] != position:
                error = refused(entry["step"], f"{position}: steps run 0, 1, 2, ... without gaps")
                raise InputError(f"[{position}].step", error.problem, error.fix)

    return check


_SUMMARY: dict[str, Check] = {
    "steps": _count,
    "preemptions": _count,
    "resumes": _count,
    "hit_tokens_new": _count,
    "hit_tokens_resumed": _count,
    "scheduled_tokens": _count,
    "output_tokens": _count,
    "stop": one_of("all_done", "stalled", "max_steps"),
}
_SUMMARY_1 = record(
    {
        **_SUMMARY,
        "preempt_steps": _count,
        "finished": _count,
        "idle_steps": _count,
        "phantom": nullable(array(cells(int, str, int, int))),
    }
)
_SUMMARY_2 = record(
    {
        **_SUMMARY,
        "preempt_in_flight": _count,
        "skipped_steps": _count,
        "kv_loads": _count,
        "finished": mapping(_count),
        "statuses": _ids,
    }
)

_HEAD: dict[str, Check] = {
    "format": word,
    "vllm": word,
    "name": word,
    "category": word,
    "note": line,
    "config": an_object,
    "max_idle": _positive,
    "max_steps": _positive,
}

FORMATS: dict[str, Check] = {
    "vllm-golden-1": record(
        {
            **_HEAD,
            "requests": array(record(REQUEST)),
            "aborts": array(record({"step": integer(), "id": word})),
            "summary": _SUMMARY_1,
            "trace": _consecutive(_STEP_1),
        }
    ),
    "vllm-golden-2": record(
        {
            **_HEAD,
            "facts": an_object,
            "requests": array(record(REQUEST, _MORE_REQUEST)),
            "events": array(_EVENT),
            "summary": _SUMMARY_2,
            "trace": _consecutive(_any_step_2),
        }
    ),
}
"""The check of each format this package reads, by the name in the field ``format``."""
