"""What an order finds in the cache, by how many clients wait: lpm below its limit and above.

Prompts of 1,000 tokens that one in sixteen shares and 50 of their own, in a pool that holds three
such prefixes at once. Tokens are counted, no time: the result is the same on every machine.
"""

from __future__ import annotations

from random import Random

from kvsched.engine import Engine
from kvsched.log import Admit, Log
from kvsched.sglang import Config, Request, Scheduler
from kvsched.views.view import Data
from kvsched.workload import ClosedLoop

FAMILIES, SHARED, OWN, OUTPUTS = 16, 1000, 50, 4
POOL, SLOTS = 4000, 4
COUNTED = 120
"""Admissions that are counted; after them as many requests are left as there are clients."""
CLIENTS = (4, 8, 16, 32, 64, 96, 128, 131, 132, 160, 192)
POLICIES = ("fcfs", "lpm", "dfs-weight")


def cached_share(policy: str, clients: int, scheduler: type[Scheduler] = Scheduler) -> float:
    """The share of prompt tokens found in the cache, while ``clients`` keep the queue filled."""
    log = Log()
    config = Config(POOL, max_running_requests=SLOTS, schedule_policy=policy)
    engine = Engine(scheduler(config, log), ClosedLoop(_requests(clients), clients, log), log)
    admitted: list[Admit] = []
    while len(admitted) < COUNTED:
        engine.step()
        admitted = [entry.event for entry in log.entries if isinstance(entry.event, Admit)]
    counted = admitted[:COUNTED]
    found = sum(event.computed for event in counted)
    return found / (found + sum(event.tokens for event in counted))


def sweep() -> Data:
    """Every policy at every number of clients, shares rounded to three places."""
    return {
        "clients": list(CLIENTS),
        "shares": {
            policy: [round(cached_share(policy, clients), 3) for clients in CLIENTS]
            for policy in POLICIES
        },
    }


def _requests(clients: int) -> list[Request]:
    rng = Random(0)
    return [
        Request(
            f"r{i}",
            ((10_000 * rng.randrange(FAMILIES), SHARED), (10**6 + 1000 * i, OWN)),
            OUTPUTS,
        )
        for i in range(COUNTED + 2 * clients)
    ]
