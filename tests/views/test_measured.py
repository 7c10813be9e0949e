"""A device's three curves: whose numbers they are, and what follows from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvsched import profiles
from kvsched.costs import carried, prefill_flops
from kvsched.costs.units import TERA
from kvsched.errors import InputError
from kvsched.views import find, measured

MEASURED = find("measured")


def test_the_published_prefill_is_shown_as_published() -> None:
    data = MEASURED()
    assert data["title"] == "NVIDIA H100 80GB HBM3 (SXM5): published, not measured here"
    assert "published numbers; we have measured no GPU" in data["caption"]
    assert "launches and CPU time are not in them, so a floor" in data["caption"]
    at = data["at"]
    assert (at["ms"], data["stated"]) == (183, True)
    assert at["tflop_s"] == pytest.approx(
        prefill_flops(carried.MODEL, 8192) / 0.183 / TERA, rel=1e-5
    )
    assert at["mfu"] == pytest.approx(0.73, abs=0.005)


def test_the_border_follows_from_both_curves() -> None:
    """46 ms out and back in pieces of 2 MiB against 183 ms."""
    data = MEASURED()
    point = data["points"][9]
    assert (point["name"], point["swap_ms"]) == ("2 MiB", 45.8)
    assert point["threshold"] == pytest.approx(1 - 45.8 / 183, abs=1e-3)
    assert data["says"][9].endswith("recomputing wins if more than 75\N{NO-BREAK SPACE}% survives.")


def test_a_length_between_two_is_said_to_be_interpolated() -> None:
    data = MEASURED(tokens=4096)
    assert not data["stated"]
    assert "interpolated between 2,048 and 8,192 tokens" in data["sentence"]


def test_longer_prompts_are_dearer_to_compute_than_to_copy() -> None:
    """Attention grows with the square, copies do not."""
    short, long = (MEASURED(tokens=tokens)["points"][9]["threshold"] for tokens in (2048, 16_384))
    assert short < long


def test_a_profile_without_copies_shows_its_prefill_and_says_so() -> None:
    data = MEASURED(profile="h200")
    assert {point["threshold"] for point in data["points"]} == {None}
    assert data["sentence"].endswith("so nothing to weigh it against.")
    assert "no copies both ways" in MEASURED.draw(data, {"pick": 0})


def test_ones_own_profile_can_be_chosen_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Path(profiles.__file__).with_name("h100-sxm.json").read_text(encoding="utf-8")
    monkeypatch.setenv("KVSCHED_PROFILES", str(tmp_path))
    with pytest.raises(InputError, match="'mine' is no choice"):
        MEASURED(profile="mine")
    (tmp_path / "mine.json").write_text(text.replace('"h100-sxm"', '"mine"'), encoding="utf-8")
    assert "mine" in MEASURED.params[0].control()["choices"]
    assert MEASURED(profile="mine")["points"] == MEASURED()["points"]
    crossover = find("crossover")
    assert "mine" in crossover.params[1].control()["choices"]
    assert crossover(link="mine")["points"] == crossover()["points"]
    assert "Bandwidths of NVIDIA H100" in crossover(link="mine")["caption"]


def test_a_profile_without_prompts_is_refused(tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.json"
    sheet.write_text('{"schema": 1, "name": "sheet", "kind": "datasheet", "device": "a device"}')
    with pytest.raises(InputError, match="no prefill times of Llama-3-8B"):
        measured.of(profiles.load(sheet))
