"""``python -m kvsched.device.tiny.record``: make chapter 8's stored results again.

``answers`` are exact, and a test compares them with a fresh run. ``precision`` is measured: it
differs from processor to processor, and says which one it is from.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from kvsched import views
from kvsched.device.tiny import precision
from kvsched.device.tiny.faults import FAULTS
from kvsched.device.tiny.model import Llama
from kvsched.device.tiny.runs import alone
from kvsched.device.tiny.scenes import OURS, POOLS, SAMPLING, WAYS, play, prompts

FOLDER = Path(views.__file__).parent
COMMAND = "python -m kvsched.device.tiny.record"
LICENCE = "MIT, as the code"


def scene(model: Llama, way: str, pool: int, sampling: str, whole: dict[str, list[int]]) -> Any:
    """One scene under every fault.

    ``moments``: when ours was thrown out and came back. By fault, only what it changes: ``ours``,
    the answer; ``wrong``, tokens of the other clients that differ; ``moments``.
    """
    told: dict[str, Any] = {}
    for piece, kind in FAULTS.items():
        run = play(model, way, pool, sampling, kind)
        moments = [[m.kind, m.outputs, m.found] for m in run.moments if m.id == OURS]
        pairs = [zip(run.tokens[name], whole[name], strict=True) for name in whole if name != OURS]
        wrong = sum(got != wanted for each in pairs for got, wanted in each)
        if piece == "nothing":
            told["moments"] = moments
        changed: dict[str, Any] = {}
        if run.tokens[OURS] != whole[OURS]:
            changed["ours"] = run.tokens[OURS]
        if wrong:
            changed["wrong"] = wrong
        if moments != told["moments"]:
            changed["moments"] = moments
        if changed:
            told[piece] = changed
    return told


def answers() -> dict[str, Any]:
    """Every scene, and the undisturbed answers."""
    model = Llama()
    whole = {s: {p.id: alone(model, p) for p in prompts(s)} for s in SAMPLING}
    return {
        "what": "Answers of a tiny random-weight Llama (float64) under vLLM's and SGLang's twins",
        "source": f"{COMMAND} answers",
        "licence": LICENCE,
        "ways": {name: way.about for name, way in WAYS.items()},
        "pools": list(POOLS),
        "prompts": [
            [p.id, len(p.tokens), p.max_tokens, p.adapter] for p in prompts(next(iter(SAMPLING)))
        ],
        "whole": {sampling: each[OURS] for sampling, each in whole.items()},
        "scenes": {
            f"{way}|{pool}|{sampling}": scene(model, way, pool, sampling, whole[sampling])
            for way in WAYS
            for pool in POOLS
            for sampling in SAMPLING
        },
    }


def differences() -> dict[str, Any]:
    """The logits' differences by dtype, on this machine's processor or its GPU."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return {
        "what": "Largest logit difference per decode: computed again, and in other company",
        "source": f"{COMMAND} precision",
        "licence": LICENCE,
        "kind": "measured",
        "device": device_name(device),
        "torch": torch.__version__,
        "date": datetime.now(UTC).date().isoformat(),
        "dtypes": {dtype: precision.measure(dtype, device) for dtype in precision.DTYPES},
    }


def measured_or_stored() -> tuple[dict[str, Any], str]:
    """The differences measured here where there is a GPU, else those stored; and which it is."""
    if torch.cuda.is_available():
        told = differences()
        return told, f"Measured now, {told['device']}"
    told = json.loads((FOLDER / "tiny_precision.json").read_text(encoding="utf-8"))
    return told, f"Stored {told['date']}, {told['device']}"


def device_name(device: str) -> str:
    """What it was measured on: the GPU, or the CPU with the instructions torch uses."""
    if device == "cuda":
        return f"GPU: {torch.cuda.get_device_name()}"
    capability = torch.backends.cpu.get_cpu_capability()
    return f"CPU: {_processor()}, {capability}"


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


STORED: dict[str, Callable[[], dict[str, Any]]] = {
    "answers": answers,
    "precision": differences,
}


def store(name: str) -> Path:
    """Compute and write ``name``; a run that is cut short leaves the old file as it was."""
    path = FOLDER / f"tiny_{name}.json"
    partial = path.with_suffix(".partial")
    text = json.dumps(STORED[name](), ensure_ascii=False, separators=(",", ":"))
    partial.write_text(text.replace('},"', '},\n"') + "\n", encoding="utf-8")
    return partial.replace(path)


def main() -> None:
    """Store what is named, or all."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Make chapter 8's results again.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="answers, precision")
    names = parser.parse_args().names or list(STORED)
    for name in names:
        if name not in STORED:
            parser.error(f"{name!r} is not stored; give {' or '.join(STORED)}")
    torch.set_num_threads(1)  # tensors this small gain nothing by more
    for name in names:
        store(name)


if __name__ == "__main__":
    main()
