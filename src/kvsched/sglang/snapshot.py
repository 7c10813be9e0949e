"""The scheduler between two calls, as the numbered invariants look at it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kvsched.contract import Plan
from kvsched.invariants import Snapshot
from kvsched.sglang.core import Core, ids

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kvsched.sglang.req import Req


def snapshot(scheduler: Core, plan: Plan) -> Snapshot:
    """Free are the pages of the pool, and those of the tree that stand in nobody's table.

    No budget bounds a pass: its first request may be of any length, so the pool is the limit.
    Who was lost by the named bug is nowhere and does not count as live; who else is nowhere, does.
    """
    config, kv = scheduler.config, scheduler.kv
    tables = {r.id: r.pages for r in scheduler.requests.values()}
    held = Counter(page for table in tables.values() for page in table)
    cached = kv.tree.all_pages() if kv.tree is not None else []
    return Snapshot(
        usable=range(1, config.num_pages + 1),
        free=[*kv.pool, *(page for page in cached if not held[page])],
        ref_cnt=[held[page] for page in range(config.num_pages + 1)],
        tables=tables,
        containers=_containers(scheduler),
        live=frozenset(scheduler.requests.keys() - scheduler.lost),
        tokens=config.max_total_tokens,
        slots=config.max_running_requests,
        scheduled=plan.scheduled,
    )


def _containers(scheduler: Core) -> dict[str, list[str]]:
    """Who is where; a request of the last pass stands there only if it is nowhere else."""
    chunked = [scheduler.chunked_req] if scheduler.chunked_req is not None else []
    places = {
        "waiting": _alive(scheduler.waiting),
        "running": _alive(scheduler.running),
        "chunked": _alive(chunked),
    }
    found = {r for names in places.values() for r in names}
    batch = scheduler.last_batch
    if batch is not None:
        unfinished = (r for r in batch.reqs if r.id not in found and r.has_slot)
        places["last_batch"] = _alive(unfinished)
    return places


def _alive(reqs: Iterable[Req]) -> list[str]:
    return list(ids(r for r in reqs if not r.over))
