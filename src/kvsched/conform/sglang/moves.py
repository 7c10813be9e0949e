"""Which derived state follows which, over the recorded loops."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvsched.conform.sglang.replay import replay
from kvsched.sglang import State, rebuild

LOOPS = ("loop.json", "loop_overlap.json")


@dataclass
class Moves:
    """States from one ``schedule()`` to the next; who has ended is in none.

    ``lost``: the seed of each run that loses a request, and the request.
    """

    runs: int = 0
    steps: int = 0
    counts: Counter[tuple[State, State]] = field(default_factory=Counter)
    lost: list[tuple[int, str]] = field(default_factory=list)


def moves(folder: str | Path) -> Moves:
    """Replay every recorded loop of the folder and count."""
    counted = Moves()
    for run in _runs(Path(folder)):
        counted.runs += 1
        before: dict[str, State] = {}
        for it in rebuild(replay(run).log):
            counted.steps += 1
            here = {request_id: State(lane[0]) for request_id, lane in it.live.items()}
            changed = {i: s for i, s in here.items() if before.get(i, s) is not s}
            counted.counts.update((before[i], state) for i, state in changed.items())
            counted.lost += [(run["seed"], i) for i, s in changed.items() if s is State.LOST]
            before = here
    return counted


def _runs(folder: Path) -> Iterator[dict[str, Any]]:
    for name in LOOPS:
        yield from json.loads((folder / name).read_text("utf-8"))["runs"]
