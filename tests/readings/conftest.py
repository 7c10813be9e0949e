"""Runs that readings are tested on: any small one, and one worked by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from kvsched.clock import Clock
from kvsched.engine import run
from kvsched.log import Level, Log
from kvsched.request import Request
from kvsched.vllm import Config, Scheduler
from kvsched.workload import Arrival


def run_small(
    *requests: tuple[str, int, int, int],
    level: Level = Level.EVENTS,
    clock: Clock | None = None,
    max_steps: int | None = None,
    **knobs: Any,
) -> Log:
    """The log of requests (id, tokens in, tokens out, arrival) that share no token.

    Eight usable blocks of four tokens, unless told otherwise.
    """
    log = Log(level)
    config: dict[str, Any] = {
        "num_gpu_blocks": 9,
        "block_size": 4,
        "max_num_seqs": 8,
        "max_num_batched_tokens": 64,
        "max_model_len": 64,
    }
    arrivals = [
        Arrival(at, Request(name, ((100_000 * (number + 1), prompt),), out, at))
        for number, (name, prompt, out, at) in enumerate(requests)
    ]
    run(Scheduler(Config(**{**config, **knobs}), log), arrivals, log, clock, max_steps=max_steps)
    return log


@pytest.fixture(scope="session")
def simulate() -> Callable[..., Log]:
    """``simulate(("A", 7, 3, 0), …, **knobs)``: a small run."""
    return run_small


@pytest.fixture(scope="session")
def pressed() -> Callable[..., Log]:
    """Two requests on a pool too small for both. Steps are ticks, unless a clock is given.

    A: 7 tokens in, 3 out; B: 23 in, 4 out; both arrive at 0.

    0. A and B prefill, 2 + 6 blocks, and get a token each.
    1. Both decode: 8 and 24 tokens computed, still 2 + 6 blocks.
    2. A needs a third block, B is thrown out with 24 tokens; A gets its last token and ends.
    3. B returns with its 23 + 2 tokens and gets its third.
    4. B gets its last.

    Of B's 25 tokens in step 3 it had held 24 before, one of them generated. With the prefix cache
    on it finds 5 of its 6 blocks: A took the sixth.
    """
    return partial(run_small, ("A", 7, 3, 0), ("B", 23, 4, 0))
