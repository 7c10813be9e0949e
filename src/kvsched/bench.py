"""How fast the schedulers decide, in CPU microseconds per step.

A step here is everything but a model: deliver, schedule, a scripted executor, update. The
workload is stated in each row's name; nothing else is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any

from kvsched.engine import Engine
from kvsched.log import Level, Log
from kvsched.request import Request
from kvsched.vllm import Config, Scheduler
from kvsched.workload import Arrival

USABLE_BLOCKS = 20_480
BLOCK_SIZE = 16
RUNNING = (16, 64, 256, 1024)
REPEATS = 7
SECONDS = 0.3
"""CPU seconds one repeat aims at."""
WARM_UP = 5


def rows(quick: bool = False) -> Iterator[dict[str, Any]]:
    """One row a case: ``name``, ``running``, ``us_per_step``, ``us_per_request_step``.

    Medians over REPEATS fresh runs; ``quick`` takes three short ones.
    """
    for running in RUNNING:
        yield _row("vllm decode", partial(_decoding, running), _room(running), quick)
    yield _row("vllm preemption-heavy", _thrashing, 2000, quick)


def _prompt(running: int) -> int:
    return 800 if running < 1024 else 8


def _room(running: int) -> int:
    """Decode steps before the pool is full or a request reaches its length."""
    per_request = USABLE_BLOCKS // running * BLOCK_SIZE
    return min(per_request, 8000) - _prompt(running) - 2 * WARM_UP


def _decoding(running: int) -> Engine:
    """``running`` requests, all prefilled, with room to decode."""
    prompt = _prompt(running)
    config = Config(
        num_gpu_blocks=USABLE_BLOCKS + 1,
        block_size=BLOCK_SIZE,
        max_num_seqs=running,
        max_num_batched_tokens=running * prompt,
        max_model_len=8192,
    )
    return _engine(config, running, prompt, 8192)


def _thrashing() -> Engine:
    """64 slots of 100-token prompts in a pool for 40: each step evicts and resumes."""
    config = Config(
        num_gpu_blocks=40 * 8 + 1,
        max_num_seqs=64,
        max_num_batched_tokens=2048,
        max_model_len=8192,
        scheduler_reserve_full_isl=False,
    )
    return _engine(config, 100_000, 100, 100)


def _engine(config: Config, count: int, prompt: int, max_tokens: int) -> Engine:
    log = Log(Level.METRICS)
    requests = (
        Arrival(0, Request(f"r{i}", ((i * 10_000, prompt),), max_tokens)) for i in range(count)
    )
    return Engine(Scheduler(config, log), requests, log)


def _row(name: str, make: Callable[[], Engine], room: int, quick: bool) -> dict[str, Any]:
    repeats, seconds = (3, SECONDS / 10) if quick else (REPEATS, SECONDS)
    samples = []
    running = 0
    for _ in range(repeats):
        engine = make()
        steps = min(room, max(1, int(seconds / _seconds(engine, WARM_UP))))
        samples.append(_seconds(engine, steps))
        running = len(engine.step().scheduled)
    per_step = median(samples)
    return {
        "name": name,
        "running": running,
        "us_per_step": round(per_step * 1e6, 1),
        "us_per_request_step": round(per_step * 1e6 / running, 3),
    }


def _seconds(engine: Engine, steps: int) -> float:
    """Mean CPU seconds of a step."""
    start = time.process_time()
    for _ in range(steps):
        engine.step()
    return (time.process_time() - start) / steps
