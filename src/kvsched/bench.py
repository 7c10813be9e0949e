"""How fast the schedulers decide, in CPU microseconds per step.

A step here is everything but a model: deliver, schedule, a scripted executor, update; in the rows
on the queue's order it is that order alone. The workload is stated in each row's name; nothing
else is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from statistics import median
from typing import Any

from kvsched import contract, sglang, vllm
from kvsched.engine import Engine
from kvsched.log import Level, Log
from kvsched.request import Request
from kvsched.sglang.kv_cache import KVCache
from kvsched.sglang.policy import SchedulePolicy
from kvsched.sglang.req import Req
from kvsched.workload import Arrival

USABLE_BLOCKS = 20_480
BLOCK_SIZE = 16
RUNNING = (16, 64, 256, 1024)
QUEUED = (16, 64, 128, 129, 1024)
"""SGLang's lpm policy orders a queue of up to 128, and leaves a longer one as it stands."""
REPEATS = 7
SECONDS = 0.3
"""CPU seconds one repeat aims at."""
WARM_UP = 5

Step = Callable[[], int]
"""Does one step; says how many requests it was about."""


def rows(quick: bool = False) -> Iterator[dict[str, Any]]:
    """One row a case: ``name``, ``requests``, ``us_per_step``, ``us_per_request_step``.

    ``requests``: those that ran in the last step, or stood in the queue. Medians over REPEATS
    fresh runs; ``quick`` takes three short ones.
    """
    for running in RUNNING:
        yield _row("vllm decode", partial(_vllm_decoding, running), _room(running), quick)
        yield _row("sglang decode", partial(_sglang_decoding, running), _room(running), quick)
    yield _row("vllm preemption-heavy", _thrashing, 2000, quick)
    for queued in QUEUED:
        yield _row("sglang queue order, lpm", partial(_ordering, queued), 10**6, quick)


def _prompt(running: int) -> int:
    return 800 if running < 1024 else 8


def _room(running: int) -> int:
    """Decode steps before the pool is full or a request reaches its length."""
    per_request = USABLE_BLOCKS // running * BLOCK_SIZE
    return min(per_request, 8000) - _prompt(running) - 2 * WARM_UP


def _vllm_decoding(running: int) -> Step:
    """``running`` requests, all prefilled, with room to decode."""
    prompt = _prompt(running)
    config = vllm.Config(
        num_gpu_blocks=USABLE_BLOCKS + 1,
        block_size=BLOCK_SIZE,
        max_num_seqs=running,
        max_num_batched_tokens=running * prompt,
        max_model_len=8192,
    )
    log = Log(Level.METRICS)
    return _engine(vllm.Scheduler(config, log), log, running, prompt, 8192)


def _sglang_decoding(running: int) -> Step:
    """The same; nothing is reserved for outputs, so that one pass admits them all."""
    prompt = _prompt(running)
    config = sglang.Config(
        max_total_tokens=USABLE_BLOCKS * BLOCK_SIZE,
        page_size=BLOCK_SIZE,
        max_running_requests=running,
        max_prefill_tokens=2 * running * max(prompt, BLOCK_SIZE),
        clip_max_new_tokens_estimation=0,
    )
    log = Log(Level.METRICS)
    return _engine(sglang.Scheduler(config, log), log, running, prompt, 8192)


def _thrashing() -> Step:
    """64 slots of 100-token prompts in a pool for 40: each step evicts and resumes."""
    config = vllm.Config(
        num_gpu_blocks=40 * 8 + 1,
        max_num_seqs=64,
        max_num_batched_tokens=2048,
        max_model_len=8192,
        scheduler_reserve_full_isl=False,
    )
    log = Log(Level.METRICS)
    return _engine(vllm.Scheduler(config, log), log, 2000, 100, 100)


def _engine(
    scheduler: contract.Scheduler, log: Log, count: int, prompt: int, max_tokens: int
) -> Step:
    requests = (
        Arrival(0, Request(f"r{i}", ((i * 10_000, prompt),), max_tokens)) for i in range(count)
    )
    engine = Engine(scheduler, requests, log)
    return lambda: len(engine.step().scheduled)


def _ordering(queued: int) -> Step:
    """A queue of 500-token prompts in 8 families, of each of which the first 240 are cached."""
    config = sglang.Config(max_total_tokens=100_000, schedule_policy="lpm")
    kv = KVCache(config, Log(Level.METRICS))
    assert kv.tree is not None
    for family in range(8):
        kv.tree.insert(((10_000 * family, 240),), kv.pool.take(240))
    waiting = [
        Req(Request(f"r{i}", ((10_000 * (i % 8), 240), (10**6 + 1000 * i, 260)), 1), config)
        for i in range(queued)
    ]
    Random(0).shuffle(waiting)
    policy = SchedulePolicy(config, kv, Random(0))

    def order() -> int:
        policy.sort(waiting, ())
        return len(waiting)

    return order


def _row(name: str, make: Callable[[], Step], room: int, quick: bool) -> dict[str, Any]:
    repeats, seconds = (3, SECONDS / 10) if quick else (REPEATS, SECONDS)
    samples = []
    requests = 0
    for _ in range(repeats):
        step = make()
        once = max(_seconds(step, WARM_UP), 1e-9)
        steps = min(room, max(1, int(seconds / once)))
        samples.append(_seconds(step, steps))
        requests = step()
    per_step = median(samples)
    return {
        "name": name,
        "requests": requests,
        "us_per_step": round(per_step * 1e6, 1),
        "us_per_request_step": round(per_step * 1e6 / requests, 3),
    }


def _seconds(step: Step, steps: int) -> float:
    """Mean CPU seconds of a step."""
    start = time.process_time()
    for _ in range(steps):
        step()
    return (time.process_time() - start) / steps
