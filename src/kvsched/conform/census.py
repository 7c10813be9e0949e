"""What the recordings contain: which moves between statuses, how often, and in which of them.

`python -m kvsched.conform.census PATH...` prints the moves as the file that the state view reads.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvsched.conform.recording import find, load
from kvsched.conform.replay import replay
from kvsched.invariants import waiting_never_preempts
from kvsched.log import Admit, Log, Preempt
from kvsched.vllm.transitions import Move, count_transitions


@dataclass(slots=True)
class Census:
    """Counts over replayed recordings.

    ``moves``: how often each was made; ``recordings``: in how many recordings; ``seen_in``: the
    name of the first. ``back_at_once``: victims that ran again in the very next step, by whether
    the whole-sequence gate was on. ``preempting_steps`` are steps with a preemption for want of
    blocks, ``admitting`` those of them that admitted anybody; ``violations``: waiting requests
    that preempted.
    """

    replayed: int = 0
    steps: int = 0
    moves: Counter[Move] = field(default_factory=Counter)
    recordings: Counter[Move] = field(default_factory=Counter)
    seen_in: dict[Move, str] = field(default_factory=dict)
    back_at_once: Counter[bool] = field(default_factory=Counter)
    preemptions: int = 0
    preempting_steps: int = 0
    admitting: int = 0
    violations: list[str] = field(default_factory=list)

    def add(self, name: str, log: Log) -> None:
        """Count one replay."""
        moves = count_transitions(log)
        self.replayed += 1
        self.steps += len(log.times)
        self.moves += moves
        self.recordings.update(moves.keys())
        for move in moves:
            self.seen_in.setdefault(move, name)
        violation = waiting_never_preempts(log)
        if violation is not None:
            self.violations.append(f"{name}: {violation}")
        self._count_steps(log)

    def recorded(self) -> dict[str, Any]:
        """The moves seen, each with how often, in how many recordings, and in which first."""
        moves = [
            {
                "from": source.name if source is not None else "(new)",
                "to": target.name,
                "times": times,
                "recordings": self.recordings[source, target],
                "first": self.seen_in[source, target],
            }
            for (source, target), times in self.moves.items()
        ]
        return {
            "recordings": self.replayed,
            "moves": sorted(moves, key=lambda move: (move["from"], move["to"])),
        }

    def _count_steps(self, log: Log) -> None:
        by_step: defaultdict[int, set[type]] = defaultdict(set)
        lost_at: dict[str, int] = {}
        gate = bool(log.config["scheduler_reserve_full_isl"])
        for entry in log.entries:
            event = entry.event
            if isinstance(event, Preempt) and event.denial is not None:
                self.preemptions += 1
                by_step[entry.step].add(Preempt)
                lost_at[event.id] = entry.step
            elif isinstance(event, Admit):
                by_step[entry.step].add(Admit)
                self.back_at_once[gate] += lost_at.get(event.id) == entry.step - 1
        preempting = [kinds for kinds in by_step.values() if Preempt in kinds]
        self.preempting_steps += len(preempting)
        self.admitting += sum(Admit in kinds for kinds in preempting)


def census(paths: Iterable[str | Path]) -> Census:
    """Replay the vLLM recordings under these paths and count.

    Raises InputError for a file that cannot be used.
    """
    counted = Census()
    for path in find(paths):
        recording = load(path)
        counted.add(recording.name, replay(recording).log)
    return counted


if __name__ == "__main__":
    about = {
        "what": "Moves between statuses in the replayed recordings of vLLM 0.28.0",
        "source": f"python -m kvsched.conform.census {' '.join(sys.argv[1:])}",
        "licence": "MIT, as the recordings",
    }
    counted = {**about, **census(sys.argv[1:]).recorded()}
    sys.stdout.write(f"{json.dumps(counted, indent=1)}\n")
