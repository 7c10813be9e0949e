"""A small run from beginning to end: a few requests share a pool that the reader makes smaller."""

from __future__ import annotations

from string import ascii_uppercase
from typing import Any

from kvsched.engine import run
from kvsched.explain import explain
from kvsched.log import Log, Preempt
from kvsched.request import Request
from kvsched.steps import StepRecord, rebuild
from kvsched.views.params import Choice, Number, Switch
from kvsched.views.tour_figure import draw, table
from kvsched.views.view import Data, View
from kvsched.vllm import Config, Scheduler
from kvsched.workload import Arrival

BLOCK, PROMPT, OUTPUT = 4, 24, 24
"""Tokens in a block, in each prompt, and in each answer."""
NEED = -(-(PROMPT + OUTPUT - 1) // BLOCK)
"""Blocks that a request holds in the end: the last token is never written."""
APART = 2
"""Steps from one arrival to the next."""


def compute(blocks: int, requests: int, policy: str, caching: bool) -> Data:
    """Every step of the run: blocks in use, who runs, who waits, who is thrown out, and why."""
    config = Config(
        num_gpu_blocks=blocks + 1,
        block_size=BLOCK,
        max_num_seqs=requests,
        max_num_batched_tokens=64,
        max_model_len=PROMPT + OUTPUT,
        policy=policy,
        enable_prefix_caching=caching,
    )
    log = Log()
    outcome = run(Scheduler(config, log), _arrivals(requests), log)
    steps = [_step(record, blocks, log.config) for record in rebuild(log)]
    victims: list[Any] = [entry.event for entry in log.of(Preempt)]
    lost = sum(event.tokens_lost for event in victims)
    peak = max(step["used"] for step in steps)
    return {
        "blocks": blocks,
        "preemptions": len(victims),
        "steps": steps,
        "sentence": (
            f"{requests} requests share {blocks} blocks: {_count(len(victims), 'preemption')}, "
            f"{_count(lost, 'computed token')} thrown out, {outcome.steps} steps until all are "
            "done."
        ),
        "caption": (
            f"KV blocks in use, step by step: {requests} requests of {PROMPT} prompt and {OUTPUT} "
            f"output tokens, {NEED} blocks each in the end, in a pool of {blocks}. Red marks steps "
            "in which a request is thrown out."
        ),
        "alt": (
            f"Columns of blocks in use over {outcome.steps} steps, at most {peak} of {blocks}; "
            f"{_count(len(victims), 'preemption')}."
        ),
    }


def _arrivals(count: int) -> list[Arrival]:
    """Equal requests, one after another; the later, the more urgent, where urgency counts."""
    return [
        Arrival(
            APART * i, Request(ascii_uppercase[i], ((1000 * i, PROMPT),), OUTPUT, APART * i, -i)
        )
        for i in range(count)
    ]


def _step(record: StepRecord, blocks: int, config: dict[str, Any]) -> dict[str, Any]:
    return {
        "used": blocks - record.free,
        "running": record.running,
        "waiting": record.waiting,
        "out": [event.id for event in record.of(Preempt)],
        "says": " ".join(sentence.text for sentence in explain(record, config)),
    }


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


VIEW = View(
    name="tour",
    renderer="tour",
    label="A small run",
    compute=compute,
    draw=draw,
    table=table,
    params=(
        Number("blocks", "KV blocks", 24, NEED, 48),
        Number("requests", "requests", 4, 1, 6),
        Choice("policy", "policy", "fcfs", ("fcfs", "priority")),
        Switch("caching", "prefix caching", default=True),
    ),
    selection={"step": 0},
)
