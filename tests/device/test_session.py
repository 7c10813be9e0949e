"""A calibration: what it writes, what it leaves out, and where it goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvsched import profiles
from kvsched.clock import CostClock
from kvsched.costs import carried
from kvsched.costs.units import GB, GiB, KiB, MiB
from kvsched.device import Session, place_of
from kvsched.device.fake import Fake
from kvsched.device.jobs import WAYS, Jobs
from kvsched.device.scale import SCALES
from kvsched.device.timing import REPEATS
from kvsched.errors import InputError

DATE = "2026-02-03"


def calibrate(backend: Fake, out: Path, **budgets: Any) -> profiles.Profile:
    session = Session(backend, "quick", out, **budgets)
    for _ in session.run():
        pass
    return session.finish(DATE)


def notes(profile: profiles.Profile) -> str:
    assert profile.provenance is not None
    return "\n".join(profile.provenance.notes)


def test_the_file_passes_the_schema_and_has_every_raw_sample(fake: Fake, tmp_path: Path) -> None:
    out = tmp_path / "mine.json"
    made = calibrate(fake, out)
    assert profiles.load(out) == made
    assert list(tmp_path.iterdir()) == [out]
    assert (made.name, made.kind, made.device) == ("mine", "measured", "a fake device")
    assert made.provenance is not None
    assert (made.provenance.backend, made.provenance.date) == ("cuda", DATE)
    assert all(len(ms.samples) == REPEATS for _, ms in made.prefill[0].points)
    routes = {(table.route, table.direction) for table in made.copies}
    ways = {
        (route, way) for route in ("loop", "gather", "graph", "pageable") for way in ("d2h", "h2d")
    }
    assert routes == {*ways, ("graph", "both")}


def test_the_laws_of_the_device_come_out(fake: Fake, tmp_path: Path) -> None:
    """4 µs and 50 GB/s for a call a piece; a captured copy starts in a quarter of that."""
    made = calibrate(fake, tmp_path / "mine.json")
    loop, graph = made.copy("loop", "h2d").smooth, made.copy("graph", "h2d").smooth
    assert loop.latency == pytest.approx(4e-6, rel=1e-3)
    assert graph.latency == pytest.approx(1e-6, rel=1e-3)
    assert graph.bytes_s == pytest.approx(50 * GB, rel=1e-3)
    assert made.ceilings["matmul_tflop_s"].value == pytest.approx(500, rel=1e-3)
    both = dict(made.copy("graph", "both").points)[16 * MiB].value
    assert both == pytest.approx(
        2 * dict(made.copy("graph", "d2h").points)[16 * MiB].value, rel=1e-3
    )
    assert made.cold(carried.TOKENS).seconds == pytest.approx(0.2726, rel=0.02)


def test_the_captured_route_is_the_one_a_swap_is_judged_by(fake: Fake, tmp_path: Path) -> None:
    made = calibrate(fake, tmp_path / "mine.json")
    assert [table.route for table in made.way_tables()] == ["graph", "graph"]


def test_a_measured_profile_times_steps(fake: Fake, tmp_path: Path) -> None:
    made = calibrate(fake, tmp_path / "mine.json")
    clock = CostClock(made)
    assert clock.prefill_fs > 0
    assert clock.context_fs > 0


def test_a_device_whose_maker_is_known_brings_the_makers_peaks(fake: Fake, tmp_path: Path) -> None:
    fake.device = "NVIDIA H100 80GB HBM3"
    peak = calibrate(fake, tmp_path / "mine.json").peaks["bf16_tflop_s"]
    assert peak.value == 989
    assert peak.source is not None


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_case_39_one_gibibyte_is_copied_whole_and_in_pieces(scale: str) -> None:
    """Whole, as 512 x 2 MiB, 16,384 x 64 KiB and 32,768 x 32 KiB, both ways, as loop and graph."""
    for job in Jobs(Fake(), SCALES["cuda", scale]).all():
        group, *rest = job.key.split()
        if group == "copies" and rest[0] in ("loop", "graph") and rest[1] != "both":
            piece = int(rest[2])
            assert job.memory == min(GiB, 32_768 * piece)
    keys = {job.key for job in Jobs(Fake(), SCALES["cuda", scale]).all()}
    for piece in (GiB, 2 * MiB, 64 * KiB, 32 * KiB):
        for route in ("loop", "graph"):
            assert {f"copies {route} {way} {piece}" for way in WAYS} <= keys


# -- budgets ------------------------------------------------------------------------------------


def test_a_device_without_graphs_is_measured_without_them(fake: Fake, tmp_path: Path) -> None:
    fake.refuses = True
    made = calibrate(fake, tmp_path / "mine.json")
    assert "graph" not in {table.route for table in made.copies}
    assert "graph d2h 16 MiB: left out" in notes(made)
    assert "operation not permitted" in notes(made)


def test_little_memory_makes_copies_smaller_and_leaves_long_prompts_out(
    fake: Fake, tmp_path: Path
) -> None:
    made = calibrate(fake, tmp_path / "mine.json", memory=2500 * MiB)
    lengths = [tokens for tokens, _ in made.prefill[0].points]
    assert lengths == [512, 1024, 2048]
    assert "prefill 16384: left out, it needs" in notes(made)
    assert "2.44 GiB may be used" in notes(made)


def test_memory_that_runs_out_is_tried_again_with_half(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = fake.pool

    def full(size: int) -> Any:
        if size > 4 * MiB:
            raise MemoryError
        return pool(size)

    monkeypatch.setattr(fake, "pool", full)
    made = calibrate(fake, tmp_path / "mine.json")
    assert [size for size, _ in made.copy("loop", "d2h").points][-1] == 2 * MiB
    assert "loop d2h 64 KiB: made smaller, it needs 8.00 MiB of memory, which ran out" in notes(
        made
    )
    assert "loop d2h 16 MiB: left out, it needs 16.00 MiB of memory, which ran out" in notes(made)
    assert "release" in fake.calls


def test_what_does_not_fit_the_time_is_left_out_and_said(fake: Fake, tmp_path: Path) -> None:
    """The first of each group runs whatever the budget."""
    made = calibrate(fake, tmp_path / "mine.json", seconds=0)
    assert [tokens for tokens, _ in made.prefill[0].points] == [512]
    assert "prefill 16384: left out" in notes(made)
    assert made.step is None
    assert "no step costs" in notes(made)


def test_an_error_of_the_device_is_not_hidden(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(side: int) -> Any:
        raise RuntimeError("an illegal memory access")

    monkeypatch.setattr(fake, "matmul", broken)
    with pytest.raises(RuntimeError, match="illegal"):
        calibrate(fake, tmp_path / "mine.json")


def test_too_little_of_everything_is_no_profile(fake: Fake, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"of prefill \(prefill 512: left out.*raise --time"):
        calibrate(fake, tmp_path / "mine.json", memory=2**20)
    assert not (tmp_path / "mine.json").exists()


# -- interruption -------------------------------------------------------------------------------


def interrupted(fake: Fake, out: Path, after: int) -> None:
    def stop(timed: int) -> None:
        if timed == after:
            raise KeyboardInterrupt

    fake.on_sample = stop
    with pytest.raises(KeyboardInterrupt):
        calibrate(fake, out)
    fake.on_sample = lambda _: None


def test_an_interrupted_run_leaves_out_as_it_was_and_goes_on(fake: Fake, tmp_path: Path) -> None:
    out = tmp_path / "mine.json"
    out.write_text("the old one")
    interrupted(fake, out, after=55)
    assert out.read_text() == "the old one"
    kept = json.loads((tmp_path / "mine.json.partial").read_text())["samples"]
    assert len(kept) == 5
    fresh = Fake()
    session = Session(fresh, "quick", out)
    assert session.resumed == 5
    rows = list(session.run())
    assert len(rows) == len(session.todo)
    assert "matmul" not in fresh.calls
    assert session.finish(DATE).prefill[0].points[0][1].samples == tuple(kept["prefill 512"])
    assert sorted(tmp_path.iterdir()) == [out]


def test_a_partial_file_of_another_device_is_not_taken_over(fake: Fake, tmp_path: Path) -> None:
    interrupted(fake, tmp_path / "mine.json", after=15)
    with pytest.raises(InputError, match=r"mine\.json\.partial: left by a run on another device"):
        Session(Fake("another"), "quick", tmp_path / "mine.json")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    body=st.binary(max_size=40)
    | values.map(lambda value: json.dumps(value).encode())
    | st.fixed_dictionaries({"samples": values, "notes": values}),
    where=st.sampled_from(["samples", "notes", "prefill 512"]),
    value=values,
)
def test_any_partial_file_is_taken_over_or_refused(
    fake: Fake, tmp_path: Path, body: Any, where: str, value: Any
) -> None:
    out = tmp_path / "mine.json"
    partial = tmp_path / "mine.json.partial"
    partial.unlink(missing_ok=True)
    Session(fake, "quick", out)
    state = json.loads(partial.read_text())
    if isinstance(body, bytes):
        partial.write_bytes(body)
    else:
        state |= body
        if where == "prefill 512" and isinstance(state["samples"], dict):
            state["samples"][where] = value
        partial.write_text(json.dumps(state))
    refused = ""
    try:
        assert Session(fake, "quick", out).resumed >= 0
    except InputError as error:
        refused = str(error)
    assert refused.isprintable()


# -- places -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mine.txt", "no profile's name"),
        ("a b.json", "no profile's name"),
        ("h100-sxm.json", "a packaged profile has this name"),
        ("nowhere/mine.json", "there is no such folder; make it"),
        ("file/profiles/mine.json", "cannot be made a folder"),
    ],
)
def test_an_out_that_cannot_be_is_refused_before_anything_is_measured(
    name: str, message: str, fake: Fake, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=message):
        Session(fake, "quick", tmp_path / name)
    assert fake.calls == []


def test_the_folder_of_profiles_is_made(fake: Fake, tmp_path: Path) -> None:
    """It is not in a fresh clone, and every command in the book writes there."""
    out = tmp_path / "profiles" / "mine.json"
    calibrate(fake, out)
    assert profiles.load(out).kind == "measured"


def test_the_default_place_is_where_chapters_look(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fake: Fake
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KVSCHED_PROFILES")
    place = place_of("NVIDIA H100 80GB HBM3")
    assert str(place) == "profiles/nvidia-h100-80gb-hbm3.json"
    calibrate(fake, place)
    (tmp_path / "book").mkdir()
    monkeypatch.chdir(tmp_path / "book")
    assert "nvidia-h100-80gb-hbm3" in profiles.names()
    assert profiles.load("nvidia-h100-80gb-hbm3").kind == "measured"
