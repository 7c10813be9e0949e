"""The packaged profiles against what their sources print, and what follows from them."""

from __future__ import annotations

import pytest

from kvsched import profiles
from kvsched.costs import (
    Link,
    PrefillLaw,
    bandwidth,
    carried,
    copy_seconds,
    decode_seconds,
    prefill_flops,
    round_trip_seconds,
    survival_threshold,
)
from kvsched.costs.units import GB, MS, TERA, GiB, KiB, MiB

H100 = profiles.load("h100-sxm")
H200 = profiles.load("h200")
A100 = profiles.load("a100-80g")
OUT, BACK = H100.copy("dma", "d2h"), H100.copy("dma", "h2d")
COLD = PrefillLaw.through((10_000, 0.258), (20_000, 0.644)).seconds(8192)


def trip(fragment: int, out: Link = OUT.link, back: Link = BACK.link) -> float:
    return round_trip_seconds(out, back, carried.SWAP_BYTES, fragment)


def test_every_quantity_of_a_published_profile_is_sourced() -> None:
    for name in profiles.names():
        profile = profiles.load(name)
        assert profile.name == name
        assert profile.kind == ("measured" if name == "example-cpu" else "published")
        if profile.kind == "measured":
            continue
        assert all(peak.source for peak in profile.peaks.values())
        assert all(point.source for table in profile.copies for _, point in table.points)


def test_numbers_read_off_a_plot_say_so() -> None:
    _, point = OUT.points[0]
    assert "read off Figures 3 and 4, ±0.5 GB/s" in str(point.source)


@pytest.mark.parametrize(
    ("profile", "bf16_tflop_s", "memory_gb_s", "link_gb_s"),
    [(H100, 989, 3350, 64), (H200, 989, 4800, 64), (A100, 312, 2039, 32)],
)
def test_peaks(
    profile: profiles.Profile, bf16_tflop_s: float, memory_gb_s: float, link_gb_s: float
) -> None:
    assert {name: peak.value for name, peak in profile.peaks.items()} == {
        "bf16_tflop_s": bf16_tflop_s,
        "memory_gb_s": memory_gb_s,
        "link_gb_s": link_gb_s,
    }


@pytest.mark.parametrize(
    ("route", "direction", "gb_s"),
    [
        ("dma", "d2h", [0.9, 2.3, 4.6, 8.2, 15.3, 21.5, 29.3, 37.1, 42.5, 46.2, 48.6, 50.7]),
        ("dma", "h2d", [1.1, 2.3, 4.3, 7.5, 14.4, 22.8, 31.8, 39.5, 44.4, 47.7, 49.8, 51.2]),
        ("kernel", "d2h", [5.2, 22, 30.6, 34.2, 41, 45.4, 46.9, 48, 48.4, 48.7, 48.8, 48.9]),
    ],
)
def test_bandwidth_by_fragment(route: str, direction: str, gb_s: list[float]) -> None:
    table = H100.copy(route, direction)
    kib = [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 16384]
    assert [size for size, _ in table.points] == [k * KiB for k in kib]
    assert [bandwidth(table.link, k * KiB) / GB for k in kib] == pytest.approx(gb_s)


def test_both_directions_at_once() -> None:
    assert bandwidth(H100.copy("dma", "both").link, 2 * MiB) == pytest.approx(83.4 * GB)
    assert bandwidth(H100.copy("kernel", "both").link, 2 * MiB) == pytest.approx(68.5 * GB)


def deviation(table: profiles.CopyTable, kib: int) -> float:
    return bandwidth(table.smooth, kib * KiB) / bandwidth(table.link, kib * KiB) - 1


def test_the_smooth_law_lies_within_6_percent_host_to_device() -> None:
    assert BACK.smooth.latency == pytest.approx(3.5e-6)
    assert BACK.smooth.bytes_s == 51.5 * GB
    assert all(abs(deviation(BACK, size // KiB)) < 0.06 for size, _ in BACK.points)


def test_the_smooth_law_is_low_for_small_fragments_device_to_host() -> None:
    assert OUT.smooth.latency == pytest.approx(4e-6)
    assert OUT.smooth.bytes_s == 51 * GB
    assert f"{deviation(OUT, 4):.2f}" == "0.12"
    assert all(-0.195 < deviation(OUT, kib) < -0.07 for kib in (8, 16, 32, 64, 128))
    assert all(abs(deviation(OUT, kib)) < 0.022 for kib in (256, 512, 1024, 2048, 4096, 16384))


def test_where_points_and_smooth_law_differ_most() -> None:
    assert f"{trip(64 * KiB) / MS:.0f}" == "145"
    assert f"{trip(64 * KiB, OUT.smooth, BACK.smooth) / MS:.0f}" == "165"


def test_cold_recompute_end_to_end_is_202_ms() -> None:
    ttft = next(table for table in H100.prefill if table.what == "time to first token")
    points = [(tokens, ttft.seconds(tokens)) for tokens in (10_000, 20_000)]
    assert points == [(10_000, 0.258), (20_000, 0.644)]
    assert f"{COLD / MS:.0f}" == "202"
    rate = prefill_flops(carried.MODEL, 10_000) / 0.258
    assert f"{rate / TERA:.0f}" == "643"
    assert f"{rate / TERA / 989:.2f}" == "0.65"


@pytest.mark.parametrize(
    ("kib", "round_trip_ms", "threshold"),
    [
        (32, "274", "0.00"),
        (64, "145", "0.28"),
        (128, "97", "0.52"),
        (256, "70", "0.65"),
        (512, "56", "0.72"),
        (1024, "49", "0.76"),
        (2048, "46", "0.77"),
        (16384, "42", "0.79"),
    ],
)
def test_swap_against_recompute_by_fragment(kib: int, round_trip_ms: str, threshold: str) -> None:
    assert f"{trip(kib * KiB) / MS:.0f}" == round_trip_ms
    assert f"{survival_threshold(trip(kib * KiB), COLD):.2f}" == threshold


def test_a100_at_25_gb_s() -> None:
    round_trip = 2 * carried.SWAP_BYTES / (25 * GB)
    assert f"{round_trip / MS:.0f}" == "86"
    assert f"{survival_threshold(round_trip, 0.530):.2f}" == "0.84"


def test_case_39_fragments_of_one_gib() -> None:
    """One GiB at once, 512 × 2 MiB, 16,384 × 64 KiB: the same bytes, in rising time."""
    times = [copy_seconds(OUT.link, GiB, fragment) for fragment in (GiB, 2 * MiB, 64 * KiB)]
    assert times == pytest.approx([GiB / (50.7 * GB), GiB / (46.2 * GB), GiB / (15.3 * GB)])
    assert (GiB // (2 * MiB), GiB // (64 * KiB)) == (512, 16_384)


@pytest.mark.parametrize(
    ("profile", "tflop_s", "mfu", "roofline_ms"),
    [(H100, 720, "0.73", "14.7"), (H200, 700, "0.71", "10.3"), (A100, 249, "0.80", "24.2")],
)
def test_prefill_rate_and_decode_bound(
    profile: profiles.Profile, tflop_s: float, mfu: str, roofline_ms: str
) -> None:
    rate = prefill_flops(carried.MODEL, 8192) / profile.prefill[0].seconds(8192)
    assert rate / TERA == pytest.approx(tflop_s, rel=0.003)
    assert f"{rate / TERA / profile.peaks['bf16_tflop_s'].value:.2f}" == mfu
    memory = profile.peaks["memory_gb_s"].value * GB
    bound = decode_seconds(carried.MODEL, 64, 4096, memory)
    assert f"{bound / MS:.1f}" == roofline_ms
    assert 1.2 <= profile.decode[0].ms.value * MS / bound < 1.35


@pytest.mark.parametrize("profile", [H100, H200, A100], ids=lambda profile: profile.name)
def test_step_costs_lie_near_the_published_times(profile: profiles.Profile) -> None:
    step = profile.step
    assert step is not None
    linear, square = step.prefill_ns_per_token.value, step.attention_ns_per_token2.value
    for tokens, ms in profile.prefill[0].points:
        time = linear * tokens + square * tokens**2
        assert time / 1e6 == pytest.approx(ms.value, rel=0.002 if tokens == 8192 else 0.04)
    context = 64 * 4096 * step.decode_ns_per_context_token.value
    decode_ms = (step.base_ns.value + context) / 1e6
    assert decode_ms == pytest.approx(profile.decode[0].ms.value, rel=0.031)


def test_case_39_one_gib_in_one_piece_or_many() -> None:
    """The sizes of vllm PR 12, at the rates read off the plots."""
    size = carried.SWAP_BYTES
    assert size == 512 * 2 * MiB == 16_384 * 64 * KiB
    pieces = {f: copy_seconds(OUT.link, size, f) for f in (size, 2 * MiB, 64 * KiB)}
    assert pieces[2 * MiB] == pytest.approx(size / 46.2e9)
    assert pieces[64 * KiB] == pytest.approx(size / 15.3e9)
    assert pieces[size] == pytest.approx(size / 50.7e9)
    assert pieces[64 * KiB] > 3 * pieces[2 * MiB] > 3 * pieces[size]
