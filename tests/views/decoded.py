"""Recordings as the player stores them and as the log rebuilds them, a JSON line each.

`python tests/views/decoded.py` is what the Node test of the player's decoder reads.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kvsched.conform.recording import Recording, find, load
from kvsched.conform.replay import replay
from kvsched.conform.sglang.replay import replay as replay_sglang
from kvsched.log import Log
from kvsched.reserve.as_pages import as_pages
from kvsched.sglang.board import Board
from kvsched.sglang.steps import rebuild as rebuild_sglang
from kvsched.steps import StepRecord, rebuild
from kvsched.views import find as find_view
from kvsched.views import replayed
from kvsched.views.engines import Engine
from kvsched.views.replayed_steps import engine
from kvsched.views.trace import encode

GOLDEN = Path(__file__).parents[1] / "golden"
LARGEST = 8_000
"""Bytes of a recording, compressed; larger ones add time and no new kind of event."""
FIELDS = [
    "step", "scheduled", "sampling", "denial", "erased", "ended_before", "waiting", "skipped",
    "running", "prefilling", "live", "holders", "slots", "free", "free_crc", "cached", "emitted",
    "waiting_end", "skipped_end", "running_end", "live_end", "slots_end", "free_end",
    "free_crc_end", "cached_end",
]  # fmt: skip
"""What of a step must come out equal; its entries are what goes in."""
ITERATION = [
    "step", "rows", "chunked", "ratio", "full", "erased", "waiting", "running", "emitted",
    "ratio_end",
]  # fmt: skip
"""The same of an iteration of SGLang's."""


def recordings() -> Iterator[Recording]:
    """The synchronous recordings of both formats without drafts, the largest left out."""
    for path in find([GOLDEN / "vllm", GOLDEN / "vllm2"]):
        if path.stat().st_size <= LARGEST:
            recording = load(path)
            if not (recording.config.get("async_scheduling") or recording.config.get("spec")):
                yield recording


def rebuilt(record: StepRecord) -> dict[str, Any]:
    """A step's fields by name, ready for JSON."""
    fields = {name: getattr(record, name) for name in FIELDS}
    for name in ("live", "live_end"):
        fields[name] = {i: [*s[:4], s.drop_stale_output] for i, s in fields[name].items()}
    if record.denial is not None:
        fields["denial"] = record.denial._asdict()
    return {**fields, "loaded": sorted(record.loaded)}


def loops() -> Iterator[tuple[str, Log]]:
    """Some of SGLang's recorded loops: every third of the normal loop, all of the overlap loop."""
    for name, apart in (("loop", 3), ("loop_overlap", 1)):
        runs = json.loads((GOLDEN / "sglang" / f"{name}.json").read_text())["runs"]
        for place in range(0, len(runs), apart):
            yield f"{name}[{place}]", replay_sglang(runs[place]).log


def iterations(log: Log) -> Iterator[dict[str, Any]]:
    """An iteration's fields by name, with the pages as they lie at its end."""
    board = Board(log)
    for it in rebuild_sglang(log, board):
        pages = board.ledger
        yield {
            **{name: getattr(it, name) for name in ITERATION},
            "live": {i: numbers for i, (_, *numbers) in it.live.items()},
            "denial": it.denial._asdict() if it.denial is not None else None,
            "free_queue": list(pages.pool),
            "owners": dict(pages.owners),
            "tables": {i: list(table) for i, table in pages.tables.items() if table},
        }


def main() -> None:
    """Write every recording's trace and its steps."""
    for recording in recordings():
        log = replay(recording).log
        _write(recording.name, log, map(rebuilt, rebuild(log)))
    for name, log in loops():
        _write(name, log, iterations(log))
    for params in find_view("replayed").samples():
        records, config = replayed.replay(**params)
        log, moments = as_pages(records, config)
        _write(f"replayed {params}", log, map(rebuilt, rebuild(log)), engine(config, moments))


def _write(
    name: str, log: Log, steps: Iterable[dict[str, Any]], parts: Engine | None = None
) -> None:
    trace = encode(log, parts)
    line = {"name": name, "trace": trace, "steps": list(steps)[: len(trace["events"])]}
    sys.stdout.write(json.dumps(line, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
