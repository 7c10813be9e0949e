"""The tests of a step as bars: what is used, what is asked, and the limit both must stay below.

A row is ``[test, state, used, asked, cached, headroom, limit]``, lengths in the test's own unit.
``state``: ``passes``, ``binds``, ``unreached`` (a test before it refused) or ``off``.
"""

from __future__ import annotations

from typing import Any

from kvsched.contract import BLOCK, RESERVED, SLOT, TOKEN, WATERMARK, WHOLE_SEQUENCE, Denial
from kvsched.log import Preempt
from kvsched.steps import StepRecord
from kvsched.views.follow import Asked, Moment

Row = list[Any]

PASSES, BINDS, UNREACHED, OFF = "passes", "binds", "unreached", "off"


def panel(moment: Moment, config: dict[str, Any]) -> dict[str, Any]:
    """What the player's panel of tests shows in a step.

    ``kind``: ``growth`` failed and admission is closed; ``denied`` and ``admitted`` show one
    request at the tests; ``idle`` is a step in which nobody came to them.
    """
    record = moment.record
    growths = [event for event in record.of(Preempt) if event.denial is not None]
    if growths:
        return {"kind": "growth", "rows": _growth(record, growths, config)}
    denial = record.denial
    if denial is not None and (denial.of_allocator or denial.test in (TOKEN, SLOT)):
        rows = _denied(record, denial, config)
        return {"kind": "denied", "id": denial.id, "have": denial.have, "rows": rows}
    if moment.asked:
        request_id, asked = list(moment.asked.items())[-1]
        return {
            "kind": "admitted",
            "id": request_id,
            "of": len(moment.asked),
            "rows": _admitted(record, request_id, asked, config),
        }
    return {"kind": "idle", "rows": [*_spent(record, config), _pool(record, config)]}


def _growth(record: StepRecord, growths: list[Preempt], config: dict[str, Any]) -> list[Row]:
    """Each growth that failed, with grower and victim; then what the step had used."""
    usable = config["num_gpu_blocks"] - 1
    rows: list[Row] = [
        ["growth", BINDS, 0, e.denial.need, 0, 0, e.denial.free, e.denial.id, e.id]
        for e in growths
        if e.denial is not None
    ]
    last = growths[-1]
    before, after = usable - growths[0].free_before, usable - last.free_after
    return [*rows, *_spent(record, config), ["relief", PASSES, after, before - after, 0, 0, usable]]


def _spent(record: StepRecord, config: dict[str, Any]) -> list[Row]:
    return [
        ["tokens", PASSES, sum(record.scheduled.values()), 0, 0, 0, _budget(config)],
        ["slots", PASSES, len(record.running) + record.slots, 0, 0, 0, config["max_num_seqs"]],
    ]


def _pool(record: StepRecord, config: dict[str, Any]) -> Row:
    usable = config["num_gpu_blocks"] - 1
    return ["blocks", PASSES, usable - record.free, 0, 0, 0, usable]


def _denied(record: StepRecord, denial: Denial, config: dict[str, Any]) -> list[Row]:
    spent = sum(record.scheduled.values())
    taken = len(record.running) + record.slots
    asks = denial.need if denial.test == TOKEN else 1
    order = [TOKEN, SLOT, WHOLE_SEQUENCE, BLOCK, WATERMARK]
    binding = order.index(BLOCK if denial.test == RESERVED else denial.test)
    states = [PASSES] * binding + [BINDS] + [UNREACHED] * (4 - binding)
    cached, free = denial.cached, denial.free
    whole = max(0, _whole(record, denial.id, config) - denial.have) if binding > 1 else 0
    if denial.test == WATERMARK and denial.need == whole and config["scheduler_reserve_full_isl"]:
        states[3] = UNREACHED
    need = denial.need if binding > 2 else 0
    rows: list[Row] = [
        ["tokens", states[0], spent, asks, 0, 0, _budget(config)],
        ["slots", states[1], taken, 1, 0, 0, config["max_num_seqs"]],
        ["whole", states[2], 0, whole, cached, 0, free],
        ["chunk", states[3], 0, need, cached, 0, denial.limit],
        ["watermark", states[4], 0, denial.need, cached, denial.headroom, denial.limit],
    ]
    return _switched(rows, config, denial.headroom)


def _admitted(
    record: StepRecord, request_id: str, asked: Asked, config: dict[str, Any]
) -> list[Row]:
    """The last one let in: it passed everything, and the step is as it left it."""
    spent = sum(record.scheduled.values()) - record.scheduled.get(request_id, 0)
    taken = len(record.running) + record.slots - 1
    whole = max(0, _whole(record, request_id, config) - asked.have)
    keep = int(config["watermark"] * config["num_gpu_blocks"]) if len(record.running) > 1 else 0
    rows: list[Row] = [
        ["tokens", PASSES, spent, 1, 0, 0, _budget(config)],
        ["slots", PASSES, taken, 1, 0, 0, config["max_num_seqs"]],
        ["whole", PASSES, 0, whole, asked.cached, 0, asked.free],
        ["chunk", PASSES, 0, asked.need, asked.cached, 0, asked.free],
        ["watermark", PASSES, 0, asked.need, asked.cached, keep, asked.free],
    ]
    return _switched(rows, config, keep)


def _switched(rows: list[Row], config: dict[str, Any], headroom: int) -> list[Row]:
    """The rows with those tests off that do not apply."""
    if not config["scheduler_reserve_full_isl"]:
        rows[2][1] = OFF
    if headroom == 0 and rows[4][1] != BINDS:
        rows[4][1] = OFF
    return rows


def _whole(record: StepRecord, request_id: str, config: dict[str, Any]) -> int:
    """Blocks that a request's whole known sequence fills."""
    tokens = min(record.live[request_id].num_tokens, int(config["max_model_len"]))
    return -(-tokens // int(config["block_size"]))


def _budget(config: dict[str, Any]) -> int:
    return int(config["max_num_batched_tokens"])
