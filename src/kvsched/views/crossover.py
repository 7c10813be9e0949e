"""Swap or recompute: which is sooner, by how much of the prefix survives, fragment, prefill rate.

The plain comparison of the chapter: a prompt's KV copied out and back over a link, against the
part of it that did not survive prefilled again at a constant rate.
"""

from __future__ import annotations

from kvsched import profiles
from kvsched.costs import (
    Link,
    carried,
    copy_seconds,
    survival_threshold,
)
from kvsched.costs.units import KiB, binary
from kvsched.profiles import Profile
from kvsched.views.crossover_figure import draw, table
from kvsched.views.params import Choice, Listed, Number
from kvsched.views.view import Data, View

FRAGMENTS = tuple(k * KiB for k in (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 16_384))
"""The sizes at which the link was measured, in bytes."""
RATES = (10_000, 25_000, 80_000, 160_000)
"""Prefill rates of the map's thin lines, tokens per second."""
PUBLISHED, WIRE = "H100, published", "bare wire"
ROUND_TRIP, BACK_ONLY = "out and back", "back only"
HIDDEN = {ROUND_TRIP: "", BACK_ONLY: " (the way out is hidden behind other work)"}


def compute(rate: int, link: str, copies: str) -> Data:
    """The map at a prefill rate, and both sides in milliseconds at each fragment size."""
    ways = _ways(link, smooth=False)
    cold = carried.TOKENS / rate
    points = [_point(fragment, ways, cold, copies) for fragment in FRAGMENTS]
    overlay = [
        _point(fragment, _ways(link, smooth=True), cold, copies)["threshold"]
        for fragment in FRAGMENTS
    ]
    names = [binary(fragment, 0) for fragment in FRAGMENTS]
    large, small = points[names.index("2 MiB")], points[names.index("32 KiB")]
    return {
        "picks": names,
        "points": points,
        "overlay": overlay,
        "contours": [
            {
                "rate": each,
                "threshold": [
                    _point(fragment, ways, carried.TOKENS / each, copies)["threshold"]
                    for fragment in FRAGMENTS
                ],
            }
            for each in RATES
        ],
        "rate": rate,
        "cold_ms": round(1000 * cold, 1),
        "says": [
            _says(name, point, cold, rate, copies)
            for name, point in zip(names, points, strict=True)
        ],
        "sentence": (
            f"{carried.TOKENS:,} tokens of Llama-3-8B, prefilled at {rate:,} tokens a second: "
            f"recomputing wins {wins_if(small['threshold'])} with fragments of 32 KiB, "
            f"{wins_if(large['threshold'])} with 2 MiB."
        ),
        "caption": (
            "Above the heavy line recomputing is sooner, below it swapping. Thin lines: the same "
            "border at other prefill rates, in thousands of tokens a second; dotted: with the "
            f"smooth law in place of the points. {_link(link)} Below: both times at the fragment "
            "picked; the solid part of recompute takes as long as the swap."
        ),
        "alt": (
            "A map of fragment size against the share of the prompt that survives; the border "
            f"rises from {small['threshold']:.0%} at 32 KiB to {large['threshold']:.0%} at 2 MiB."
        ),
    }


def _ways(link: str, *, smooth: bool) -> tuple[Link, Link]:
    """The link's two directions, out of the device and back."""
    if link == WIRE:
        return carried.WIRE, carried.WIRE
    return _profile(link).ways(smooth=smooth)


def _profile(link: str) -> Profile:
    return profiles.load("h100-sxm" if link == PUBLISHED else link)


def _links() -> tuple[str, ...]:
    """The published link, the wire, and the reader's own profiles."""
    return (PUBLISHED, WIRE, *profiles.own())


def _point(fragment: int, ways: tuple[Link, Link], cold: float, copies: str) -> dict[str, float]:
    """Copy times in ms, and the surviving share above which recomputing wins."""
    out, back = (copy_seconds(way, carried.SWAP_BYTES, fragment) for way in ways)
    waited = back if copies == BACK_ONLY else out + back
    return {
        "out_ms": round(1000 * out, 1) if copies == ROUND_TRIP else 0.0,
        "back_ms": round(1000 * back, 1),
        "swap_ms": round(1000 * waited, 1),
        "threshold": round(survival_threshold(waited, cold), 4),
    }


def _says(name: str, point: dict[str, float], cold: float, rate: int, copies: str) -> str:
    """One fragment size in words."""
    ways = f"{point['out_ms']} ms out and {point['back_ms']} ms back, {point['swap_ms']} ms"
    if copies == BACK_ONLY:
        ways = f"{point['back_ms']} ms back"
    return (
        f"In fragments of {name}, {carried.SWAP_BYTES / 1e9:.2f} GB take {ways}{HIDDEN[copies]}. "
        f"A cold prefill at {rate:,} tokens a second takes {1000 * cold:.0f} ms: recomputing wins "
        f"{wins_if(point['threshold'])}."
    )


def wins_if(threshold: float) -> str:
    """The condition under which recomputing wins."""
    if threshold == 0:
        return "even if nothing survives"
    if threshold > 0.994:
        return "only if next to nothing is lost"
    return f"if more than {100 * threshold:.0f}\N{NO-BREAK SPACE}% survives"


def _link(link: str) -> str:
    if link == WIRE:
        return "The link is PCIe Gen5 x16's raw rate, which no copy reaches."
    if link != PUBLISHED:
        return f"Bandwidths of {_profile(link).origin}."
    return "Bandwidths are read off plots (vLLM blog, 2026-01-08, Figures 3 and 4), ±0.5 GB/s."


VIEW = View(
    name="crossover",
    renderer="picks",
    label="Swap or recompute",
    compute=compute,
    draw=draw,
    table=table,
    params=(
        Number("rate", "prefill, tok/s", 40_500, 5_000, 300_000, 500),
        Listed("link", "link", PUBLISHED, _links),
        Choice("copies", "waited for", ROUND_TRIP, (ROUND_TRIP, BACK_ONLY)),
    ),
    selection={"pick": 9},
)
