"""Profile files: what a kind must carry, and how a breach is reported."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvsched import profiles
from kvsched.errors import InputError


def sampled(value: float) -> dict[str, Any]:
    return {"value": value, "samples": [value + d for d in (-2, -1, -1, -1, 0, 0, 1, 1, 1, 2)]}


def fitted(value: float) -> dict[str, Any]:
    return {"value": value, "fit": "prefill and decode of this file, least squares"}


MEASURED: dict[str, Any] = {
    "schema": 1,
    "name": "mine",
    "kind": "measured",
    "device": "a device",
    "provenance": {
        "backend": "cuda",
        "dtype": "bfloat16",
        "driver": "570.1",
        "torch": "2.13.0",
        "date": "2026-02-03",
        "method": "device events around 10 runs after 3 warm-ups",
        "notes": ["65,536 tokens left out: memory ran out"],
    },
    "sources": {"maker": {"title": "a data sheet", "url": "https://example.org/sheet"}},
    "peaks": {"bf16_tflop_s": {"value": 989, "source": "maker"}},
    "ceilings": {"matmul_tflop_s": sampled(700), "copy_gb_s": sampled(2800)},
    "step": {
        "model": "Llama-3-8B",
        "base_ns": fitted(6e6),
        "prefill_ns_per_token": fitted(2e4),
        "attention_ns_per_token2": fitted(0.5),
        "decode_ns_per_context_token": fitted(40),
    },
    "prefill": [
        {
            "what": "layers",
            "model": "Llama-3-8B",
            "part": {"layers": 16, "ranks": 4},
            "points": [{"tokens": 512, "ms": sampled(100)}, {"tokens": 1024, "ms": sampled(220)}],
        }
    ],
    "suffix": [
        {
            "what": "the rest of a prompt",
            "model": "Llama-3-8B",
            "part": {"layers": 16, "ranks": 4},
            "tokens": 512,
            "points": [{"cached": 256, "ms": sampled(60)}],
        }
    ],
    "decode": [
        {"what": "step", "model": "Llama-3-8B", "batch": 1, "context": 512, "ms": sampled(9)}
    ],
    "copies": [
        {
            "route": "dma",
            "direction": "d2h",
            "points": [
                {"fragment_bytes": 65536, "gb_s": sampled(15)},
                {"fragment_bytes": 2097152, "gb_s": sampled(46)},
            ],
            "smooth": {"latency_us": fitted(4), "rate_gb_s": fitted(51)},
        }
    ],
}
PUBLISHED = json.loads(
    (Path(profiles.__file__).parent / "h100-sxm.json").read_text(encoding="utf-8")
)

Change = Callable[[dict[str, Any]], object]


def changed(base: dict[str, Any], change: Change) -> dict[str, Any]:
    made = copy.deepcopy(base)
    change(made)
    return made


def load(folder: Path, profile: object) -> profiles.Profile:
    path = folder / "mine.json"
    path.write_text(json.dumps(profile))
    return profiles.load(path)


def refusal(folder: Path, profile: object) -> str:
    with pytest.raises(InputError) as caught:
        load(folder, profile)
    assert caught.value.place.startswith(str(folder / "mine.json"))
    return str(caught.value).removeprefix(str(folder / "mine.json"))


def test_names() -> None:
    assert profiles.names() == ["a100-80g", "example-cpu", "h100-sxm", "h200"]


def test_a_measured_profile(tmp_path: Path) -> None:
    profile = load(tmp_path, MEASURED)
    assert str(profile) == "mine (a device, measured)"
    assert profile.provenance is not None
    assert (profile.provenance.backend, profile.provenance.date) == ("cuda", "2026-02-03")
    assert profile.provenance.notes == ("65,536 tokens left out: memory ran out",)
    assert len(profile.ceilings["copy_gb_s"].samples) == 10
    assert profile.step is not None
    assert profile.step.base_ns.fit.startswith("prefill and decode")
    assert profile.copy("dma", "d2h").smooth.bytes_s == 51e9


def test_times_of_a_part_are_kept_as_timed_and_read_as_the_whole(tmp_path: Path) -> None:
    """16 of 32 layers, each as one of 4 ranks: an eighth of the model."""
    profile = load(tmp_path, MEASURED)
    assert profile.prefill[0].points[0][1].value == 100
    assert profile.prefill[0].seconds(512) == pytest.approx(0.8)
    assert profile.suffix[0].seconds() == [(256, pytest.approx(0.48))]


def test_a_cold_prefill_is_stated_interpolated_or_extrapolated(tmp_path: Path) -> None:
    profile = load(tmp_path, MEASURED)
    stated, between, beyond = (profile.cold(tokens) for tokens in (1024, 768, 4096))
    assert (stated.seconds, stated.how) == (pytest.approx(1.76), "measured")
    assert between.how == "interpolated between 512 and 1,024 tokens"
    assert between.seconds == pytest.approx(768 * (0.8 / 512 + 1.76 / 1024) / 2)
    assert beyond.how == "extrapolated: the FLOP/s of 1,024 tokens"
    assert beyond.seconds > 4 * stated.seconds


def test_the_title_says_what_kind_of_numbers_these_are(tmp_path: Path) -> None:
    def by(backend: str) -> str:
        change: Change = lambda p: p["provenance"].update(backend=backend)  # noqa: E731
        return load(tmp_path, changed(MEASURED, change)).origin

    assert by("cuda") == "a device: measured 2026-02-03"
    assert by("cpu") == "a device: measured on a CPU, no GPU, 2026-02-03"
    assert profiles.load("h200").how == "published, not measured here"


def test_ones_own_profiles_are_found_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVSCHED_PROFILES", str(tmp_path))
    before = profiles.names()
    load(tmp_path, MEASURED)
    assert profiles.names() == [*before, "mine"]
    assert profiles.load("mine").device == "a device"
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(InputError, match=r"broken\.json: not JSON"):
        profiles.load("broken")
    (tmp_path / "h200.json").write_text("{}")
    with pytest.raises(InputError, match=r"h200\.json: h200 is a packaged profile; rename"):
        profiles.load("h200")


def test_ones_own_lie_in_profiles_here_or_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "book").mkdir()
    load(tmp_path / "profiles", MEASURED)
    monkeypatch.delenv("KVSCHED_PROFILES")
    for place in (tmp_path, tmp_path / "book"):
        monkeypatch.chdir(place)
        assert list(profiles.own()) == ["mine"]


def test_a_datasheet_profile(tmp_path: Path) -> None:
    sheet = {key: MEASURED[key] for key in ("schema", "name", "device", "sources", "peaks")}
    profile = load(tmp_path, {**sheet, "kind": "datasheet"})
    assert profile.peaks["bf16_tflop_s"].source is not None
    assert (profile.step, profile.copies) == (None, ())


def test_by_path_given_as_text(tmp_path: Path) -> None:
    load(tmp_path, MEASURED)
    assert profiles.load(str(tmp_path / "mine.json")).name == "mine"


@pytest.mark.parametrize("name", ["b200", "", "../h200", "a\nb"])
def test_an_unknown_name_lists_the_known(name: str) -> None:
    known = r"a100-80g, example-cpu, h100-sxm, h200, or a \.json file"
    with pytest.raises(InputError, match=known) as caught:
        profiles.load(name)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["none.json", "a\0.json", "x" * 5000 + ".json"])
def test_a_file_that_cannot_be_read(name: str) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        profiles.load(name)


@pytest.mark.parametrize("name", ["device", "provenance", "schema", "name", "kind"])
def test_a_measured_profile_lacks(name: str, tmp_path: Path) -> None:
    message = refusal(tmp_path, changed(MEASURED, lambda p: p.pop(name)))
    assert message == f': {name}: missing; add "{name}"'


@pytest.mark.parametrize("name", ["backend", "dtype", "driver", "torch", "date", "method"])
def test_a_measurement_without_provenance(name: str, tmp_path: Path) -> None:
    message = refusal(tmp_path, changed(MEASURED, lambda p: p["provenance"].pop(name)))
    assert message == f': provenance.{name}: missing; add "{name}"'


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda p: p["decode"][0]["ms"]["samples"].pop(),
            ": decode[0].ms.samples: only 9; give 10 or more",
        ),
        (
            lambda p: p["decode"][0]["ms"].pop("samples"),
            ": decode[0].ms: found no origin; give samples with the value",
        ),
        (
            lambda p: p["decode"][0].update(ms={"value": 9, "source": "maker"}),
            ": decode[0].ms: found source; give samples with the value",
        ),
        (
            lambda p: p["decode"][0].update(ms=fitted(9)),
            ": decode[0].ms: found fit; give samples with the value",
        ),
        (
            lambda p: p["decode"][0]["ms"].update(value=8),
            ": decode[0].ms.value: 8.0 is not the samples' median 9.0; write that",
        ),
        (
            lambda p: p["peaks"].update(bf16_tflop_s=sampled(989)),
            ": peaks.bf16_tflop_s: found samples; give source with the value",
        ),
        (
            lambda p: p["step"].update(base_ns=sampled(6e6) | {"fit": "both"}),
            ": step.base_ns: found samples and fit; give samples or fit with the value",
        ),
        (
            lambda p: p["step"].update(model="GPT-5"),
            ": step.model: found 'GPT-5'; write Llama-3-8B or Llama-3.3-70B or Qwen2.5-7B or "
            "Qwen3-8B or Qwen3-32B",
        ),
        (
            lambda p: p["provenance"].update(date="yesterday"),
            ": provenance.date: found 'yesterday'; write an ISO date: 2026-01-31",
        ),
        (
            lambda p: p["copies"][0]["points"].reverse(),
            ": copies[0].points[1].fragment_bytes: 65536 after 2097152; sort the points, each once",
        ),
        (
            lambda p: p["copies"][0].update(points=[]),
            ": copies[0].points: none; give at least one",
        ),
        (
            lambda p: p["copies"][0].update(direction="up"),
            ": copies[0].direction: found 'up'; write d2h or h2d or both",
        ),
        (
            lambda p: p["provenance"].update(backend="gpu"),
            ": provenance.backend: found 'gpu'; write cuda or cpu",
        ),
        (
            lambda p: p["provenance"].update(notes=["fine", 7]),
            ": provenance.notes[1]: found 7; write a line of printable text",
        ),
        (
            lambda p: p["prefill"][0]["part"].update(layers=33),
            ": prefill[0].part.layers: 33; Llama-3-8B has 32",
        ),
        (
            lambda p: p["prefill"][0]["part"].update(ranks=3),
            ": prefill[0].part.ranks: 3 does not divide 8 KV heads; write a divisor",
        ),
        (
            lambda p: p["prefill"][0].update(model="GPT-5"),
            ": prefill[0].model: found 'GPT-5'; write Llama-3-8B",
        ),
        (
            lambda p: p["suffix"][0].update(tokens=256),
            ": suffix[0].points: 256 cached of 256 tokens; leave at least one token to compute",
        ),
        (lambda p: p.update(schema=2), ": schema: found version 2; this reads version 1"),
        (lambda p: p.update(colour="red"), "unknown field"),
        (
            lambda p: p.update(kind="guessed"),
            ": kind: found 'guessed'; write measured or published",
        ),
        (lambda p: p.update(name="a b"), ": name: found 'a b'; use letters, digits, - and ."),
        (lambda p: p.update(device=" "), ': device: found " "; write a line of printable text'),
        (lambda p: p["sources"]["maker"].update(url="desk"), ": sources.maker.url: found 'desk'"),
    ],
)
def test_what_breaks_the_schema(change: Change, message: str, tmp_path: Path) -> None:
    assert message in refusal(tmp_path, changed(MEASURED, change))


@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan"), "7", None, True, 10**30])
def test_a_bandwidth_must_be_above_zero(value: Any, tmp_path: Path) -> None:
    def change(profile: dict[str, Any]) -> None:
        profile["copies"][0]["points"][0]["gb_s"]["value"] = value

    assert ": copies[0].points[0].gb_s.value: " in refusal(tmp_path, changed(PUBLISHED, change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda p: p["peaks"]["link_gb_s"].pop("source"),
            ": peaks.link_gb_s: found no origin; give source with the value",
        ),
        (
            lambda p: p["peaks"]["link_gb_s"].update(source="hearsay"),
            ": peaks.link_gb_s.source: unknown source 'hearsay'; in sources: datasheet",
        ),
        (lambda p: p.pop("sources"), "in sources: none yet"),
        (
            lambda p: p.update(provenance=MEASURED["provenance"]),
            ": provenance: a published profile was not measured; remove it, or make the kind",
        ),
        (
            lambda p: p.update(kind="datasheet"),
            ": step: a datasheet does not state step; remove it, or make the kind published",
        ),
    ],
)
def test_a_published_profile_is_held_to_its_sources(
    change: Change, message: str, tmp_path: Path
) -> None:
    assert message in refusal(tmp_path, changed(PUBLISHED, change))


def test_what_a_profile_does_not_have() -> None:
    with pytest.raises(InputError, match="no copies dma d2h; it has: none"):
        profiles.load("h200").copy("dma", "d2h")
    h100 = profiles.load("h100-sxm")
    with pytest.raises(InputError, match="kernel d2h has no smooth law"):
        _ = h100.copy("kernel", "d2h").smooth
    with pytest.raises(InputError, match="no prompt of 4096; it has 2048, 8192, 16384"):
        h100.prefill[0].seconds(4096)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place inside a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, element in inner:
        found.append((*path, key))
        if isinstance(element, dict | list):
            found += places(element, (*path, key))
    return found


# Each example writes a file, on a machine that may be busy.
files = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=3,
)


@files
@given(data=st.data(), base=st.sampled_from([MEASURED, PUBLISHED]), drop=st.booleans())
def test_any_change_is_a_profile_or_an_input_error(
    data: st.DataObject,
    base: dict[str, Any],
    drop: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    profile = copy.deepcopy(base)
    *path, last = data.draw(st.sampled_from(places(base)))
    parent: Any = profile
    for key in path:
        parent = parent[key]
    if drop:
        del parent[last]
    else:
        parent[last] = data.draw(values)
    refused = ""
    try:
        assert load(tmp_path_factory.getbasetemp(), profile).device
    except InputError as error:
        refused = str(error)
    assert refused.isprintable()


@files
@given(values)
def test_any_json_is_a_profile_or_an_input_error(
    tmp_path_factory: pytest.TempPathFactory, value: Any
) -> None:
    with pytest.raises(InputError):
        load(tmp_path_factory.getbasetemp(), value)
