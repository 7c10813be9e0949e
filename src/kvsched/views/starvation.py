"""Who waits for whom: one large cold request, a stream of small ones, five rules."""

from __future__ import annotations

from typing import Any

from kvsched.views.params import Number
from kvsched.views.starvation_figure import draw, table
from kvsched.views.starvation_runs import (
    ARRIVAL,
    BLOCK,
    EVERY,
    LARGE,
    LENGTHS,
    OWN,
    POOL,
    PROMPT,
    Rule,
    passed_by,
    passes_behind,
    rules,
    simulate,
    stays,
    waited,
    waits,
)
from kvsched.views.view import Data, View


def compute(stream: int, credit: int, shared: int) -> Data:
    """Every rule's run under this stream, and V's wait under streams of all lengths."""
    runs = [_run(rule, stream, shared) for rule in rules(credit)]
    told = ", ".join(f"{run['wait']} under {run['name']}" for run in runs)
    lines = " ".join(f"{r['name']} {r['waits'][0]} to {r['waits'][-1]} steps." for r in runs)
    return {
        "picks": [run["name"] for run in runs],
        "runs": runs,
        "stream": stream,
        "lengths": list(LENGTHS),
        "arrival": ARRIVAL,
        "says": [_says(run, -(-shared // credit)) for run in runs],
        "sentence": f"{stream} small requests follow V. Steps it waits: {told}.",
        "caption": (
            f"V needs {PROMPT:,} of {POOL:,} tokens and finds none of them cached; small requests, "
            f"one every {EVERY} steps, share {shared:,} tokens and have {OWN} of their own. Above: "
            "V’s wait by how many small ones follow it. Below: memory held in each step of the run "
            f"with {stream}. V’s prompt fits where the others stay below the dashed line; SGLang "
            "counts outputs to come as well. Simulated; a step is a tick."
        ),
        "alt": (
            "Five lines of V’s wait by the number of small requests that follow it, and five "
            f"strips of memory held. The wait grows from none following to {LENGTHS[-1]}: {lines}"
        ),
    }


def _run(rule: Rule, stream: int, shared: int) -> dict[str, Any]:
    """One rule's run.

    ``held``: tokens after each step. ``stays``: when V held memory. ``passing``: the steps in
    which requests that came after V were admitted before it. ``behind``: how many passes after V
    the last of them was first sorted, in SGLang.
    """
    log = simulate(rule, stream, shared)
    wait = waited(log)
    small = [steps for name, steps in wait.items() if name != LARGE]
    before = passed_by(log)
    return {
        "name": rule.name,
        "rule": rule.says,
        "waits": waits(rule, shared, {stream: wait[LARGE]}),
        "wait": wait[LARGE],
        "stays": [list(stay) for stay in stays(log)],
        "passing": [course.admitted[0] for course in before],
        "behind": max((passes_behind(log, course) for course in before), default=0),
        "mean": round(sum(small) / len(small), 1),
        "worst": max(small),
        "held": [POOL - BLOCK * free for free in log.free_blocks],
    }


def _says(run: dict[str, Any], bound: int) -> str:
    """One run in words; ``bound``: for how many passes newcomers may pass V under aged lpm."""
    first = f"{len(run['passing'])} that came later go first" if run["passing"] else "nobody passes"
    proved = ""
    if run["passing"] and run["name"] == "aged lpm":
        proved = (
            f" The last of them was first sorted {_passes(run['behind'])} after V; from {bound} on "
            "no newcomer could."
        )
    others = f"{run['mean']} steps on average and {run['worst']} at most"
    return (
        f"{run['name']} ({run['rule']}): V waits {run['wait']} steps and {first}.{proved} The "
        f"small ones wait {others if run['worst'] else 'not at all'}."
    )


def _passes(count: int) -> str:
    return "1 pass" if count == 1 else f"{count} passes"


VIEW = View(
    name="starvation",
    renderer="picks",
    label="Two queues, five rules",
    compute=compute,
    draw=draw,
    table=table,
    params=(
        Number("stream", "small requests after V", 120, 0, LENGTHS[-1], 60),
        Number("credit", "credit of a pass", 100, 50, 1000, 50, "tokens"),
        Number("shared", "shared prefix", 960, 0, 1280, 160, "tokens"),
    ),
    selection={"pick": 1},
)
