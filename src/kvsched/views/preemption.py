"""Who is evicted: four long prompts fill the pool to its last block, and one of them has to go."""

from __future__ import annotations

from string import ascii_uppercase
from typing import Any

from kvsched.engine import run
from kvsched.log import Log, Preempt
from kvsched.request import Request
from kvsched.views.lanes import draw, table
from kvsched.views.params import Choice, Number, Switch
from kvsched.views.trace import encode
from kvsched.views.view import Data, View
from kvsched.vllm import Config, Scheduler
from kvsched.workload import Arrival

REQUESTS, OUTPUT = 4, 40
"""How many requests there are, and the tokens that all but A answer with."""
LEAST_URGENT = 0
"""The place of A, which is the least urgent where urgency counts."""
MOST_STEPS = 400


def compute(blocks: int, prompt: int, answer: int, policy: str, gate: bool, caching: bool) -> Data:
    """The whole run of four requests that arrive at once, for the player."""
    config = Config(
        num_gpu_blocks=blocks + 1,
        block_size=16,
        max_num_seqs=8,
        max_num_batched_tokens=40_000,
        max_model_len=16_384,
        policy=policy,
        enable_prefix_caching=caching,
        scheduler_reserve_full_isl=gate,
    )
    log = Log()
    run(Scheduler(config, log), _arrivals(prompt, answer, policy), log, max_steps=MOST_STEPS)
    trace = encode(log)
    victims: list[Any] = [entry.event for entry in log.of(Preempt)]
    names = ", ".join(dict.fromkeys(event.id for event in victims)) or "nobody"
    lost = sum(event.tokens_lost for event in victims)
    return {
        "trace": trace,
        "sentence": (
            f"Four prompts of {prompt:,} tokens in {blocks:,} blocks of 16: {names} thrown out, "
            f"{lost:,} computed tokens lost, {len(trace['says'])} steps."
        ),
        "caption": (
            f"Four requests of {prompt:,} prompt tokens arrive at once; A answers with {answer}, "
            f"the others with {OUTPUT}. A lane’s height is the KV it holds; the hatch after a loss "
            "is what a resume would still find in the cache."
        ),
        "alt": (
            f"A lane for each of A, B, C and D over {len(trace['says'])} steps; thrown out: "
            f"{names}."
        ),
    }


def _arrivals(prompt: int, answer: int, policy: str) -> list[Arrival]:
    """Four requests at once, told apart by what they hold."""
    return [
        Arrival(
            0,
            Request(
                ascii_uppercase[i],
                ((100_000 * (i + 1), prompt),),
                answer if i == 0 else OUTPUT,
                i,
                int(i == LEAST_URGENT and policy == "priority"),
            ),
        )
        for i in range(REQUESTS)
    ]


VIEW = View(
    name="preemption",
    renderer="player",
    label="Step player: four long prompts",
    compute=compute,
    draw=draw,
    table=table,
    params=(
        Number("blocks", "KV blocks", 2049, 400, 3200),
        Number("prompt", "prompt tokens", 8192, 1024, 12_288, 16),
        Number("answer", "A’s answer", 6, 1, 40),
        Choice("policy", "policy", "fcfs", ("fcfs", "priority")),
        Switch("gate", "sequence gate", default=True),
        Switch("caching", "caching", default=True),
    ),
    selection={"step": 0, "request": "", "block": 0, "hide": False},
)
