"""The strip of tests: it shows the run's own denials, and each budget moves the binding test."""

from __future__ import annotations

from typing import Any

import pytest

from kvsched.contract import WHOLE_SEQUENCE
from kvsched.views import find
from kvsched.views.admission import TESTS

ADMISSION = find("admission")


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    return ADMISSION()


def rows(**params: Any) -> set[str]:
    """The tests that refuse somebody somewhere."""
    return {test for test, steps in ADMISSION(**params)["refusals"].items() if steps}


def test_the_strip_is_the_denials_of_the_panels(data: dict[str, Any]) -> None:
    """In every step that the strip shows red, the panel's binding row is that test."""
    names = {"tokens": 0, "slots": 1, "whole": 2, "chunk": 3, "watermark": 4}
    panels, last = [], None
    for panel in data["panels"]:
        last = panel or last
        panels.append(last)
    shown = {
        step: row
        for row, first, steps, *_ in data["binding"]
        for step in range(first, first + steps)
    }
    for step, panel in enumerate(panels):
        binds = [names[row[0]] for row in panel["rows"] if row[1] == "binds"]
        assert binds == ([shown[step]] if step in shown else [])


def test_every_refusal_is_an_inequality_that_holds(data: dict[str, Any]) -> None:
    for *_, asked, limit in data["binding"]:
        assert asked > limit
    assert sum(steps for _, _, steps, *_ in data["binding"]) == sum(data["refusals"].values())


def test_nothing_passes_its_limit(data: dict[str, Any]) -> None:
    assert max(data["held"]) <= data["blocks"]
    assert max(data["running"]) <= data["slots"]


@pytest.mark.parametrize(
    ("params", "gone", "come"),
    [
        ({"slots": 20}, "Slots", None),
        ({"gate": False}, TESTS[WHOLE_SEQUENCE], "Next chunk"),
        ({"gate": False, "caching": False}, TESTS[WHOLE_SEQUENCE], "Step preempted"),
        ({"watermark": 0.05}, None, "Watermark"),
        ({"blocks": 400}, TESTS[WHOLE_SEQUENCE], None),
    ],
)
def test_a_budget_moves_the_binding_test(
    params: dict[str, Any], gone: str | None, come: str | None
) -> None:
    before, after = rows(), rows(**params)
    assert gone is None or gone in before - after
    assert come is None or come in after - before


def test_with_room_for_everybody_nobody_is_refused() -> None:
    assert rows(blocks=400, slots=20, tokens=1024) == set()
