"""Recordings as the player stores them and as the log rebuilds them, a JSON line each.

`python tests/views/decoded.py` is what the Node test of the player's decoder reads.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvsched.conform.recording import Recording, find, load
from kvsched.conform.replay import not_modelled, replay
from kvsched.steps import StepRecord, rebuild
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


def recordings() -> Iterator[Recording]:
    """The recordings of both formats that our scheduler models, the largest left out."""
    for path in find([GOLDEN / "vllm", GOLDEN / "vllm2"]):
        if path.stat().st_size <= LARGEST:
            recording = load(path)
            if not_modelled(recording) is None:
                yield recording


def rebuilt(record: StepRecord) -> dict[str, Any]:
    """A step's fields by name, ready for JSON."""
    fields = {name: getattr(record, name) for name in FIELDS}
    if record.denial is not None:
        fields["denial"] = record.denial._asdict()
    return {**fields, "loaded": sorted(record.loaded)}


def main() -> None:
    """Write every recording's trace and its steps."""
    for recording in recordings():
        log = replay(recording).log
        trace = encode(log)
        steps = [rebuilt(record) for record in rebuild(log)][: len(trace["events"])]
        line = {"name": recording.name, "trace": trace, "steps": steps}
        sys.stdout.write(json.dumps(line, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
