"""What every room of tests may use: a scheduler driven by hand, golden cases, a pass over all.

The session's fixtures replay a recording once, however many tests ask for it.
"""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import settings

from kvsched import invariants
from kvsched.conform import load
from kvsched.conform.recording import Recording
from kvsched.conform.replay import replay
from kvsched.contract import Plan
from kvsched.engine import ScriptedExecutor
from kvsched.log import Log
from kvsched.request import Request
from kvsched.steps import StepRecord, rebuild
from kvsched.vllm import Config, Scheduler

# The same examples in every run; others with HYPOTHESIS_PROFILE=default.
settings.register_profile("repeatable", derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# The packaged profiles alone, whatever a reader has measured in this clone.
os.environ["KVSCHED_PROFILES"] = ""

GOLDEN = Path(__file__).parent / "golden" / "vllm"

SMALL: dict[str, Any] = {
    "num_gpu_blocks": 9,
    "block_size": 4,
    "max_num_seqs": 8,
    "max_num_batched_tokens": 64,
    "max_model_len": 64,
}
"""Eight usable blocks of four tokens."""


class Drive:
    """A vLLM scheduler driven by hand, SMALL unless told otherwise.

    ``add`` and ``abort`` take effect at the next ``step``, which returns the step as rebuilt
    from the log, after checking the numbered invariants. Requests share no token unless
    ``prompt`` gives runs.
    """

    def __init__(self, **knobs: Any) -> None:
        self.log = Log()
        self.scheduler = Scheduler(Config(**{**SMALL, **knobs}), self.log)
        self.first_token: dict[str, int] = {}
        self.executor = ScriptedExecutor()
        self.due: list[Callable[[], object]] = []
        self.plan = Plan()

    def add(
        self,
        name: str,
        prompt: int | Sequence[tuple[int, int]],
        out: int = 16,
        priority: int = 0,
        arrival: int = 0,
    ) -> None:
        number = len(self.first_token)
        self.first_token[name] = self.executor.first_token[name] = 1_000_000 + 10_000 * number
        runs = ((100_000 * (number + 1), prompt),) if isinstance(prompt, int) else tuple(prompt)
        request = Request(name, runs, out, arrival, priority)
        self.due.append(lambda: self.scheduler.add(request))

    def abort(self, name: str) -> None:
        self.due.append(lambda: self.scheduler.abort(name))

    def step(self) -> StepRecord:
        now = len(self.log.times)
        self.log.begin(now, now)
        for event in self.due:
            event()
        self.due.clear()
        self.plan = plan = self.scheduler.schedule(now)
        invariants.check(self.scheduler.snapshot(plan))
        self.scheduler.update(plan, self.executor(plan))
        invariants.check(self.scheduler.snapshot(plan))
        assert invariants.waiting_never_preempts(self.log) is None
        *_, last = rebuild(self.log)
        return last

    def steps(self, count: int) -> list[StepRecord]:
        return [self.step() for _ in range(count)]

    def finish(self, most: int = 200) -> list[StepRecord]:
        """Step until nobody is left, from step 0 on; fail if that takes more than ``most``."""
        while self.scheduler.has_work() or self.due:
            assert len(self.log.times) < most, "the run does not end"
            self.step()
        return list(rebuild(self.log))


class Case(NamedTuple):
    """A golden case and our replay of it."""

    recording: Recording
    log: Log
    stop: str
    steps: list[StepRecord]


@cache
def replayed(name: str) -> Case:
    recording = load(GOLDEN / f"{name}.json.gz")
    run = replay(recording)
    return Case(recording, run.log, run.stop, list(rebuild(run.log)))


@pytest.fixture(scope="session")
def drive() -> type[Drive]:
    """Make a scheduler to drive by hand: ``drive(watermark=0.1)``."""
    return Drive


@pytest.fixture(scope="session")
def case() -> Callable[[str], Case]:
    """A golden case by name, replayed once a session."""
    return replayed


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of the recordings."""
    return GOLDEN


class Survey(NamedTuple):
    """One pass over every recording: counts by name, and what should never be found."""

    counts: Counter[str]
    wrong: list[str]


@pytest.fixture(scope="session")
def survey() -> Survey:
    """Every step of every recording, counted in the recorded words.

    The twin equals the recordings in every field (``kvsched conform``), so this holds for both.
    """
    result = Survey(Counter(), [])
    for path in sorted(GOLDEN.glob("*.json.gz")):
        _survey(json.loads(gzip.decompress(path.read_bytes())), result)
    return result


def _survey(recording: dict[str, Any], result: Survey) -> None:
    result.counts["recordings"] += 1
    tables: dict[str, list[int]] = {}
    before = {"running": [], "preempted": [], "finished": []}
    for step in recording["trace"]:
        result.counts.update(_kinds(recording["config"], before, step))
        for problem in (_evicted_by_waiting(before, step), _wrong_tables(recording, step, tables)):
            if problem is not None:
                result.wrong.append(f"{recording['name']} step {step['step']}: {problem}")
        before = step


def _kinds(config: dict[str, Any], before: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    """What the step is an instance of."""
    yield "steps"
    victims, scheduled = now["preempted"], dict(now["sched"])
    yield from ["preemptions"] * len(victims)
    if victims:
        yield "preempting steps"
        if now["new"] or now["resumed"]:
            yield "preempting steps that admit"
    own = any(asker == victim for asker, victim in zip(now["alloc_fail"], victims, strict=False))
    idle = [name for name in now["running"] if name not in scheduled]
    if own and config["policy"] == "priority" and idle:
        yield "self-victims with others behind"
        if not scheduled:
            yield "self-victims that leave the whole step empty"
    if idle and not own and sum(scheduled.values()) < config["max_num_batched_tokens"]:
        yield "running requests passed over with budget left"
    yield from _next_step_resumes(config, before, now)


def _next_step_resumes(
    config: dict[str, Any], before: dict[str, Any], now: dict[str, Any]
) -> Iterator[str]:
    """A victim back in the very next step, and whether somebody else's leaving helped."""
    gate = "gate on" if config["scheduler_reserve_full_isl"] else "gate off"
    victims = before["preempted"]
    helped = len(victims) > 1 or bool(before["finished"] or now["finished_prev"])
    for name in now["resumed"]:
        if name in victims:
            yield f"next-step resumes, {gate}"
            if not helped:
                caching = "on" if config["enable_prefix_caching"] else "off"
                yield f"next-step resumes, {gate}, unaided, caching {caching}"


def _evicted_by_waiting(before: dict[str, Any], now: dict[str, Any]) -> str | None:
    """Each victim fell to a request that was running when the step began."""
    running = set(before["running"]) - {name for name, _ in before["finished"]}
    for asker, victim in zip(now["alloc_fail"], now["preempted"], strict=False):
        if asker not in running:
            return f"{asker} waits and evicts {victim}"
        running.discard(victim)
    return None


def _wrong_tables(
    recording: dict[str, Any], step: dict[str, Any], tables: dict[str, list[int]]
) -> str | None:
    """Whoever ends holds exactly the blocks of all tokens but the last."""
    for name in (*step["new"], *step["resumed"]):
        tables[name] = []
    for name, blocks in step["blocks"].items():
        tables[name].extend(blocks)
    for name, _ in step["finished"]:
        written = step["live"][name][2]  # without this step's sample
        if len(tables[name]) != -(-written // recording["config"]["block_size"]):
            return f"{name} ends with {len(tables[name])} blocks for {written} tokens"
    return None
