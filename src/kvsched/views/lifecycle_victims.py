"""Two rankings of victims: what each victim held, what it gave back, and the rows it cost."""

from __future__ import annotations

from typing import Any

from kvsched.lifecycle.rounds import Job, MostRecoverable, Rounds

PAGE_SIZE = 4
POOLS = (20, 24, 28, 32, 36, 40)
RANKINGS: dict[str, type[Rounds]] = {
    "longest context": Rounds,
    "most recoverable pages": MostRecoverable,
}


def jobs(chats: int = 4) -> list[Job]:
    """Four samples of one prompt of 24 tokens, and chats of 8 tokens. All numbers chosen."""
    family = Job("family", tuple(range(24)), 16, samples=4)
    return [family, *(Job(f"chat {n}", tuple(range(8)), 20) for n in range(1, chats + 1))]


def sweep() -> dict[str, Any]:
    """By ranking: the rows computed again in each pool, and every victim's pages."""
    runs = {
        name: [kind(pool, PAGE_SIZE, jobs()) for pool in POOLS] for name, kind in RANKINGS.items()
    }
    replayed = {
        name: [sum(a.replay_rows for a in each.run().values()) for each in runs[name]]
        for name in runs
    }
    victims = {
        name: [[p.held, p.freed] for each in runs[name] for p in each.preemptions] for name in runs
    }
    return {"pools": list(POOLS), "replayed": replayed, "victims": victims}
