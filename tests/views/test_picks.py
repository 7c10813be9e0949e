"""Figures with runs to pick from: the picture, the words and the run say the same."""

from __future__ import annotations

import functools
from typing import Any
from xml.etree import ElementTree

import pytest

from kvsched.log import Preempt
from kvsched.views import find
from kvsched.views.storm import CELLS
from kvsched.views.watermark import BURST, WATERMARKS, simulate
from kvsched.vllm import Scheduler
from kvsched.whatif import TaxRunning

SVG = "{http://www.w3.org/2000/svg}"
EACH = pytest.mark.parametrize(
    "name", ["crossover", "ordering", "same_answer", "storm", "watermark"]
)


@functools.cache
def default(name: str) -> dict[str, Any]:
    return find(name)()


@EACH
def test_every_run_can_be_picked_and_is_told(name: str) -> None:
    data = default(name)
    count = len(data["picks"])
    assert len(data["says"]) == count == len(set(data["says"]))
    figure = ElementTree.fromstring(find(name).draw(data, {"pick": 1}))
    marks = [node for node in figure.iter() if "kv-pick" in node.get("class", "")]
    assert {mark.get("data-pick") for mark in marks} == {str(pick) for pick in range(count)}
    current = {m.get("data-pick") for m in marks if "is-current" in m.get("class", "")}
    assert current == {"1"}


def test_what_is_seen_without_a_style_sheet_is_the_picked_layer() -> None:
    figure = ElementTree.fromstring(find("watermark").draw(default("watermark"), {"pick": 2}))
    layers = [node for node in figure.iter(f"{SVG}g") if "kv-layer" in node.get("class", "")]
    shown = [layer.get("data-pick") for layer in layers if layer.get("display") != "none"]
    assert (len(layers), shown) == (len(WATERMARKS), ["2"])


def test_the_strips_divide_all_of_the_engines_time() -> None:
    data = default("storm")
    for cell in data["cells"]:
        line = cell["timeline"]
        assert all(
            a >= 0 and b >= 0 and a + b <= 1.001 for a, b in zip(*line.values(), strict=True)
        )
        shown = sum(line["recompute"]) * data["bin"] / cell["seconds"]
        assert shown == pytest.approx(cell["recompute"], abs=0.02)


def test_the_parts_of_a_wait_are_the_wait() -> None:
    for cell in default("storm")["cells"]:
        wait = cell["ttft_p99"]
        parts = wait["queueing"] + wait["recompute"] + wait["prefill"]
        assert parts == pytest.approx(wait["total"], abs=0.002)


def test_a_cell_is_told_against_the_default() -> None:
    data = default("storm")
    on, *_, off = data["cells"]
    assert data["says"][0].endswith("This is the default.")
    loss = 1 - off["tokens_s"] / on["tokens_s"]
    assert data["says"][-1].endswith(f"{loss:.1%} fewer tokens a second than the default.")
    assert [cell["name"] for cell in data["cells"]] == [cell.name for cell in CELLS]


def test_a_pool_that_holds_everybody_has_no_storm() -> None:
    data = find("storm")(rate=0.4, blocks=17_697)
    assert [cell["preemptions"] for cell in data["cells"]] == [0, 0, 0, 0]
    assert [cell["recompute"] for cell in data["cells"]] == [0, 0, 0, 0]
    assert all("No slower than the default" in said for said in data["says"][1:])


def test_the_losses_on_the_timeline_are_the_preemptions() -> None:
    for point in default("watermark")["points"]:
        assert sum(point["timeline"]["out"]) == point["preemptions"]
        assert min(point["timeline"]["free"]) >= 0


def test_head_room_is_counted_as_the_engine_counts_it() -> None:
    kept = [point["kept"] for point in default("watermark")["points"]]
    assert kept == [int(share * 1171) for share in WATERMARKS]


def test_preemptions_fall_and_throughput_peaks_in_between() -> None:
    points = default("watermark")["points"]
    counts = [point["preemptions"] for point in points]
    assert counts == sorted(counts, reverse=True)
    best = max(points, key=lambda point: point["tokens_s"])["watermark"]
    assert 0 < best < WATERMARKS[-1]


def test_a_small_watermark_saves_a_burst_nothing() -> None:
    counts = [point["preemptions"] for point in find("watermark")(arrivals=BURST)["points"]]
    assert counts[0] == counts[1] == counts[2] > 0


def test_case_3_a_tax_on_running_requests_preempts_more() -> None:
    assert preemptions(TaxRunning) > preemptions(Scheduler)


def preemptions(scheduler: type[Scheduler]) -> int:
    return len(simulate(0.05, scheduler=scheduler).of(Preempt))
