"""One trace under three promises: the three budgets over time, and for what the queue waits.

Eight requests, a block of four tokens, ticks. The simulator of ``kvsched.reserve``, no engine.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from kvsched.metrics import measure
from kvsched.replay import replay_reserve
from kvsched.request import EOS, Request, Stop
from kvsched.reserve import Config, Record
from kvsched.reserve.as_log import as_log
from kvsched.reserve.budgets import budgets, waits
from kvsched.reserve.records import Completed, Dispatch, Preempted, Rejected
from kvsched.views.params import Number
from kvsched.views.reservations_figure import draw, table
from kvsched.views.view import Data, View
from kvsched.workload import Arrival
from kvsched.workload.trace import Line

BLOCK_SIZE, BLOCKS, TOKENS = 4, 12, 16
"""Tokens of a block, usable blocks at first, and the token budget of a dispatch."""
REQUESTS = (
    (0, 6, 8), (0, 14, 5), (1, 4, 12), (2, 10, 6), (4, 8, 10), (4, 3, 9), (9, 12, 4), (10, 5, 7)
)  # fmt: skip
"""Arrival, prompt and output of each."""
PICKS: dict[str, dict[str, Any]] = {
    "serial": {"policy": "serial"},
    "promise all": {},
    "promise the prompt": {"reserve": "preempt"},
}
WAITS_FOR = {"serial": "its turn", "credits": "promises to end", "draining": "pages to drain"}
"""What the head of the queue waits for, by binding."""


def replayed(
    pick: str, blocks: int, release_delay: int, factor: int
) -> tuple[list[Record], Config]:
    """The records of the trace; clients allow ``factor`` times the output they will get."""
    config = Config(
        block_size=BLOCK_SIZE,
        blocks=blocks,
        max_tokens=TOKENS,
        max_rows=8,
        chunk=8,
        release_delay=release_delay,
        **PICKS[pick],
    )
    lines = []
    for number, (at, prompt, output) in enumerate(REQUESTS):
        stop = Stop(eos_token_id=EOS) if factor > 1 else None
        runs = ((number * 1000, prompt),)
        request = Request(f"r{number}", runs, factor * output, at, stop=stop)
        lines.append(Line(Arrival(at, request), output))
    kept: list[Record] = []
    replay_reserve(iter(lines), config, write=kept.append)
    return kept, config


def compute(blocks: int, release_delay: int, factor: int) -> Data:
    """The trace under each promise."""
    points = [_point(pick, blocks, release_delay, factor) for pick in PICKS]
    serial, whole, prompt = points
    cap = "the exact output" if factor == 1 else f"{factor} times the output"
    return {
        "blocks": blocks,
        "budget": TOKENS,
        "until": max(point["pool"][-1][0] for point in points),
        "picks": list(PICKS),
        "points": points,
        "says": [_says(point) for point in points],
        "sentence": f"{blocks} blocks, clients allow {cap}: {_ends(serial, whole, prompt)}",
        "caption": (
            "Above: every block is taken, promised and not taken yet, draining, or slack, which "
            "is what admission can still promise and is never below zero. Middle: what the head "
            "of the queue waits for, and the tokens of each dispatch. Below: when the last "
            f"request completes under each promise. {len(REQUESTS)} requests, blocks of "
            f"{BLOCK_SIZE} tokens. A tick is synthetic: it estimates no time of any device."
        ),
        "alt": (
            f"Stacked blocks over ticks, {blocks} in all, for three promises: "
            f"{_ends(serial, whole, prompt)}"
        ),
    }


def _ends(serial: dict[str, Any], whole: dict[str, Any], prompt: dict[str, Any]) -> str:
    """When the last request completes under each promise; who is rejected is so under all."""
    if not serial["done"]:
        return f"all {serial['rejected']} requests are rejected, larger than the pool."
    last, out = "the last request", ""
    if serial["rejected"]:
        last = "the last of the others"
        out = f"{serial['rejected']} of {len(REQUESTS)} rejected, larger than the pool; "
    preempted = prompt["preempted"]
    return (
        f"{out}{last} completes at tick {serial['end']} served serially, {whole['end']} with "
        f"everything promised, {prompt['end']} with the prompt alone promised and {preempted} "
        f"preemption{'' if preempted == 1 else 's'}."
    )


def _point(pick: str, blocks: int, release_delay: int, factor: int) -> dict[str, Any]:
    records, config = replayed(pick, blocks, release_delay, factor)
    kinds = Counter(type(record) for record in records)
    metrics = measure(as_log(records), second=1)
    return {
        "pick": pick,
        "pool": [list(budget) for budget in budgets(records, config)],
        "waits": [[wait.start, wait.end, wait.binding] for wait in waits(records)],
        "work": [_work(record) for record in records if isinstance(record, Dispatch)],
        "end": max((r.t for r in records if isinstance(r, Completed)), default=0),
        "done": kinds[Completed],
        "rejected": kinds[Rejected],
        "preempted": kinds[Preempted],
        "recomputed": metrics.tokens_recomputed,
        "ttft": round(metrics.time_to_first_token.mean, 1),
    }


def _work(dispatch: Dispatch) -> list[int]:
    """When, and its tokens of prefill and of decode."""
    decodes = sum(part.kind == "decode" for part in dispatch.rows)
    return [dispatch.t, dispatch.tokens - decodes, decodes]


def waited(point: dict[str, Any]) -> dict[str, int]:
    """Ticks that the head of the queue waited, by binding."""
    ticks: Counter[str] = Counter()
    for start, end, binding in point["waits"]:
        ticks[binding] += end - start
    return {name: ticks[name] for name in WAITS_FOR if ticks[name]}


def _says(point: dict[str, Any]) -> str:
    """One run in a sentence, and what its waiting points to."""
    told = f"{point['pick'].capitalize()}:"
    if point["done"]:
        told += (
            f" {point['done']} requests complete by tick {point['end']}, "
            f"mean TTFT {point['ttft']} ticks."
        )
    if point["rejected"]:
        told += f" {point['rejected']} rejected: larger than the pool."
    ticks = [f"{count} for {WAITS_FOR[name]}" for name, count in waited(point).items()]
    if ticks:
        told += f" Ticks that the head of the queue waited: {', '.join(ticks)}."
    if point["preempted"]:
        times = "preemption" if point["preempted"] == 1 else "preemptions"
        told += f" {point['preempted']} {times}, {point['recomputed']} tokens computed again."
    return told


VIEW = View(
    name="reservations",
    renderer="picks",
    label="Promises, pages and drains",
    compute=compute,
    draw=draw,
    table=table,
    params=(
        Number("blocks", "usable blocks", BLOCKS, 6, 40, 2),
        Number("release_delay", "release delay, ticks", 2, 0, 8, 1),
        Number("factor", "clients allow, times the output", 1, 1, 4, 1),
    ),
    selection={"pick": 1},
)
