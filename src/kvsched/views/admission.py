"""Which test binds: unequal requests come in threes, and in each step somebody may be refused.

vLLM's five tests in its order, and the rule that a step which preempts admits nobody. The reader
turns the budgets and sees the binding test move.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from random import Random
from string import ascii_uppercase
from typing import Any

from kvsched.contract import BLOCK, POLICY, SLOT, TOKEN, WATERMARK, WHOLE_SEQUENCE, Denial
from kvsched.engine import run
from kvsched.explain.short import Short
from kvsched.log import Log, Preempt
from kvsched.request import Request
from kvsched.views.admission_figure import draw, table
from kvsched.views.follow import Moment, follow
from kvsched.views.panels import panel
from kvsched.views.params import Number, Switch
from kvsched.views.trace import changes
from kvsched.views.view import Data, View
from kvsched.vllm import Config, Scheduler
from kvsched.workload import Arrival

TESTS = {
    TOKEN: "Token budget",
    SLOT: "Slots",
    WHOLE_SEQUENCE: "Whole sequence",
    BLOCK: "Next chunk",
    WATERMARK: "Watermark",
    POLICY: "Step preempted",
}
"""What can refuse here, in the engine's order, as the figure calls it."""

REQUESTS, TOGETHER, APART = 20, 3, 12
"""How many requests come, how many at once, and the steps from one group to the next."""
PROMPTS, OUTPUTS = (96, 160, 240, 480), (20, 60)
"""Tokens: prompts are one of these, outputs between these."""
BLOCK_SIZE, LONGEST = 16, 2048
MOST_STEPS = 300
"""A run is shown no further."""


def arrivals() -> list[Arrival]:
    """The requests, the same ones every time, told apart by what they hold."""
    rng = Random(1)
    return [
        Arrival(
            APART * (i // TOGETHER),
            Request(
                ascii_uppercase[i], ((10_000 * i, rng.choice(PROMPTS)),), rng.randint(*OUTPUTS)
            ),
        )
        for i in range(REQUESTS)
    ]


def compute(
    tokens: int, slots: int, blocks: int, watermark: float, gate: bool, caching: bool
) -> Data:
    """The run with these budgets: by step who is refused by what, both sides, and the pool."""
    config = Config(
        num_gpu_blocks=blocks + 1,
        block_size=BLOCK_SIZE,
        max_num_seqs=slots,
        max_num_batched_tokens=tokens,
        max_model_len=LONGEST,
        watermark=watermark,
        scheduler_reserve_full_isl=gate,
        enable_prefix_caching=caching,
    )
    log = Log()
    outcome = run(Scheduler(config, log), arrivals(), log, max_steps=MOST_STEPS)
    moments = list(follow(log))
    denials = [moment.record.denial for moment in moments]
    counts = Counter(denial.test for denial in denials if denial is not None)
    preemptions = len(log.of(Preempt))
    end = "all done" if outcome.verdict == "all_done" else "not done"
    refused = ", ".join(f"{TESTS[test].lower()} {counts[test]}" for test in TESTS if counts[test])
    return {
        "blocks": blocks,
        "slots": slots,
        "kept": config.watermark_blocks,
        "tests": list(TESTS.values()),
        "binding": _binding(denials),
        "held": [blocks - moment.record.free for moment in moments],
        "running": [len(moment.record.running) for moment in moments],
        "waiting": [len(moment.record.waiting) for moment in moments],
        "says": changes(_told(moments, log.config)),
        "panels": changes([panel(moment, log.config) for moment in moments]),
        "refusals": {TESTS[test]: counts[test] for test in TESTS},
        "preemptions": preemptions,
        "sentence": (
            f"Steps in which a test refuses: {refused or 'none'}. "
            f"{_count(preemptions, 'preemption')}, {end} after {outcome.steps} steps."
        ),
        "caption": (
            f"{REQUESTS} requests of {PROMPTS[0]} to {PROMPTS[-1]} prompt tokens arrive "
            f"{TOGETHER} at a time. Red: the test that refuses the head of the queue, step by "
            "step. Below: how many run, and the blocks they hold, each under its limit."
        ),
        "alt": (
            f"A strip of {len(moments)} steps with a row for each test, red where it refuses. "
            f"Steps: {refused or 'none'}."
        ),
    }


def _binding(denials: list[Denial | None]) -> list[list[Any]]:
    """Runs of steps refused by one test: its row, first step, length, then the first denial."""
    rows, runs, step = list(TESTS), [], 0
    for test, group in groupby(denials, key=lambda denial: denial.test if denial else None):
        same = list(group)
        if same[0] is not None and test in TESTS:
            first = same[0]
            runs.append([rows.index(test), step, len(same), first.id, first.asked, first.limit])
        step += len(same)
    return runs


def _told(moments: list[Moment], config: dict[str, Any]) -> list[list[str]]:
    short = Short(config)
    return [short.tell(moment.record) for moment in moments]


def _count(number: int, noun: str) -> str:
    return f"{number or 'No'} {noun}{'' if number == 1 else 's'}"


VIEW = View(
    name="admission",
    renderer="admission",
    label="Which test binds",
    compute=compute,
    draw=draw,
    table=table,
    params=(
        Number("tokens", "token budget", 256, 32, 1024, 16),
        Number("slots", "slots", 8, 1, 20),
        Number("blocks", "KV blocks", 120, 40, 400, 5),
        Number("watermark", "watermark", 0.0, 0.0, 0.3, 0.01),
        Switch("gate", "sequence gate", default=True),
        Switch("caching", "caching", default=True),
    ),
    selection={"step": 24},
)
