"""Recorded loops of SGLang: every iteration, rebuilt from the twin's log, against the recording."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvsched.conform.compare import Divergence
from kvsched.conform.sglang.replay import replay
from kvsched.conform.sglang.result import difference, short
from kvsched.log import Finish
from kvsched.sglang.core import ABORT
from kvsched.sglang.events import Budgets, Continued, Displace, Offer, Opening, Retract
from kvsched.sglang.steps import Iteration, rebuild

SERVICE_UNAVAILABLE = 503
KINDS = {"extend": "P", "mixed": "M", "decode": "D", "idle": "I"}
STATE = ("ratio", "free", "ev", "prot", "wait", "run", "full")
END = ("ratio", "free", "ev")


def compare(run: dict[str, Any]) -> tuple[int, Divergence | None]:
    """How many iterations match, and the first difference."""
    engine = replay(run)
    totals = Totals(len(run["reqs"]))
    steps = 0
    for expected, it in zip(expanded(run["trace"]), rebuild(engine.log), strict=False):
        got = fields_of(it)
        found = difference(expected, got)
        if found is not None:
            return steps, Divergence(steps, *found, both(expected, got))
        totals.see(it)
        steps += 1
    got = {"iters": engine.steps, **totals.fields()}
    found = difference({**run, "iters": len(run["trace"])}, got) or difference(run, got)
    return steps, None if found is None else Divergence(None, *found, "")


def expanded(trace: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The recorded iterations with every field, as the format says absent ones are to be read."""
    state: dict[str, Any] = {}
    for entry in trace:
        state.update((name, entry[name]) for name in STATE if name in entry)
        ends = {f"{name}1": entry.get(f"{name}1", state.get(name)) for name in END}
        yield {
            "k": entry["k"],
            "rows": entry.get("rows", []),
            "chunked": entry.get("chunked"),
            "arr": entry.get("arr", []),
            "adder": entry.get("adder"),
            "retract": entry.get("retract"),
            "abort": entry.get("abort", []),
            "fin": entry.get("fin", []),
            **{name: state.get(name) for name in STATE},
            **ends,
        }


def fields_of(it: Iteration) -> dict[str, Any]:
    """A rebuilt iteration under the recordings' names."""
    kind = KINDS[it.kind]
    prefill = kind in "PM"
    return {
        "k": kind,
        "rows": [[int(i), s, e] if prefill else int(i) for i, s, e in it.rows],
        "chunked": None if it.chunked is None or not prefill else int(it.chunked),
        "arr": _numbers(event.id for event in it.arrivals),
        "adder": adder_of(it),
        "retract": retract_of(it),
        "abort": [[int(f.id), SERVICE_UNAVAILABLE, f.reason] for f in timed_out(it)],
        "fin": sorted(int(f.id) for f in it.finished if f.status != ABORT),
        "ratio": it.ratio,
        "free": it.free,
        "ev": it.evictable,
        "prot": it.protected,
        "wait": _numbers(it.waiting),
        "run": _numbers(it.running),
        "full": it.full,
        "ratio1": it.ratio_end,
        "free1": it.free_end,
        "ev1": it.evictable_end,
    }


def adder_of(it: Iteration) -> dict[str, Any] | None:
    """The admission pass as recorded, None where none was made."""
    built = it.of(Opening)
    if not built:
        return None
    calls = [call_of(event) for event in it.of(Continued, Offer, Displace)]
    return {"b0": _listed(built[0].budgets), "calls": calls}


def call_of(event: Any) -> list[Any]:
    """One call of the adder."""
    budgets = _listed(event.budgets)
    match event:
        case Continued():
            return ["chunk", event.id, list(event.extent), event.truncated, budgets]
        case Offer():
            extent = None if event.extent is None else list(event.extent)
            return ["add", event.id, extent, event.verdict, budgets]
        case _:
            return ["preempt", event.id, list(event.victims), bool(event.victims), budgets]


def retract_of(it: Iteration) -> dict[str, Any] | None:
    """The retraction as recorded, None where there was none."""
    for event in it.of(Retract):
        return {
            "retracted": _numbers(event.victims),
            "aborted": _numbers(event.aborted),
            "kept": _numbers(event.kept),
            "ratio": event.ratio,
            "gain": event.gain,
        }
    return None


def timed_out(it: Iteration) -> list[Finish]:
    """Who was turned away after waiting too long."""
    return [event for event in it.finished if event.status == ABORT]


class Totals:
    """What a recording says of each request at the end."""

    def __init__(self, requests: int) -> None:
        self.out = [0] * requests
        self.done_at: list[int | None] = [None] * requests
        self.retractions = [0] * requests
        self.clipped = [0] * requests

    def see(self, it: Iteration) -> None:
        """Take one iteration in."""
        for arrival in it.arrivals:
            self.clipped[int(arrival.id)] = arrival.max_tokens
        for request_id in it.emitted:
            self.out[int(request_id)] += 1
        for victim in it.preempted:
            self.retractions[int(victim.id)] += 1
        for ended in it.finished:
            self.done_at[int(ended.id)] = it.step

    def fields(self) -> dict[str, Any]:
        """The totals under the recordings' names."""
        return {
            "max_new_clipped": self.clipped,
            "out": self.out,
            "retractions": self.retractions,
            "done_at": self.done_at,
            "complete": None not in self.done_at,
        }


def _numbers(request_ids: Any) -> list[int]:
    return [int(request_id) for request_id in request_ids]


def _listed(budgets: Budgets) -> list[float | None]:
    return list(budgets)


def both(expected: dict[str, Any], got: dict[str, Any]) -> str:
    """What stood around the difference on either side."""
    lines = []
    for title, side in (("recorded", expected), ("twin", got)):
        lines.append(f"  {title} state:")
        for name in ("k", "rows", "retract", "wait", "run", "free", "ev", "ratio"):
            lines.append(f"    {name:<10} {short(side.get(name))}")
    return "\n".join(lines)
