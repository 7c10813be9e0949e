"""One large cold request and a stream of small ones that share a prefix, under five rules.

A pool of 3,200 tokens, and all other numbers, chosen; a step is a tick. Everybody comes in the
same order; what differs is who is tried next, and what follows a refusal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from kvsched import courses, sglang, vllm
from kvsched.courses import Course
from kvsched.engine import Engine
from kvsched.log import Log, Preempt
from kvsched.request import Request, Runs
from kvsched.sglang.events import Opening
from kvsched.whatif import AgedLPM, PassingOver
from kvsched.workload import Arrival

BLOCK, BLOCKS = 16, 200
POOL = BLOCK * BLOCKS
OWN, OUTPUTS = 64, 32
"""Prompt tokens that a small request shares with nobody, and tokens it answers."""
EVERY, BEFORE = 2, 16
"""Steps from one small request to the next, and how many come before V."""
LARGE, PROMPT = "V", 1600
"""The request that waits, and its prompt, of which nothing is ever cached."""
ARRIVAL = EVERY * BEFORE - 1
"""When V comes."""
LENGTHS = (0, 60, 120, 180)
"""How many small requests follow V."""


class Rule(NamedTuple):
    """A name, the scheduler under it, and the rule in a few words."""

    name: str
    make: Callable[[Log], Any]
    says: str


def rules(credit: int) -> tuple[Rule, ...]:
    """The five, in the order in which they are shown."""
    blocks = vllm.Config(BLOCKS + 1, BLOCK)
    fcfs, lpm = (
        sglang.Config(POOL, page_size=BLOCK, schedule_policy=policy) for policy in ("fcfs", "lpm")
    )
    aged = f"a pass waited counts as {credit:,} cached tokens"
    return (
        Rule("break", partial(vllm.Scheduler, blocks), "vLLM: a refusal ends the walk"),
        Rule("continue", partial(PassingOver, blocks), "what if: a refusal is passed over"),
        Rule("fcfs", partial(sglang.Scheduler, fcfs), "SGLang: in the order of entry"),
        Rule("lpm", partial(sglang.Scheduler, lpm), "SGLang: longest cached prefix first"),
        Rule("aged lpm", partial(AgedLPM, lpm, credit=credit), f"what if: {aged}"),
    )


def requests(stream: int, shared: int) -> list[Arrival]:
    """The small ones before V, V itself, and ``stream`` small ones after it."""
    events = []
    for i in range(BEFORE + stream):
        own = (10**6 * (i + 1), OWN)
        prompt: Runs = ((0, shared), own) if shared else (own,)
        events.append(Arrival(EVERY * i, Request(f"s{i}", prompt, OUTPUTS, EVERY * i)))
    large = Request(LARGE, ((5 * 10**8, PROMPT),), OUTPUTS, ARRIVAL)
    return [*events[:BEFORE], Arrival(ARRIVAL, large), *events[BEFORE:]]


def simulate(rule: Rule, stream: int, shared: int, *, whole: bool = True) -> Log:
    """The run, or the part of it until V is admitted."""
    log = Log()
    engine = Engine(rule.make(log), requests(stream, shared), log)
    while not engine.done:
        plan = engine.step()
        if not whole and LARGE in plan.admitted:
            break
    return log


def waited(log: Log) -> dict[str, int]:
    """Steps from arrival to admission, of all who were admitted."""
    return {c.id: c.admitted[0] - c.arrived for c in courses.read(log) if c.admitted}


def passed_by(log: Log) -> list[Course]:
    """Who came after V and was admitted in an earlier step."""
    found = courses.read(log)
    admitted = next(c.admitted[0] for c in found if c.id == LARGE)
    return [c for c in found if c.arrived > ARRIVAL and c.admitted and c.admitted[0] < admitted]


def passes_behind(log: Log, course: Course) -> int:
    """How many passes V had been sorted in when SGLang first sorted this one."""
    return sum(ARRIVAL <= entry.step < course.arrived for entry in log.of(Opening))


def stays(log: Log) -> list[tuple[int, int]]:
    """The steps from and before which V held memory; more than once if it was thrown out."""
    course = next(course for course in courses.read(log) if course.id == LARGE)
    assert course.ended is not None
    thrown_out = (e for e in log.entries if isinstance(e.event, Preempt) and e.event.id == LARGE)
    out = [entry.step for entry in thrown_out]
    return list(zip(course.admitted, [*out, course.ended], strict=True))


def waits(rule: Rule, shared: int, known: Mapping[int, int]) -> list[int]:
    """V's wait under streams of all ``LENGTHS``, some of which are known.

    A stream that had not ended when V came in says the same as every longer one.
    """
    found: list[int] = []
    before = 0
    for length in LENGTHS:
        if found and ARRIVAL + found[-1] < EVERY * (BEFORE + before):
            found.append(found[-1])
        elif length in known:
            found.append(known[length])
        else:
            found.append(waited(simulate(rule, length, shared, whole=False))[LARGE])
        before = length
    return found
