"""A scheduler driven by hand, and the recordings, each file read and compared once a session."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kvsched.conform import CaseResult
from kvsched.conform.sglang import compare_content
from kvsched.contract import Plan, Result
from kvsched.log import Log
from kvsched.request import Stop
from kvsched.sglang import Config, Request, Scheduler, rebuild
from kvsched.sglang.req import Req
from kvsched.sglang.steps import Iteration

GOLDEN = Path(__file__).parent.parent / "golden" / "sglang"

SMALL: dict[str, Any] = {
    "max_total_tokens": 64,
    "page_size": 1,
    "max_running_requests": 8,
    "schedule_conservativeness": 0.0,
}
"""Sixty-four pages of one token, and nothing reserved for outputs."""

EOS = 7


class Drive:
    """A scheduler driven by hand, SMALL unless told otherwise.

    ``add`` and ``abort`` take effect at once; ``step`` returns the iteration as rebuilt from the
    log. Output k of a request is ``first + k`` by the end of its row. ``lag`` 1 is the overlap
    loop. Requests share no token unless ``prompt`` gives runs.
    """

    def __init__(self, lag: int = 0, **knobs: Any) -> None:
        self.log = Log()
        self.scheduler = Scheduler(Config(**{**SMALL, **knobs}), self.log)
        self.lag = lag
        self.reqs: dict[str, Req] = {}
        self.first: dict[str, int] = {}
        self.out: dict[str, int] = {}
        self.flying: list[tuple[Plan, Result]] = []
        self.plans: list[Plan] = []
        self.log.begin(0, 0)

    def add(
        self,
        name: str,
        prompt: int | Sequence[tuple[int, int]],
        out: int = 16,
        ends: int | None = None,
        **fields: Any,
    ) -> Req:
        """``ends``: outputs after which it says EOS."""
        number = len(self.reqs) + 1
        self.first[name] = 1_000_000 + 10_000 * number
        runs = ((100_000 * number, prompt),) if isinstance(prompt, int) else tuple(prompt)
        self.scheduler.add(Request(name, runs, out, stop=Stop(EOS), **fields))
        self.reqs[name] = r = self.scheduler.requests[name]
        self.out[name] = ends or 10**9
        return r

    def abort(self, name: str) -> None:
        self.scheduler.abort(name)

    def step(self, now: int | None = None) -> Iteration:
        plan = self.scheduler.schedule(self.log.step if now is None else now)
        self.plans.append(plan)
        self.flying.append((plan, self.run(plan)))
        if len(self.flying) > self.lag:
            self.scheduler.update(*self.flying.pop(0))
        *_, last = rebuild(self.log)
        self.log.begin(len(self.log.times), len(self.log.times))
        return last

    def run(self, plan: Plan) -> Result:
        tokens = {}
        for request_id, start, count, _ in plan.rows:
            k = start + count - self.reqs[request_id].num_prompt_tokens
            tokens[request_id] = (
                EOS if k == self.out[request_id] - 1 else self.token(request_id, k),
            )
        return Result({i: tokens[i] for i in plan.sampling or ()})

    def token(self, name: str, k: int) -> int:
        return self.first[name] + k

    def steps(self, count: int) -> list[Iteration]:
        return [self.step() for _ in range(count)]

    def finish(self, most: int = 500) -> list[Iteration]:
        """Step until nobody is left; fail if that takes more than ``most``."""
        while self.scheduler.has_work():
            assert len(self.plans) < most, "the run does not end"
            self.step()
        return list(rebuild(self.log))[:-1]


@pytest.fixture(scope="session")
def drive() -> type[Drive]:
    """Make a scheduler to drive by hand: ``drive(page_size=4)``."""
    return Drive


@cache
def _content(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text())


@cache
def _verdicts(name: str) -> tuple[CaseResult, ...]:
    return tuple(compare_content(GOLDEN / f"{name}.json", _content(name)))


@pytest.fixture(scope="session")
def content() -> Callable[[str], Any]:
    """A recorded file's content, which nobody may change."""
    return _content


@pytest.fixture(scope="session")
def verdicts() -> Callable[[str], tuple[CaseResult, ...]]:
    """The twin's verdicts on a file, case by case."""
    return _verdicts
