"""A device's profile as three curves: prefill, copies, and what follows for a victim.

Whatever the profile lacks is left out and said; a published one is called published, a CPU's a
CPU's.
"""

from __future__ import annotations

from typing import Any

from kvsched import profiles
from kvsched.costs import (
    MODELS,
    Link,
    bandwidth,
    carried,
    copy_seconds,
    prefill_flops,
    survival_threshold,
)
from kvsched.costs.units import GB, TERA, binary
from kvsched.costs.units import time as spelt
from kvsched.errors import InputError
from kvsched.profiles import Profile
from kvsched.views.crossover import BACK_ONLY, FRAGMENTS, ROUND_TRIP, wins_if
from kvsched.views.measured_figure import draw, table
from kvsched.views.params import Choice, Listed, Number
from kvsched.views.view import Data, View

STORED = "h100-sxm"
"""The profile shown first: published, and the most complete."""


def compute(profile: str, tokens: int, copies: str) -> Data:
    """The three curves of a profile that has a name."""
    return of(profiles.load(profile), tokens, copies)


def of(profile: Profile, tokens: int = carried.TOKENS, copies: str = ROUND_TRIP) -> Data:
    """The three curves of a profile, for a prompt of this length.

    Rates in TFLOP/s and GB/s, times in ms; what the profile does not have is None. InputError: it
    has no prefill times of Llama-3-8B.
    """
    cold = profile.cold(tokens)
    ways, sizes = _ways(profile)
    points = [_point(size, ways, tokens, cold.seconds, copies) for size in sizes]
    peaks = {name: quantity.value for name, quantity in profile.peaks.items()}
    ceilings = {name: quantity.value for name, quantity in profile.ceilings.items()}
    at = _prefill(tokens, cold.seconds, peaks, ceilings)
    shown = min(points, key=lambda point: abs(point["bytes"] - carried.BLOCK_BYTES))
    return {
        "profile": profile.name,
        "device": profile.device,
        "how": profile.how,
        "title": profile.origin,
        "tokens": tokens,
        "copies": copies,
        "stated": cold.how == profile.kind,
        "picks": [point["name"] for point in points],
        "points": points,
        "prefill": [
            _prefill(length, table.whole(ms), peaks, ceilings)
            for table in profile.prefill[:1]
            for length, ms in table.points
        ],
        "at": at,
        "peak": peaks.get("bf16_tflop_s") if _sixteen_bit(profile) else None,
        "multiply": ceilings.get("matmul_tflop_s"),
        "link": peaks.get("link_gb_s"),
        "says": [_says(point, at, copies) for point in points],
        "sentence": (
            f"{profile.origin}. A prompt of {tokens:,} tokens of Llama-3-8B takes "
            f"{_time(cold.seconds)} ({cold.how}), {at['tflop_s']:.3g} TFLOP/s{_of_peak(at)}. "
            f"{_verdict(shown)}"
        ),
        "caption": (
            f"{_kind(profile)} Above: the rate of a prefill by its length. In the middle: copies "
            "by the size of their pieces, out of the device and back. Below: above the line "
            "recomputing a victim is sooner, below it copying. "
            f"{_parts(profile)}"
        ).strip(),
        "alt": (
            f"{profile.origin}: prefill rate over {len(profile.prefill[0].points)} prompt lengths, "
            f"copy rate over {len(points) if ways else 0} sizes of pieces, and the share of a "
            "prompt that must survive for recomputing to win."
        ),
    }


def _ways(profile: Profile) -> tuple[tuple[Link, Link] | None, tuple[int, ...]]:
    """Both links, and the pieces that both were measured with and that a copy can be cut into."""
    try:
        out, back = ({size for size, _ in table.points} for table in profile.way_tables())
    except InputError:
        return None, FRAGMENTS
    sizes = tuple(size for size in sorted(out & back) if size <= carried.SWAP_BYTES)
    return (profile.ways(), sizes) if sizes else (None, FRAGMENTS)


def _sixteen_bit(profile: Profile) -> bool:
    """Is the maker's bf16 peak the one to compare with?"""
    return profile.provenance is None or profile.provenance.dtype == "bfloat16"


def _prefill(
    tokens: int, seconds: float, peaks: dict[str, float], ceilings: dict[str, float]
) -> dict[str, Any]:
    """One length: its time, its rate, and that rate over the maker's and the measured peak."""
    rate = prefill_flops(carried.MODEL, tokens) / seconds / TERA
    peak, multiply = peaks.get("bf16_tflop_s"), ceilings.get("matmul_tflop_s")
    return {
        "tokens": tokens,
        "ms": float(f"{1000 * seconds:.6g}"),
        "tflop_s": float(f"{rate:.6g}"),
        "mfu": round(rate / peak, 4) if peak else None,
        "of_multiply": round(rate / multiply, 4) if multiply else None,
    }


def _point(
    size: int, ways: tuple[Link, Link] | None, tokens: int, cold: float, copies: str
) -> dict[str, Any]:
    """One size of pieces: both rates, both times, and the share that must survive."""
    point: dict[str, Any] = {"bytes": size, "name": binary(size, 0), "threshold": None}
    if ways is None:
        return point
    kv = tokens * carried.KV_BYTES_PER_TOKEN
    out, back = (copy_seconds(way, kv, size) for way in ways)
    waited = back if copies == BACK_ONLY else out + back
    rates = [float(f"{bandwidth(way, size) / GB:.4g}") for way in ways]
    return point | {
        "out_gb_s": rates[0],
        "back_gb_s": rates[1],
        "swap_ms": round(1000 * waited, 1),
        "threshold": round(survival_threshold(waited, cold), 4),
    }


def _says(point: dict[str, Any], at: dict[str, Any], copies: str) -> str:
    """One size of pieces in words."""
    if point["threshold"] is None:
        return f"Pieces of {point['name']}: this profile has no copies both ways."
    way = "back" if copies == BACK_ONLY else "out and back"
    return (
        f"Pieces of {point['name']}: {point['out_gb_s']:.3g} GB/s out, {point['back_gb_s']:.3g} "
        f"back. The KV of {at['tokens']:,} tokens takes {_time(point['swap_ms'] / 1000)} {way}, "
        f"their prefill {_time(at['ms'] / 1000)}: recomputing wins "
        f"{wins_if(point['threshold'])}."
    )


def _time(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds >= 100 else spelt(seconds, 1)


def _verdict(point: dict[str, Any]) -> str:
    if point["threshold"] is None:
        return "The profile has no copies both ways, so nothing to weigh it against."
    return f"With pieces of {point['name']} recomputing wins {wins_if(point['threshold'])}."


def _of_peak(at: dict[str, Any]) -> str:
    if at["mfu"] is not None:
        return f", {100 * at['mfu']:.0f}\N{NO-BREAK SPACE}% of the maker's peak"
    if at["of_multiply"] is not None:
        return f", {100 * at['of_multiply']:.0f}\N{NO-BREAK SPACE}% of a large multiply"
    return ""


def _kind(profile: Profile) -> str:
    if profile.provenance is None:
        source = profile.prefill[0].points[0][1].source
        note = f" Prefill: {source.note}." if source is not None and source.note else ""
        return f"Profile {profile.name}: published numbers; we have measured no GPU.{note}"
    if profile.provenance.backend == "cpu":
        return f"Profile {profile.name}: a CPU; its numbers say nothing of any GPU."
    return (
        f"Profile {profile.name}: measured on {profile.device}, torch {profile.provenance.torch}."
    )


def _parts(profile: Profile) -> str:
    table = profile.prefill[0]
    if table.part is None or table.share == 1:
        return ""
    one = f"one of {table.part.ranks} ranks of " if table.part.ranks > 1 else ""
    layers = MODELS[table.model].num_hidden_layers
    timed = f"{one}{table.part.layers} of the model's {layers} layers"
    return f"Timed: {timed}; the times shown are scaled to all."


VIEW = View(
    name="measured",
    renderer="picks",
    label="A device, measured",
    compute=compute,
    draw=draw,
    table=table,
    params=(
        Listed("profile", "profile", STORED, lambda: tuple(profiles.names())),
        Number("tokens", "prompt, tokens", carried.TOKENS, 512, 16_384, 512),
        Choice("copies", "waited for", ROUND_TRIP, (ROUND_TRIP, BACK_ONLY)),
    ),
    selection={"pick": 9},
)
