"""The tests of a step as bars, as in ``views/panels.py``; memory is counted in tokens here.

``memory``: what is spoken for and what is asked, against free and evictable tokens; the engine's
test is strict, so one token counts as spoken for. ``tokens``: what the pass may still compute.
"""

from __future__ import annotations

from math import floor
from typing import Any

from kvsched.contract import RESERVATION, SLOT, TOKEN, Denial
from kvsched.sglang.events import Offer, Retract
from kvsched.sglang.steps import Iteration
from kvsched.views.panels import BINDS, PASSES, UNREACHED, Row
from kvsched.views.sglang.follow import Moment

ORDER = (SLOT, RESERVATION, TOKEN)


def panel(moment: Moment, config: dict[str, Any]) -> dict[str, Any]:
    """What the player's panel of tests shows in a step.

    ``kind``: ``retraction`` where the next tokens did not fit, ``denied``, ``admitted`` or ``idle``
    as in vLLM's. ``full``: is batch_is_full set?
    """
    it = moment.it
    return {**_shown(it, config), "full": it.full}


def _shown(it: Iteration, config: dict[str, Any]) -> dict[str, Any]:
    if it.of(Retract):
        return {"kind": "retraction", "rows": _retraction(it, config)}
    denial = it.denial
    if denial is not None and denial.test in ORDER:
        return {"kind": "denied", "id": denial.id, "rows": _denied(it, denial, config)}
    added = [offer for offer in it.of(Offer) if offer.extent is not None]
    if added:
        last = added[-1]
        rows = _admitted(it, last, config)
        return {"kind": "admitted", "id": last.id, "of": len(added), "rows": rows}
    return {"kind": "idle", "rows": [_slots(it, config), *_pool(it, config)]}


def _retraction(it: Iteration, config: dict[str, Any]) -> list[Row]:
    """The check that failed, who went, and what the pool held before and after."""
    (event,) = it.of(Retract)
    whole = _pages(config)
    rows: list[Row] = []
    victims = [e for e in it.preempted if e.id in event.victims]
    if victims and victims[0].denial is not None:
        need, free = victims[0].denial.need, victims[0].denial.free
        rows.append(["decode", BINDS, 0, need, 0, 0, free, list(event.victims)])
        before, after = whole - victims[0].free_before, whole - victims[-1].free_after
        rows.append(["relief", PASSES, after, before - after, 0, 0, whole])
    return [*rows, _slots(it, config)]


def _denied(it: Iteration, denial: Denial, config: dict[str, Any]) -> list[Row]:
    binding = ORDER.index(denial.test)
    states = [PASSES] * binding + [BINDS] + [UNREACHED] * (2 - binding)
    slots = config["max_running_requests"]
    if denial.test == SLOT:
        taken, asked = slots - denial.free, denial.need
    else:
        taken, asked = len(it.running), 1
    memory = denial if denial.test == RESERVATION else Denial(denial.id, RESERVATION, 0)
    spent = denial if denial.test == TOKEN else Denial(denial.id, TOKEN, 0)
    return [
        ["slots", states[0], taken, asked, 0, 0, slots],
        ["memory", states[1], memory.reserved, memory.need, 0, 0, memory.free],
        ["left", states[2], 0, spent.need, 0, 0, spent.free],
    ]


def _admitted(it: Iteration, offer: Offer, config: dict[str, Any]) -> list[Row]:
    """The last one let in: it passed everything, and the pass is as it left it."""
    rows = [_slots(it, config)]
    if offer.asked is not None and offer.left is not None:
        rows.append(["memory", PASSES, 0, offer.asked, 0, 0, floor(offer.left)])
    computed = sum(end - start for _, start, end in it.rows)
    rows.append(["tokens", PASSES, computed, 0, 0, 0, config["max_prefill_tokens"]])
    return rows


def _slots(it: Iteration, config: dict[str, Any]) -> Row:
    taken = set(it.running) | {request_id for request_id, _, _ in it.rows}
    return ["slots", PASSES, len(taken), 0, 0, 0, config["max_running_requests"]]


def _pool(it: Iteration, config: dict[str, Any]) -> list[Row]:
    whole, size = _pages(config), config["page_size"]
    held = whole - (it.free + it.evictable) // size
    return [["blocks", PASSES, held, 0, 0, 0, whole]]


def _pages(config: dict[str, Any]) -> int:
    return int(config["max_total_tokens"]) // int(config["page_size"])
