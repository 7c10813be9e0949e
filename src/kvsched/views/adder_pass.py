"""A pool in use, twelve requests that wait, and one pass of either engine over them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil, floor
from typing import Any, NamedTuple

from kvsched import sglang, vllm
from kvsched.contract import RESERVATION
from kvsched.engine import Engine
from kvsched.log import Allocate, Log
from kvsched.request import Request
from kvsched.sglang.adder import PrefillAdder, Verdict
from kvsched.sglang.ignore_eos import Adder
from kvsched.sglang.req import Req
from kvsched.workload import Arrival

POOL, PAGE = 40_000, 16
"""Tokens of memory, and of a page or block."""
SHARED = 2000
"""Tokens of a prompt that was answered before: they can be found, and nobody holds them."""
RUNNING = (
    (900, 4096), (1400, 4096), (700, 2048), (1200, 4096), (500, 4096), (1600, 4096),
    (800, 2048), (1000, 4096), (600, 4096), (1100, 4096), (900, 4096), (700, 4096),
)  # fmt: skip
"""Prompt and most outputs of those that run, or as many of them as the reader says."""
WAITING = (
    ("A", 600, 512), ("B", 300, 1024), ("C", 1100, 2048), ("D", 400, 256), ("E", 500, 1024),
    ("F", 1500, 4096), ("G", 700, 512), ("H", 300, 2048), ("I", 200, 512), ("J", 900, 1024),
    ("K", 1300, 512), ("L", 500, 4096),
)  # fmt: skip
"""Name, prompt and most outputs of those that wait."""
SHARING = ("B", "E", "I")
"""Their prompts begin with the shared tokens, which come on top."""
APART = 20
"""Steps from one arrival to the next."""
PASS = 1 + APART * len(RUNNING)
"""The step that is looked at. All that wait arrive in it."""


class Tried(NamedTuple):
    """A request that was offered a place; all in tokens.

    ``left``: memory not spoken for before it. Of that it takes ``found`` by holding its prefix,
    ``computed`` for what it computes now, and ``later`` for outputs and a page. The comparison
    that decided is ``asked`` with ``limit``; ``sign`` says how it came out.
    """

    id: str
    added: bool
    left: int
    found: int
    computed: int
    later: int
    asked: int
    sign: str
    limit: int
    verdict: str


class Pass(NamedTuple):
    """Memory before a pass, ``free`` and ``evictable``, of which ``reserved`` is for who runs.

    That is rounded down. ``used``: prompt tokens given out of its ``budget``; vLLM counts its
    decodes among them.
    """

    free: int
    evictable: int
    reserved: int
    tried: list[Tried]
    used: int
    budget: int


class Watched(Adder):
    """An adder that keeps what it had at first, and whom it was offered."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.free, self.evictable = self.kv.available, self.kv.evictable
        self.reserved = floor(self.total_offset)
        self.tried: list[Tried] = []

    def add(self, r: Req) -> Verdict:
        """As the engine does, and written down; what is left is rounded up, no integer can tell."""
        left, evictable = self.total_left, self.kv.evictable
        verdict = super().add(r)
        denial, needs = self.denial, r.fill_len - r.prefix_len
        if denial is None:
            assert self.tested is not None
            found = evictable - self.kv.evictable
            computed = r.extend_range[1] - r.extend_range[0]
            later = ceil(left) - ceil(self.total_left) - found - computed
            sides = (self.tested[0], "<", ceil(left) - found)
        elif denial.test == RESERVATION:  # what it found is evictable again
            found = self.kv.available + evictable - denial.free
            computed, later = needs, denial.need - needs
            sides = (denial.need, "≥", denial.limit + 1)
        else:
            found = computed = later = 0
            sides = (denial.asked, ">", denial.limit)
        added = denial is None
        parts = (ceil(left), found, computed, later)
        self.tried.append(Tried(r.id, added, *parts, *sides, verdict.value))
        return verdict


class Watching(sglang.Scheduler):
    """A scheduler that keeps the adder of its last pass."""

    adder_class = Watched
    adder: PrefillAdder

    def make_adder(self) -> PrefillAdder:
        """The engine's."""
        self.adder = super().make_adder()
        return self.adder


def sglang_pass(running: int, ratio: float, clip: int, chunk: int) -> Pass:
    """SGLang's pass at this ``new_token_ratio``.

    Those who run were let in at a ratio of 0, and clip and chunk are turned after that: so every
    pass begins from the same pool.
    """
    config = sglang.Config(POOL, page_size=PAGE, init_new_token_ratio=0)
    log = Log()
    scheduler = Watching(config, log)
    engine = until_the_pass(Engine(scheduler, arrivals(running), log))
    scheduler.config = replace(
        config, clip_max_new_tokens_estimation=clip, chunked_prefill_size=chunk
    )
    scheduler.ratio.current = ratio
    engine.step()
    adder = scheduler.adder
    assert isinstance(adder, Watched)
    return Pass(adder.free, adder.evictable, adder.reserved, adder.tried, adder.input_tokens, chunk)


def vllm_pass(running: int, budget: int) -> Pass:
    """VLLM's step over the same requests: blocks of this step, and nothing for later."""
    config = vllm.Config(POOL // PAGE + 1, block_size=PAGE, max_model_len=POOL)
    log = Log()
    scheduler = vllm.Scheduler(config, log)
    engine = until_the_pass(Engine(scheduler, arrivals(running), log))
    scheduler.config = replace(config, max_num_batched_tokens=budget)
    free = first = len(scheduler.kv.pool.free)
    plan = engine.step()
    tried = []
    for event in [entry.event for entry in log.of(Allocate) if entry.step == PASS]:
        assert isinstance(event, Allocate)
        if event.id in plan.admitted:
            tokens = plan.scheduled[event.id]
            taken, own = PAGE * (free - event.free), PAGE * len(event.blocks)
            parts = (PAGE * free, taken - own, tokens, own - tokens)
            sides = (taken, "≤", PAGE * free)
            tried.append(Tried(event.id, True, *parts, *sides, "admitted"))
        else:  # a running request's next block
            first = event.free
        free = event.free
    for denial in plan.denials:
        sides = (denial.asked, ">", denial.limit)
        tried.append(Tried(denial.id, False, PAGE * free, 0, 0, 0, *sides, denial.test))
    return Pass(PAGE * first, 0, 0, tried, sum(plan.scheduled.values()), budget)


def arrivals(running: int) -> Iterator[Arrival]:
    """One that is soon done and leaves its prompt in the cache, those that run, those that wait."""
    yield Arrival(0, Request("old", ((0, SHARED),), 1))
    for i, (prompt, outputs) in enumerate(RUNNING[:running]):
        yield Arrival(1 + APART * i, Request(f"run{i}", ((10_000 * (i + 1), prompt),), outputs))
    for i, (name, prompt, outputs) in enumerate(WAITING):
        shared = ((0, SHARED),) if name in SHARING else ()
        own = ((1_000_000 + 10_000 * i, prompt),)
        yield Arrival(PASS, Request(name, (*shared, *own), outputs))


def until_the_pass(engine: Engine) -> Engine:
    """The engine, about to take the step that is looked at."""
    while engine.steps < PASS:
        engine.step()
    return engine
