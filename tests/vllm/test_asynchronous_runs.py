"""Random asynchronous runs, with and without drafts: what must hold, holds."""

from __future__ import annotations

from random import Random

import pytest

from kvsched import invariants
from kvsched.contract import Plan, Result
from kvsched.engine import Engine, ScriptedExecutor
from kvsched.explain import explain
from kvsched.log import Log
from kvsched.request import Request
from kvsched.steps import rebuild
from kvsched.vllm import AsyncScheduler, Config
from kvsched.workload import Arrival

COUNTED = (
    "num_computed_tokens",
    "num_tokens",
    "num_preemptions",
    "num_output_placeholders",
    "num_in_flight_tokens",
    "num_stale_output_tokens",
    "drop_stale_output",
    "num_spec_tokens",
)


class Guesses(ScriptedExecutor):
    """Finds some of the drafts right."""

    def __init__(self, rng: Random) -> None:
        super().__init__()
        self.rng = rng

    def __call__(self, plan: Plan) -> Result:
        tokens = {
            i: [token + k for k in range(1 + self.rng.randint(0, plan.drafts.get(i, 0)))]
            for i, (token,) in super().__call__(plan).tokens.items()
        }
        return Result(tokens)


def a_config(rng: Random) -> Config:
    """Small and tight."""
    drafts = rng.choice([0, 0, 3])
    return Config(
        num_gpu_blocks=rng.randint(8, 16),
        block_size=rng.randint(2, 4),
        max_num_seqs=rng.randint(2, 6),
        max_num_batched_tokens=rng.randint(12, 40),
        max_model_len=48,
        policy=rng.choice(["fcfs", "priority"]),
        enable_prefix_caching=rng.random() < 0.7,
        scheduler_reserve_full_isl=rng.random() < 0.5,
        async_scheduling=True,
        pipeline_parallel_size=rng.choice([1, 1, 2]),
        kv_role=rng.choice(["", "", "kv_consumer", "kv_producer"]),
        speculative_method=rng.choice(["draft_model", "pard"]) if drafts else "",
        num_speculative_tokens=drafts,
    )


class TestAnyRun:
    """Random requests on random small engines; the log tells all of it."""

    @pytest.mark.parametrize("seed", range(40))
    def test_invariants_hold_and_the_log_rebuilds_every_step(self, seed: int) -> None:
        rng = Random(seed)
        log = Log()
        config = a_config(rng)
        scheduler = AsyncScheduler(config, log)
        arrivals = [
            Arrival(
                rng.randint(0, 30),
                Request(
                    f"r{i}",
                    ((100 * rng.randint(0, 2), rng.randint(1, 14)),),
                    rng.randint(1, 12),
                    i,
                    rng.randint(0, 2),
                ),
            )
            for i in range(10)
        ]
        lag = config.max_concurrent_batches - 1
        engine = Engine(scheduler, arrivals, log, executor=Guesses(rng), lag=lag)
        states = []
        for _ in range(120):
            plan = engine.step()
            invariants.check(scheduler.snapshot(plan))
            states.append(
                (
                    {
                        r.id: [getattr(r, name) for name in COUNTED]
                        for r in scheduler.requests.values()
                    },
                    [r.id for r in scheduler.running],
                    [r.id for r in scheduler.waiting],
                    len(scheduler.kv.pool.free),
                )
            )
        assert invariants.waiting_never_preempts(log) is None
        for step, (live, running, waiting, free) in zip(rebuild(log), states, strict=True):
            assert {i: list(state[1:]) for i, state in step.live_end.items()} == live
            assert (step.running_end, step.waiting_end, step.free_end) == (running, waiting, free)
            assert all(sentence.text for sentence in explain(step, log.config))
