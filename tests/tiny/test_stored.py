"""What chapter 8 shows is what a fresh run gives; what was measured says where."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvsched.device.tiny import Llama, record
from kvsched.device.tiny.faults import FAULTS
from kvsched.device.tiny.precision import DTYPES, measure
from kvsched.device.tiny.scenes import OURS, POOLS, SAMPLING, WAYS, prompts
from kvsched.views import same_answer

Undisturbed = Callable[[str], dict[str, list[int]]]
STORED = same_answer.recorded("answers")


def test_the_undisturbed_answers(undisturbed: Undisturbed) -> None:
    assert STORED["whole"] == {sampling: undisturbed(sampling)[OURS] for sampling in SAMPLING}


@pytest.mark.parametrize(("way", "pool"), [("vLLM", 44), ("SGLang, overlap", 48)])
def test_a_scene_is_what_a_fresh_run_gives(
    model: Llama, undisturbed: Undisturbed, way: str, pool: int
) -> None:
    fresh = record.scene(model, way, pool, "seeded", undisturbed("seeded"))
    assert STORED["scenes"][f"{way}|{pool}|seeded"] == fresh


@pytest.mark.slow
def test_every_scene_is_what_a_fresh_run_gives() -> None:
    assert record.answers() == STORED


def test_the_view_offers_what_is_stored() -> None:
    way, pool, sampling = same_answer.VIEW.params
    assert list(way.choices) == list(WAYS) == list(STORED["ways"])
    assert [pool.minimum, pool.maximum, pool.step] == [POOLS[0], POOLS[-1], POOLS.step]
    assert list(sampling.choices) == list(SAMPLING)
    assert list(same_answer.PIECES) == list(FAULTS)
    assert STORED["prompts"] == [
        [p.id, len(p.tokens), p.max_tokens, p.adapter] for p in prompts("greedy")
    ]


def test_restored_it_is_right_and_every_piece_shows_somewhere() -> None:
    scenes = [
        same_answer.VIEW(way=way, pool=pool, sampling=sampling)["rows"]
        for way in WAYS
        for pool in POOLS
        for sampling in SAMPLING
    ]
    assert not any(rows[0]["wrong"] or rows[0]["others"] for rows in scenes)
    for number in range(1, len(FAULTS)):
        assert any(rows[number]["wrong"] for rows in scenes), scenes[0][number]["name"]


def test_a_piece_that_does_not_show_says_why() -> None:
    said = same_answer.VIEW(way="copied to the host", pool=44, sampling="greedy")["says"]
    assert said[3] == (
        "Without the mask: the same answer. The pass that comes back has one token, with none "
        "after it."
    )
    assert said[6].endswith("Greedy decoding draws nothing.")
    assert said[7].endswith("There are no drafts.")


def test_a_page_of_others_is_told() -> None:
    said = same_answer.VIEW(way="vLLM", pool=48, sampling="greedy")["says"][4]
    assert "the answer is right, and it spoils those of the others" in said


def test_an_unknown_name_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["record", "nothing"])
    with pytest.raises(SystemExit):
        record.main()
    assert "'nothing' is not stored; give answers or precision" in capsys.readouterr().err


class TestPrecision:
    """The differences, and what is stored of them."""

    def test_finer_numbers_differ_less(self) -> None:
        most = {d: measure(d, seeds=1, steps=2)["recomputed"]["most"] for d in DTYPES}
        assert 0 < most["float64"] < 1e-10 < most["float32"] < 1e-3

    def test_the_stored_measurement_says_where_it_is_from(self) -> None:
        told = same_answer.recorded("precision")
        assert told["kind"] == "measured"
        assert told["device"].startswith("CPU: ")
        assert all(told[key] for key in ("torch", "date", "source", "licence"))
        for dtype in told["dtypes"].values():
            for name in ("recomputed", "in company"):
                found = dtype[name]
                assert found["equal"] + sum(found["bins"].values()) == found["count"] >= 100

    def test_no_token_flips_in_float64(self) -> None:
        exact = same_answer.recorded("precision")["dtypes"]["float64"]
        assert [exact[name]["flips"] for name in ("recomputed", "in company")] == [0, 0]
