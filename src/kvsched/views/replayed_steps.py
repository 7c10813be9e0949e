"""What the player shows of a replay: the three budgets as bars, and each step in a few clauses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kvsched.explain.reservation import Telling
from kvsched.explain.words import listed, n, tokens
from kvsched.log import Log
from kvsched.reserve import Config
from kvsched.reserve import records as rec
from kvsched.reserve.as_pages import Moment
from kvsched.steps import StepRecord, rebuild
from kvsched.views.engines import VLLM, Engine
from kvsched.views.panels import BINDS, PASSES, UNREACHED, Row

FIRST: tuple[type[Any], ...] = (
    rec.AdmissionBlocked, rec.Rejected, rec.Cancelled, rec.CancelIgnored, rec.Dispatch,
    rec.Admitted, rec.Completed, rec.Released, rec.Arrival,
)  # fmt: skip
"""What is said of a step, the weightiest kind first."""
WAITS_FOR = {
    "serial": "its turn",
    "batch": "its batch",
    "credits": "promises to end",
    "draining": "pages to drain",
}
MOST = 3
"""Clauses of a step, the last of which says who computes."""


class Shown(NamedTuple):
    """A step for the player; nothing is ever found again, as nobody is thrown out."""

    record: StepRecord
    found: dict[str, int]
    moment: Moment


def engine(config: Config, moments: Sequence[Moment]) -> Engine:
    """The player's parts for one replay, whose log and moments ``as_pages`` gave."""

    def follow(log: Log) -> Iterator[Shown]:
        for record, moment in zip(rebuild(log), moments, strict=True):
            yield Shown(record, {}, moment)

    short = Short(config)
    return Engine(
        VLLM,
        follow,
        lambda _: lambda shown: short.tell(shown.moment, shown.record.step),
        lambda shown, _: panel(shown.moment, config),
        lambda _: {
            "blocks": config.blocks,
            "size": config.block_size,
            "unit": "page",
            "budget": config.max_tokens,
            "slots": config.max_rows,
            "policy": "fifo",
            "counted": True,
        },
    )


class Short:
    """Tells one step after the other."""

    def __init__(self, config: Config) -> None:
        self.told = Telling(config)

    def tell(self, moment: Moment, step: int) -> list[str]:
        """The clauses of a step, with its requests marked."""
        clauses: list[tuple[int, str]] = []
        for record in moment.records:
            weight = FIRST.index(type(record)) if type(record) in FIRST else len(FIRST)
            clauses += [(weight, _marked(text, record)) for text in self.told.see(record)]
        first = [text for _, text in sorted(clauses, key=lambda pair: pair[0])]
        blocked = moment.blocked
        if blocked is not None and blocked not in moment.records:
            first.insert(0, f"**{blocked.id}** still waits for {WAITS_FOR[blocked.binding]}.")
        return [*first[: MOST - 1], _work(moment, step)]


def _marked(text: str, record: Any) -> str:
    """Mark the request in the sentence, and what is bad for it."""
    request_id = getattr(record, "id", None)
    if request_id is not None:
        text = re.sub(rf"\b{re.escape(request_id)}\b", f"**{request_id}**", text, count=1)
    if isinstance(record, rec.AdmissionBlocked):
        text = text.replace("must wait", "!!must wait!!", 1)
    return text


def _work(moment: Moment, step: int) -> str:
    """Who computes what; after a jump of the clock, first when."""
    when = "" if moment.t == step else f"Tick {n(moment.t)}. "
    rows = moment.dispatch.rows if moment.dispatch is not None else ()
    decodes = [f"**{part.id}**" for part in rows if part.kind == "decode"]
    told = [f"**{i}** prefills {tokens(count)}" for i, kind, count in rows if kind == "prefill"]
    if decodes:
        told.insert(0, f"{listed(decodes)} {'decodes' if len(decodes) == 1 else 'decode'}")
    return f"{when}{', '.join(told) or 'Nobody computes'}."


def panel(moment: Moment, config: Config) -> dict[str, Any]:
    """The budgets as rows of bars, see ``views/panels.py``.

    ``kind``: ``denied`` while the head of the queue must wait, else ``idle``. ``pool``: blocks
    taken, promised and not taken, draining, and slack.
    """
    pool = [moment.taken, moment.credits - moment.taken, moment.draining]
    pool.append(config.blocks - sum(pool))
    blocked = moment.blocked
    if blocked is None:
        rows = [*_pool(moment, config), *_spent(moment, config)]
        return {"kind": "idle", "pool": pool, "rows": rows}
    rows = [*_tests(moment, blocked, config), *_spent(moment, config)]
    return {"kind": "denied", "id": blocked.id, "pool": pool, "rows": rows}


def _tests(moment: Moment, blocked: rec.AdmissionBlocked, config: Config) -> list[Row]:
    """The tests of admission, in order, up to the one that binds."""
    order = ["credits", "draining"]
    rows: list[Row] = []
    if config.policy == "serial":
        order.insert(0, "serial")
        rows.append(["turn", "", moment.active, 1, 0, 0, 1])
    rows.append(["credits", "", moment.credits, blocked.need, 0, 0, config.blocks])
    rows.append(["drains", "", moment.credits, blocked.need, 0, moment.draining, config.blocks])
    binding = order.index(blocked.binding)
    for place, row in enumerate(rows):
        row[1] = PASSES if place < binding else BINDS if place == binding else UNREACHED
    return rows


def _pool(moment: Moment, config: Config) -> list[Row]:
    return [
        ["credits", PASSES, moment.credits, 0, 0, 0, config.blocks],
        ["pages", PASSES, moment.taken, 0, 0, moment.draining, config.blocks],
    ]


def _spent(moment: Moment, config: Config) -> list[Row]:
    spent, rows = (moment.dispatch.tokens, len(moment.dispatch.rows)) if moment.dispatch else (0, 0)
    return [
        ["tokens", PASSES, spent, 0, 0, 0, config.max_tokens],
        ["rows", PASSES, rows, 0, 0, 0, config.max_rows],
    ]
