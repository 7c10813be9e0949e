"""What every room of tests may use: a scheduler driven by hand, golden cases, a pass over all.

The session's fixtures replay a recording once, however many tests ask for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kvsched import invariants
from kvsched.conform import find, load
from kvsched.conform.recording import Recording
from kvsched.conform.replay import replay
from kvsched.contract import Plan
from kvsched.engine import ScriptedExecutor
from kvsched.log import Admit, Finish, Log, Preempt, Resume
from kvsched.request import Request
from kvsched.steps import StepRecord, rebuild
from kvsched.vllm import Config, Scheduler

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
    """Every recording replayed, its steps rebuilt from the log and counted. Takes ~15 s."""
    result = Survey(Counter(), [])
    for path in find([GOLDEN]):
        _survey(load(path), result)
    return result


def _survey(recording: Recording, result: Survey) -> None:
    log = replay(recording).log
    tables: dict[str, list[int]] = {}
    before: StepRecord | None = None
    for record in rebuild(log):
        result.counts.update(_step_counts(recording, before, record))
        result.wrong.extend(_wrong_tables(recording, record, tables))
        before = record
    if (violation := invariants.waiting_never_preempts(log)) is not None:
        result.wrong.append(f"{recording.name}: {violation}")
    result.counts["recordings"] += 1


def _step_counts(recording: Recording, before: StepRecord | None, now: StepRecord) -> Iterator[str]:
    """What the step is an instance of."""
    config = recording.config
    gate = "gate on" if config["scheduler_reserve_full_isl"] else "gate off"
    yield "steps"
    victims = now.of(Preempt)
    yield from ["preemptions"] * len(victims)
    if victims:
        yield "preempting steps"
        if now.of(Admit):
            yield "preempting steps that admit"
    own = any(event.denial is not None and event.id == event.denial.id for event in victims)
    idle = [name for name in now.running if name not in now.scheduled]
    if own and config["policy"] == "priority" and idle:
        yield "self-victims with others behind"
        if not now.scheduled:
            yield "self-victims that leave the whole step empty"
    spent = sum(now.scheduled.values()) == config["max_num_batched_tokens"]
    if idle and not own and not spent:
        yield "running requests passed over with budget left"
    if before is not None:
        yield from _next_step_resumes(gate, config, before, now)


def _next_step_resumes(
    gate: str, config: dict[str, Any], before: StepRecord, now: StepRecord
) -> Iterator[str]:
    """A victim back in the very next step, and whether somebody else's leaving helped."""
    victims = before.of(Preempt)
    helped = len(victims) > 1 or bool(before.of(Finish) or now.ended_before)
    for event in now.of(Resume):
        if event.id in [victim.id for victim in victims]:
            yield f"next-step resumes, {gate}"
            if not helped:
                caching = "on" if config["enable_prefix_caching"] else "off"
                yield f"next-step resumes, {gate}, unaided, caching {caching}"


def _wrong_tables(
    recording: Recording, record: StepRecord, tables: dict[str, list[int]]
) -> Iterator[str]:
    """Requests that end by length hold exactly the blocks of all tokens but the last."""
    for event in record.of(Admit):
        tables[event.id] = []
    for name, blocks in record.blocks.items():
        tables[name].extend(blocks)
    for event in record.of(Finish):
        written = record.live[event.id].num_tokens  # without this step's sample
        if len(tables[event.id]) != -(-written // recording.config["block_size"]):
            yield f"{recording.name} step {record.step}: {event.id} ends with a wrong table"
