"""Worked traces as conform sees them: all match, and any changed field is found where it is."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from kvsched.conform import document
from kvsched.conform.batch import check_all
from kvsched.conform.reserve import compare_content
from kvsched.errors import InputError

GOLDEN = Path(__file__).parents[1] / "golden" / "reserve"
PATH = GOLDEN / "rand_000.json"


@pytest.fixture(scope="module")
def content() -> Any:
    return document.read(PATH)


def places(records: list[dict[str, Any]]) -> dict[tuple[str, str], int]:
    """For each kind of record and field: the last record that has it."""
    return {(r["type"], name): i for i, r in enumerate(records) for name in r if name != "type"}


def test_every_kind_of_field_changed_is_found_there(content: Any) -> None:
    fields = places(content["records"])
    assert len(fields) == 44
    for (_, name), number in fields.items():
        changed = copy.copy(content)
        changed["records"] = copy.copy(content["records"])
        changed["records"][number] = {**content["records"][number], name: "flipped"}
        divergence = compare_content(PATH, changed).divergence
        assert divergence is not None
        assert (divergence.step, divergence.field) == (number, name)


@pytest.mark.parametrize("change", ["dropped", "added", "swapped", "one field more"])
def test_records_missing_or_out_of_place_are_found(content: Any, change: str) -> None:
    changed = copy.deepcopy(content)
    records = changed["records"]
    match change:
        case "dropped":
            records.pop()
        case "added":
            records.append({"t": 9, "type": "completed", "id": "x"})
        case "swapped":
            records[4], records[5] = records[5], records[4]
        case "one field more":
            records[3]["extra"] = 1
    assert compare_content(PATH, changed).divergence is not None


def test_conform_counts_them_under_their_own_name(tmp_path: Path, content: Any) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps({**content, "records": content["records"][:-1]}))
    verdicts = list(check_all([PATH, wrong], jobs=1))
    (good,), (bad,) = verdicts
    assert (good.engine, good.version, good.divergence) == ("reserve", "1", None)
    assert bad.divergence is not None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"config": {"policy": "serial"}}, "config: no field"),
        ({"trace": [{"type": "arrive"}]}, "trace[0]: no field"),
        ({"trace": [{"type": "cancel", "t": -1, "id": "a"}]}, "trace[0].t: found -1"),
        ({"records": {}}, "records: found an object"),
        ({"note": ""}, 'unknown field "note"'),
    ],
)
def test_a_file_out_of_the_format_is_refused(
    content: Any, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as error:
        compare_content(PATH, {**content, **change})
    assert message in str(error.value)
    assert str(error.value).startswith(str(PATH))


def test_one_id_for_two_requests_is_refused(content: Any) -> None:
    arrivals = [event for event in content["trace"] if event["type"] == "arrive"]
    with pytest.raises(InputError, match="arrived already"):
        compare_content(PATH, {**content, "trace": [arrivals[0], arrivals[0]]})
