"""Replays of traces written as words: ``0 a 4 1`` arrives, ``3 cancel a`` cancels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvsched.replay import replay_reserve
from kvsched.request import EOS, Request, Stop
from kvsched.reserve import Config, Record
from kvsched.workload import Arrival, Cancel
from kvsched.workload.trace import Line

SMALL: dict[str, Any] = {
    "block_size": 4,
    "blocks": 8,
    "max_tokens": 16,
    "max_rows": 8,
    "chunk": 16,
}


def read(number: int, words: str) -> Line:
    """``t id prompt output`` and ``name=value``; ``first`` is the prompt's first token."""
    t, name, *rest = words.split()
    if name == "cancel":
        return Line(Cancel(int(t), rest[0]))
    prompt, output = int(rest[0]), int(rest[1])
    more = {key: int(value) for key, value in (pair.split("=") for pair in rest[2:])}
    runs = ((more.pop("first", 10**6 * (number + 1)), prompt),)
    cap = more.pop("max_tokens", output)
    stop = Stop(eos_token_id=EOS) if output < cap else None
    return Line(Arrival(int(t), Request(name, runs, cap, int(t), stop=stop, **more)), output)


def replayed(*trace: str, **knobs: Any) -> list[Record]:
    """The records of a trace in a small pool."""
    lines = [read(number, words) for number, words in enumerate(trace)]
    kept: list[Record] = []
    replay_reserve(iter(lines), Config(**{**SMALL, **knobs}), write=kept.append)
    return kept


@pytest.fixture(scope="session")
def play() -> Callable[..., list[Record]]:
    """``play("0 a 4 1", "1 cancel a", blocks=2)`` gives the records."""
    return replayed
