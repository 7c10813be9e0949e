"""One waiting queue under eight orders, and why each request stands where it stands."""

from __future__ import annotations

from typing import Any

from kvsched.sglang.policy import LPM_LIMIT
from kvsched.views.ordering_figure import draw, table
from kvsched.views.ordering_queue import LONG, WAITING, sglang_pass, vllm_queue
from kvsched.views.ordering_reasons import SGLANG, VLLM
from kvsched.views.params import Number
from kvsched.views.view import Data, View

ORDERS = (
    ("vLLM fcfs", "Order of arrival. A was thrown out and stands in front."),
    ("vLLM priority", "Smallest (priority, arrival, id) first. A stands where its key puts it."),
    ("SGLang fcfs", "Nothing is sorted. A was thrown out and stands at the end."),
    ("lpm", "Longest cached prefix first; of those that share an uncached one, one goes early."),
    ("dfs-weight", "Down the tree of prefixes, to where most of the queue waits."),
    ("lof", "Longest allowed output first."),
    ("random", "Drawn anew in each pass."),
    ("routing-key", "Keys that run already first, the most frequent before the others."),
)
"""Name and rule; all but the first two are SGLang's ``schedule_policy``."""


def compute(more: int, cached: int, seed: int) -> Data:
    """The same queue under every order."""
    found = {r.id: r.prefix_len for r in sglang_pass("lpm", 0, cached, seed)[0].waiting}
    orders = [_order(name, found, more, cached, seed) for name, _ in ORDERS]
    queued = len(WAITING) + more
    heads: dict[str, list[str]] = {}
    for order in orders:
        heads.setdefault(order["rows"][0]["id"], []).append(order["name"])
    first = "; ".join(f"{head} under {', '.join(names)}" for head, names in sorted(heads.items()))
    return {
        "queued": queued,
        "picks": [name for name, _ in ORDERS],
        "orders": orders,
        "says": [_says(order, queued) for order in orders],
        "sentence": f"{queued} requests wait. Of A to H the first is {first}.",
        "caption": (
            "Above: A to H in the order picked, with each one's place in the queue, its prompt, "
            f"and what decided. {queued} requests wait; A has run before. Below: all eight orders. "
            "The cached part is drawn in every order, also where the order does not look at it. "
            "Rules of vLLM 0.28.0 and SGLang 0.5.18."
        ),
        "alt": "Eight orders of the requests A to H. "
        + " ".join(f"{order['name']}: {_ids(order)}." for order in orders),
    }


def _order(name: str, found: dict[str, int], more: int, cached: int, seed: int) -> dict[str, Any]:
    """One order: a row for each of A to H, as they are tried.

    ``active``: False where lpm has given up. ``lookups``: of prefixes, for this one pass.
    """
    policy = name.removeprefix("vLLM ").removeprefix("SGLang ")
    active, lookups = True, 0
    if name.startswith("vLLM"):
        ids = vllm_queue(policy, more)
        why = {w.id: VLLM[policy](w) for w in WAITING}
    else:
        scheduler, lookups = sglang_pass(policy, more, cached, seed)
        queue = scheduler.waiting
        in_force = scheduler.policy.active(queue)
        active = in_force == policy
        ids = [r.id for r in queue]
        why = {r.id: SGLANG[in_force](r, scheduler) for r in queue}
    places = {request_id: place for place, request_id in enumerate(ids, 1)}
    rows = [
        {
            "id": w.id,
            "place": places[w.id],
            "prompt": w.prefix + w.own,
            "cached": found[w.id],
            "reason": why[w.id],
        }
        for w in sorted(WAITING, key=lambda w: places[w.id])
    ]
    return {"name": name, "rows": rows, "active": active, "lookups": lookups}


def _says(order: dict[str, Any], queued: int) -> str:
    """One order in words."""
    rule = dict(ORDERS)[order["name"]]
    if not order["active"]:
        rule = f"{queued} wait, more than {LPM_LIMIT}: nothing is looked up or sorted."
    looked = f" {order['lookups']} prefixes looked up." if order["lookups"] else ""
    return f"{order['name']}: {_ids(order)}. {rule}{looked}"


def _ids(order: dict[str, Any]) -> str:
    return " ".join(row["id"] for row in order["rows"])


VIEW = View(
    name="ordering",
    renderer="picks",
    label="One queue, eight orders",
    compute=compute,
    draw=draw,
    table=table,
    params=(
        Number("more", "more requests behind H", 0, 0, 160),
        Number("cached", "cached tokens of the long prefix", LONG, 0, LONG, 100),
        Number("seed", "seed of random", 0, 0, 20),
    ),
    selection={"pick": 3},
)
