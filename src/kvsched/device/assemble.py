"""From samples to a profile file, as ``kvsched.profiles.schema`` describes it."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from typing import Any

from kvsched.costs import carried
from kvsched.costs.units import GB, binary
from kvsched.device.backend import Backend
from kvsched.device.fit import Fit, latency_and_rate, linear_and_square
from kvsched.device.scale import Scale
from kvsched.device.timing import REPEATS, WARM_UP
from kvsched.errors import InputError
from kvsched.profiles import Profile, load, packaged
from kvsched.profiles.schema import VERSION

Samples = Mapping[str, list[float]]

TIMES = {"cuda": "CUDA events around each run", "cpu": "a monotonic clock around each run"}
LAYERS = (
    "Prefill, suffix and decode: Llama-3-8B layers with random weights (norms, attention with its "
    "KV write, SwiGLU) in eager torch; no rotary embedding, embedding, head or sampling. "
)
COPIES = (
    "Copies: pieces of one size, at random places on the device, in order on the host; loop: a "
    "torch call a piece (launch-bound when small); "
)
ROUTES = {
    "cuda": (
        "graph: the same calls as one CUDA graph (DMA-bound); pageable: a loop, host memory not "
        "page-locked; gather: pieces put together on the device, then one copy; both: two streams "
        "at once, captured"
    ),
    "cpu": "gather: pieces put together, then one copy; all of it from memory to memory",
}


def assemble(
    name: str,
    backend: Backend,
    scale: Scale,
    date: str,
    samples: Samples,
    notes: Mapping[str, str],
) -> dict[str, Any]:
    """The file's content. InputError: no prompt or no copy was measured."""
    for group in ("prefill", "copies"):
        if not any(key.startswith(f"{group} ") for key in samples):
            why = "; ".join(note for key, note in notes.items() if _is(key, group))
            found = f"nothing measured of {group} ({why})"
            raise InputError("kvsched calibrate", found, "raise --time or --memory")
    own = list(notes.values())
    if not backend.streams:
        own.append("no streams, graphs or page-locked memory on this device: those copies left out")
    part = {"layers": scale.part.layers, "ranks": scale.part.ranks}
    step = _step(scale, samples, own)
    file = {
        "schema": VERSION,
        "name": name,
        "kind": "measured",
        "device": backend.device,
        "provenance": {
            "backend": backend.kind,
            "dtype": backend.dtype,
            "driver": backend.driver,
            "torch": backend.torch,
            "date": date,
            "method": (
                f"{TIMES[backend.kind]}: {REPEATS} runs after {WARM_UP} that are not timed. "
                f"{LAYERS}{COPIES}{ROUTES[backend.kind]}"
            ),
            "notes": own,
        },
        **_peaks(backend.device),
        "ceilings": {key: _quantity(values) for _, key, values in _of(samples, "ceilings")},
        "step": step,
        "prefill": [
            {
                "what": "layers",
                "model": carried.MODEL.name,
                "part": part,
                "points": [
                    {"tokens": int(tokens), "ms": _quantity(values)}
                    for _, tokens, values in _of(samples, "prefill")
                ],
            }
        ],
        "suffix": _suffix(part, samples),
        "decode": [_decode(part, words, values) for words, _, values in _of(samples, "decode")],
        "copies": list(_copies(samples, own)),
    }
    return {key: value for key, value in file.items() if value not in (None, [], {})}


def _quantity(values: list[float]) -> dict[str, Any]:
    return {"value": statistics.median(values), "samples": values}


def _is(key: str, group: str) -> bool:
    return key.split(maxsplit=1)[0] == group


def _of(samples: Samples, group: str) -> Iterator[tuple[list[str], str, list[float]]]:
    """The group's samples: the key's words, the last of them, the values."""
    for key, values in samples.items():
        if _is(key, group):
            words = key.split()
            yield words, words[-1], values


def _suffix(part: dict[str, int], samples: Samples) -> list[dict[str, Any]]:
    points = [
        (int(words[1]), {"cached": int(cached), "ms": _quantity(values)})
        for words, cached, values in _of(samples, "suffix")
    ]
    if not points:
        return []
    table = {"what": "the rest of a prompt", "model": carried.MODEL.name, "part": part}
    return [{**table, "tokens": points[0][0], "points": [point for _, point in points]}]


def _decode(part: dict[str, int], words: list[str], values: list[float]) -> dict[str, Any]:
    _, batch, context = words
    return {
        "what": "layers",
        "model": carried.MODEL.name,
        "part": part,
        "batch": int(batch),
        "context": int(context),
        "ms": _quantity(values),
    }


def _copies(samples: Samples, notes: list[str]) -> Iterator[dict[str, Any]]:
    tables: dict[tuple[str, str], list[tuple[int, list[float]]]] = {}
    for words, fragment, values in _of(samples, "copies"):
        tables.setdefault((words[1], words[2]), []).append((int(fragment), values))
    for (route, direction), points in tables.items():
        points.sort()
        table: dict[str, Any] = {
            "route": route,
            "direction": direction,
            "points": [
                {"fragment_bytes": fragment, "gb_s": _quantity(values)}
                for fragment, values in points
            ],
        }
        law = latency_and_rate(
            [(size, size / statistics.median(values) / GB) for size, values in points]
        )
        if law is not None:
            table["smooth"] = _smooth(law, [size for size, _ in points])
        elif len(points) > 2:
            notes.append(f"{route} {direction}: no latency and rate fit its points")
        yield table


def _smooth(law: Fit, sizes: list[int]) -> dict[str, Any]:
    residuals = ", ".join(
        f"{binary(size, 0)} {residual:+.1%}"
        for size, residual in zip(sizes, law.residuals, strict=True)
    )
    words = (
        "latency + bytes / rate through the points of this table, least squares on relative "
        f"errors; residuals (fitted / measured - 1): {residuals}"
    )
    return {
        "latency_us": {"value": float(f"{1e6 * law.a:.6g}"), "fit": words},
        "rate_gb_s": {"value": float(f"{1 / law.b / GB:.6g}"), "fit": words},
    }


def _step(scale: Scale, samples: Samples, notes: list[str]) -> dict[str, Any] | None:
    """A step's coefficients, or a note on why there are none."""
    share = scale.part.share(carried.MODEL.name)
    medians = {key: statistics.median(values) * 1e6 / share for key, values in samples.items()}
    law = linear_and_square(
        [(int(key.split()[1]), ns) for key, ns in medians.items() if _is(key, "prefill")]
    )
    base, near, far = (
        medians.get(f"decode {batch} {context}")
        for batch, context in (scale.steps[0], *scale.steps[-2:])
    )
    if law is None or base is None or near is None or far is None or far <= near:
        notes.append("no step costs: prompts or decode steps too few or too small to tell them")
        return None
    batch, context = scale.steps[-1]
    slope = (far - near) / (batch * (context - scale.steps[-2][1]))
    prompts = (
        "prefill of this file: linear · S + square · S², least squares on relative errors, largest "
        f"residual {law.worst:.1%}"
    )
    first = "x".join(map(str, scale.steps[0]))
    values = (
        ("base_ns", base, f"decode step {first} (batch x context) of this file"),
        ("prefill_ns_per_token", law.a, prompts),
        ("attention_ns_per_token2", law.b, prompts),
        ("decode_ns_per_context_token", slope, "the last two decode steps of this file"),
    )
    return {
        "model": carried.MODEL.name,
        **{key: {"value": float(f"{value:.6g}"), "fit": words} for key, value, words in values},
    }


def _peaks(device: str) -> dict[str, Any]:
    """The maker's figures, where a packaged profile of the same device has them."""
    for name in packaged():
        known = load(name)
        if known.peaks and _same(known, device):
            sources = dict.fromkeys(quantity.source for quantity in known.peaks.values())
            keys = {source: f"maker{i}" if i else "maker" for i, source in enumerate(sources)}
            return {
                "sources": {
                    keys[source]: {
                        "title": source.title,
                        "url": source.url,
                        **({"note": source.note} if source.note else {}),
                    }
                    for source in sources
                    if source is not None
                },
                "peaks": {
                    key: {"value": quantity.value, "source": keys[quantity.source]}
                    for key, quantity in known.peaks.items()
                },
            }
    return {}


def _same(known: Profile, device: str) -> bool:
    """Packaged names may say more, in brackets, than the device itself does."""
    return known.device.split(" (")[0] == device
