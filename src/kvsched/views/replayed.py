"""A replay of the reservation simulator in the player: five requests, promises, pages, drains."""

from __future__ import annotations

from typing import Any

from kvsched.replay import replay_reserve
from kvsched.request import Request
from kvsched.reserve import Config, Record
from kvsched.reserve.as_pages import as_pages
from kvsched.reserve.records import Completed
from kvsched.views.lanes import draw, table
from kvsched.views.params import Choice, Number
from kvsched.views.replayed_steps import engine
from kvsched.views.trace import encode
from kvsched.views.view import Data, View
from kvsched.workload import Arrival, Cancel
from kvsched.workload.trace import Line

BLOCK_SIZE, BLOCKS = 4, 8
REQUESTS = {"A": (0, 6, 11), "B": (0, 4, 1), "C": (1, 12, 5), "D": (2, 3, 4), "E": (4, 40, 2)}
"""Arrival, prompt and output of each."""
CANCELLED = (9, "D")


def replay(policy: str, blocks: int, release_delay: int) -> tuple[list[Record], Config]:
    """The records of the five requests."""
    lines = []
    for place, (name, (at, prompt, output)) in enumerate(REQUESTS.items()):
        request = Request(name, ((1000 * place, prompt),), output, at)
        lines.append(Line(Arrival(at, request), output))
    lines.append(Line(Cancel(*CANCELLED)))
    config = Config(
        policy,
        BLOCK_SIZE,
        blocks,
        max_tokens=8,
        max_rows=4,
        chunk=8,
        release_delay=release_delay,
    )
    kept: list[Record] = []
    replay_reserve(iter(lines), config, write=kept.append)
    return kept, config


def compute(policy: str, blocks: int, release_delay: int) -> Data:
    """The whole replay for the player."""
    records, config = replay(policy, blocks, release_delay)
    log, moments = as_pages(records, config)
    trace = encode(log, engine(config, moments))
    done: list[Any] = [record for record in records if isinstance(record, Completed)]
    ends = ", ".join(f"{record.id} at tick {record.t}" for record in done)
    ticks = f"{release_delay} {'tick' if release_delay == 1 else 'ticks'}"
    return {
        "trace": trace,
        "sentence": f"{policy.capitalize()}, {blocks} blocks, pages drain for {ticks}: {ends}.",
        "caption": (
            f"Five requests in {blocks} blocks of {BLOCK_SIZE} tokens. A step is a boundary and "
            "the dispatch that begins there; a lane’s height is the KV it holds, gold when it has "
            "ended and its pages drain. The simulator counts pages; their numbers are of the "
            "picture. A tick is synthetic: it estimates no time of any device."
        ),
        "alt": (
            f"A lane for each request that is not rejected, over {len(trace['says'])} steps. "
            f"Completed: {ends}."
        ),
    }


VIEW = View(
    name="replayed",
    renderer="player",
    label="Step player: a replay of reservations",
    compute=compute,
    draw=draw,
    table=table,
    params=(
        Choice("policy", "policy", "continuous", ("continuous", "serial")),
        Number("blocks", "usable blocks", BLOCKS, 4, 16),
        Number("release_delay", "release delay, ticks", 3, 0, 8),
    ),
    selection={"step": 1, "request": "", "block": 0, "hide": False},
)
