"""Two engines, one playhead: a workload in both, and the first step they decide differently."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any, NamedTuple

from kvsched.explain.short import MOST, plain
from kvsched.log import Admit, Log, Preempt
from kvsched.steps import StepRecord
from kvsched.views import lanes
from kvsched.views.engines import ENGINES
from kvsched.views.params import Choice, Number
from kvsched.views.svg import element, ink, picture, text
from kvsched.views.trace import changes, encode
from kvsched.views.victims import WORKLOADS, sglang_log, vllm_log
from kvsched.views.view import Data, Selection, Table, View

HEAD, GAP = 26, 12
"""Pixels above an engine's lanes for its name, and below them."""


class Decision(NamedTuple):
    """What a scheduler decides in a step: tokens by request, and who comes in and goes out."""

    tokens: dict[str, int]
    admitted: tuple[str, ...] = ()
    out: tuple[str, ...] = ()

    def __str__(self) -> str:
        computed = ", ".join(f"**{name}** {tokens}" for name, tokens in self.tokens.items())
        clauses = [computed or "nobody computes"]
        if self.admitted:
            clauses.append(f"{' and '.join(self.admitted)} admitted")
        if self.out:
            clauses.append(f"!!{' and '.join(self.out)} thrown out!!")
        return "; ".join(clauses)


def compute(workload: str, more: int) -> Data:
    """Both runs for the players; ``first`` is None if the engines never differ."""
    given = WORKLOADS[workload]
    given = given._replace(pool=given.pool + more)
    logs = {"vLLM": vllm_log(given), "SGLang": sglang_log(given)}
    runs = [_run(name, log) for name, log in logs.items()]
    decided = [
        decisions(log)[: len(run["trace"]["says"])]
        for log, run in zip(logs.values(), runs, strict=True)
    ]
    steps = list(zip_longest(*decided))
    first = next((step for step, (one, other) in enumerate(steps) if one != other), None)
    out = [_first_out(log) for log in logs.values()]
    return {
        "runs": runs,
        "first": first,
        "says": changes(
            [_clauses(step, one, other, first) for step, (one, other) in enumerate(steps)]
        ),
        "sentence": (
            f"{workload} in a pool of {given.pool} tokens: {_told(first)} First thrown out: "
            f"vLLM {out[0]}, SGLang {out[1]}."
        ),
        "caption": (
            "One workload, two engines, one playhead. A number behind a request is the tokens "
            "computed for it in the step; ≠ marks the first step in which the engines decide "
            "differently: who computes, how many tokens, who comes in, who goes out."
        ),
        "alt": (
            f"The lanes of {', '.join(given.requests)}, in vLLM over {len(decided[0])} steps and "
            f"in SGLang over {len(decided[1])}. {_told(first)}"
        ),
    }


def decisions(log: Log) -> list[Decision]:
    """What was decided in each step of a run."""
    return [_decision(moment.record) for moment in ENGINES[log.engine].follow(log)]


def _decision(record: StepRecord) -> Decision:
    return Decision(
        dict(sorted(record.scheduled.items())),
        tuple(sorted(event.id for event in record.of(Admit))),
        tuple(sorted(event.id for event in record.of(Preempt))),
    )


def _run(name: str, log: Log) -> dict[str, Any]:
    return {"name": name, "trace": encode(log)}


def _clauses(
    step: int, one: Decision | None, other: Decision | None, first: int | None
) -> list[str]:
    if one == other:
        return [f"The same in both: {one}."]
    lead = "The first difference." if step == first else "They differ."
    return [lead, f"vLLM: {one or 'has finished'}.", f"SGLang: {other or 'has finished'}."]


def _told(first: int | None) -> str:
    if first is None:
        return "both engines decide the same in every step."
    return f"the engines first decide differently in step {first}."


def _first_out(log: Log) -> str:
    victims: list[Any] = log.of(Preempt)
    return f"{victims[0].event.id} in step {victims[0].step}" if victims else "nobody"


def draw(data: Data, selection: Selection) -> str:
    """The lanes of both runs, one above the other, with the first difference marked in both."""
    drawn, top = [], 0.0
    for run in data["runs"]:
        shapes, high = lanes.shapes(run, selection)
        name = text(run["name"], 0, top + 16, font_size=16, font_weight=650, fill=ink("text"))
        mark = [] if data["first"] is None else _mark(data["first"], len(run["trace"]["says"]))
        drawn += [name, element("g", *shapes, *mark, transform=f"translate(0 {top + HEAD:g})")]
        top += HEAD + high + GAP
    return picture(lanes.WIDTH, top, data["alt"], lanes.hatches(), *drawn, **lanes.STYLE)


def _mark(step: int, steps: int) -> list[str]:
    x = lanes.LEFT + (step + 0.5) * (lanes.WIDTH - lanes.LEFT - lanes.RIGHT) / steps
    return [text("≠", x, -3, text_anchor="middle", font_size=16, font_weight=700, fill=ink("text"))]


def table(data: Data) -> Table:
    """Every step's sentence in both."""
    told = [[" ".join(map(plain, each[:MOST])) for each in lanes.said(run)] for run in data["runs"]]
    rows: list[tuple[str | tuple[str, str], ...]] = [
        (f"{step}{' ≠' if step == data['first'] else ''}", one, other)
        for step, (one, other) in enumerate(zip_longest(*told, fillvalue="has finished"))
    ]
    return Table("Every step in words", ("step", *(run["name"] for run in data["runs"])), rows)


VIEW = View(
    name="pair",
    renderer="players",
    label="Two engines, one playhead",
    compute=compute,
    draw=draw,
    table=table,
    params=(
        Choice("workload", "workload", "agree", tuple(WORKLOADS)),
        Number("more", "tokens more", 0, -4, 40),
    ),
    selection={"step": 2, "request": "", "block": 0, "hide": False},
)
