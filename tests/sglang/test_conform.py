"""Every recorded case matches, and a recording with one value changed does not."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvsched.conform.sglang import compare_content, compare_file, recognises
from kvsched.errors import InputError

HERE = Path("here.json")
COUNTS = {
    "ratio": {"start": 8, "sequence": 14, "estimate": 40},
    "retract": {"order": 54, "retract": 147},
    "policy": {"policy": 52},
    "adder": {"adder": 148},
    "preempt": {"preempt": 80},
    "timeout": {"timeout": 20},
    "loop": {"loop": 65},
    "loop_overlap": {"loop": 19},
}


@pytest.mark.parametrize("name", COUNTS)
def test_every_recorded_case_matches(name: str, verdicts: Any) -> None:
    results = verdicts(name)
    assert [r.divergence.text() for r in results if r.divergence is not None] == []
    counted: dict[str, int] = {}
    for result in results:
        kind = result.name.partition("[")[0]
        counted[kind] = counted.get(kind, 0) + 1
        assert (result.engine, result.version) == ("sglang", "0.5.18")
        assert result.steps > 0
    assert counted == COUNTS[name]


def test_there_are_647() -> None:
    assert sum(sum(kinds.values()) for kinds in COUNTS.values()) == 647


# -- one value changed ----------------------------------------------------------------------


def changed(value: Any) -> Any:
    """Another value of the same type, the nearest where it is a float."""
    if isinstance(value, list) and value:
        return [*value[:-1], changed(value[-1])]
    others: dict[type, Any] = {
        bool: lambda v: not v,
        float: lambda v: math.nextafter(v, math.inf),
        int: lambda v: v + 1,
        str: lambda v: {"CONTINUE": "OTHER", "NO_TOKEN": "OTHER", "P": "M"}.get(v, v + "x"),
        list: lambda _: [1],
        type(None): lambda _: 3,
        dict: lambda _: {},
    }
    return others[type(value)](value)


def first_difference(content: dict[str, Any]) -> tuple[int | None, str]:
    (result,) = [r for r in compare_content(HERE, content) if r.divergence is not None]
    assert result.divergence is not None
    assert result.divergence.text()
    return result.divergence.step, result.divergence.field


def with_change(content: Any, field: str, case: int, path: tuple[Any, ...]) -> dict[str, Any]:
    """The file with only one case, of which one value is changed."""
    others = {key: [] for key, value in content.items() if isinstance(value, list)}
    others |= {key: value for key, value in content.items() if not isinstance(value, list)}
    one = copy.deepcopy(content[field][case])
    *way, last = path
    inner = one
    for key in way:
        inner = inner[key]
    inner[last] = changed(inner[last])
    return {**others, field: [one]}


RATIO_FLIPS = [
    ("init", ("init",), 0, "init"),
    ("init", ("min",), 0, "min"),
    ("init", ("decay",), 0, "decay"),
    ("init", ("after", "598"), None, "after 598"),
    ("seqs", ("cur", 4), 4, "cur"),
    ("estimate", ("ratio",), 0, "ratio"),
]


@pytest.mark.parametrize(("field", "path", "step", "name"), RATIO_FLIPS)
def test_a_changed_ratio_is_found(
    content: Any, field: str, path: tuple[Any, ...], step: int | None, name: str
) -> None:
    found = first_difference(with_change(content("ratio"), field, 3, path))
    assert found[1] == name
    assert step is None or found[0] == step


@pytest.mark.parametrize("part", ["const", "server_arg_defaults"])
def test_a_changed_constant_is_found_in_every_case(content: Any, part: str) -> None:
    for name in content("ratio")[part]:
        tampered = copy.deepcopy(content("ratio"))
        tampered[part][name] = changed(tampered[part][name])
        results = list(compare_content(HERE, tampered))
        assert {r.divergence and r.divergence.field for r in results} == {f"{part}.{name}"}


@pytest.mark.parametrize(
    ("name", "field", "fields"),
    [
        ("retract", "orders", ["order"]),
        (
            "retract",
            "loops",
            [
                *("need", "evictable0", "retracted", "kept", "aborted", "abort_msg"),
                *("ratio", "free1", "evictable1"),
            ],
        ),
        ("policy", "cases", ["effective", "active", "order", "matched", "prefix", "deprio"]),
        (
            "preempt",
            "cases",
            ["rem_total0", "ok", "preempted", "kept", "rem_total1", "evictable"],
        ),
        ("timeout", "cases", ["left", "aborted"]),
    ],
)
def test_a_changed_part_is_found(content: Any, name: str, field: str, fields: list[str]) -> None:
    for flipped in fields:
        cases = content(name)[field]
        telling = (i for i, c in enumerate(cases) if c.get(flipped) not in (None, [], False))
        case = next(telling, 0)
        tampered = with_change(content(name), field, case, (flipped,))
        if flipped in ("effective", "active"):
            tampered[field][0][flipped] = "lof" if cases[case][flipped] != "lof" else "fcfs"
        after = field == "loops" and flipped not in ("need", "evictable0")
        assert first_difference(tampered) == (int(after), flipped)


def test_a_batch_said_to_fit_that_does_not_is_found(content: Any) -> None:
    case = next(c for c in content("retract")["loops"] if not c["ok"])
    denied = ("retracted", "kept", "aborted", "abort_msg", "ratio", "free1", "evictable1")
    fits = {**{k: v for k, v in case.items() if k not in denied}, "ok": True}
    found = first_difference({"version": "0.5.18", "orders": [], "loops": [fits]})
    assert found == (0, "ok")


@pytest.mark.parametrize("column", [3, 4], ids=["kv_committed_len", "cache_protected_len"])
def test_a_changed_row_of_a_retraction_is_found(content: Any, column: int) -> None:
    tampered = with_change(content("retract"), "loops", 2, ("reqs", 1, column))
    assert first_difference(tampered) == (0, "reqs")


ADDER_STEP = {
    0: "verdict",
    1: "added",
    2: "extent",
    3: "new_chunked",
    4: "budgets",
    5: "states",
    6: "evictable",
    7: "hit_tokens",
    8: "input_tokens",
}


@pytest.mark.parametrize(("column", "field"), ADDER_STEP.items())
def test_a_changed_adder_step_is_found(content: Any, column: int, field: str) -> None:
    cases = content("adder")["cases"]
    case = next(
        i
        for i, c in enumerate(cases)
        if len(c["steps"]) > 2 and c["steps"][2][column] is not None and "chunked_first" not in c
    )
    tampered = with_change(content("adder"), "cases", case, ("steps", 2, column))
    assert first_difference(tampered) == (3, field)


@pytest.mark.parametrize("field", ["avail", "evictable", "b0", "chunk_res"])
def test_a_changed_adder_start_is_found(content: Any, field: str) -> None:
    cases = content("adder")["cases"]
    case = next(i for i, c in enumerate(cases) if "chunked_first" in c)
    tampered = with_change(content("adder"), "cases", case, (field,))
    assert first_difference(tampered) == (int(field == "chunk_res"), field)


def test_a_missing_adder_step_is_found(content: Any) -> None:
    case = copy.deepcopy(content("adder")["cases"][1])
    assert len(case["steps"]) > 1
    del case["steps"][-1]
    found = first_difference({"version": "0.5.18", "cases": [case]})
    assert found == (len(case["steps"]) + 1, "steps")


LOOP_FIELDS = [
    *("k", "rows", "chunked", "arr", "retract", "fin", "ratio", "free", "ev", "prot", "wait"),
    *("run", "full", "ratio1", "free1", "ev1", "abort", "adder"),
]


@pytest.mark.parametrize("field", LOOP_FIELDS)
@pytest.mark.parametrize("name", ["loop", "loop_overlap"])
def test_a_changed_iteration_is_found(content: Any, name: str, field: str) -> None:
    where = _where(content(name)["runs"], field)
    if where is None:
        assert (name, field) in (("loop", "abort"), ("loop_overlap", "ratio1"))
        return
    run, step = where
    tampered = with_change(content(name), "runs", run, ("trace", step, field))
    if field in ("adder", "retract"):
        inner = content(name)["runs"][run]["trace"][step][field]
        key = "b0" if field == "adder" else "gain"
        entry = tampered["runs"][0]["trace"][step]
        entry[field] = {**inner, key: changed(inner[key])}
    assert first_difference(tampered) == (step, field)


def _where(runs: list[Any], field: str) -> tuple[int, int] | None:
    """A run and a late iteration of it that states the field; for ``k`` a prefill."""
    for i, run in enumerate(runs):
        for step, entry in reversed(list(enumerate(run["trace"]))):
            if field in entry and (field != "k" or entry["k"] == "P") and entry[field] != []:
                return i, step
    return None


@pytest.mark.parametrize("call", ["chunk", "add", "preempt"])
def test_every_value_of_an_adder_call_is_compared(content: Any, call: str) -> None:
    runs = content("loop")["runs"]
    run, step, position = next(
        (i, step, position)
        for i, run in enumerate(runs)
        for step, entry in enumerate(run["trace"])
        for position, made in enumerate(entry.get("adder", {}).get("calls", ()))
        if made[0] == call and made[2] not in ([], None)
    )
    for value in range(1, 5):
        path = ("trace", step, "adder", "calls", position, value)
        assert first_difference(with_change(content("loop"), "runs", run, path)) == (step, "adder")


@pytest.mark.parametrize("key", ["retracted", "aborted", "kept", "ratio", "gain"])
def test_every_value_of_a_retraction_is_compared(content: Any, key: str) -> None:
    runs = content("loop")["runs"]
    run, step = next(
        (i, s) for i, r in enumerate(runs) for s, e in enumerate(r["trace"]) if "retract" in e
    )
    tampered = with_change(content("loop"), "runs", run, ("trace", step, "retract", key))
    assert first_difference(tampered) == (step, "retract")


@pytest.mark.parametrize(
    "key", ["max_new_clipped", "out", "retractions", "done_at", "complete", "iters"]
)
def test_every_total_of_a_run_is_compared(content: Any, key: str) -> None:
    tampered = with_change(content("loop"), "runs", 2, (key,))
    assert first_difference(tampered) == (None, key)


def test_a_run_that_stops_early_is_found(content: Any) -> None:
    tampered = copy.deepcopy(content("loop")["runs"][2])
    del tampered["trace"][-1]
    found = first_difference({"version": "0.5.18", "runs": [tampered]})
    assert found == (None, "iters")


# -- files that cannot be used --------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("{", "not JSON"),
        ('{"version": "0.5.18", "runs": NaN}', "NaN"),
        ("[]", "write an object"),
        ("{}", "give a recording of SGLang"),
        ('{"cases": [{}]}', "give a recording of SGLang"),
        ('{"version": "0.5.19", "runs": []}', "0.5.19"),
        ('{"version": "0.5.18", "runs": {}}', "runs: found an object"),
        ('{"version": "0.5.18", "runs": [], "orders": []}', "orders"),
        ('{"version": "0.5.18", "runs": [{"cfg": 3}]}', "runs[0].cfg: found 3"),
    ],
)
def test_a_file_out_of_its_format_is_named(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "case.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"case\.json") as caught:
        list(compare_file(path))
    assert says in str(caught.value)


def test_a_bad_configuration_is_named(content: Any) -> None:
    run = copy.deepcopy(content("loop")["runs"][0])
    run["cfg"]["page_size"] = 0
    with pytest.raises(InputError, match=r"runs\[0\].*page_size"):
        list(compare_content(HERE, {"version": "0.5.18", "runs": [run]}))


def test_recognises_its_own_files(content: Any) -> None:
    assert all(recognises(content(name)) for name in COUNTS)
    assert not any(map(recognises, (None, [], {}, {"format": "vllm-golden-1", "cases": []})))


Place = list[tuple[Any, Any]]


def places(value: Any) -> Place:
    """Every (container, key) below a value."""
    found: Place = []
    keys: Callable[[Any], Any] = lambda v: v if isinstance(v, dict) else range(len(v))  # noqa: E731
    todo = [value]
    while todo:
        inner = todo.pop()
        if isinstance(inner, dict | list):
            found += [(inner, key) for key in keys(inner)]
            todo += [inner[key] for key in keys(inner)]
    return found


SMALL_CASE = {
    "ratio": ("estimate", 0),
    "retract": ("loops", 1),
    "policy": ("cases", 20),
    "adder": ("cases", 2),
    "preempt": ("cases", 0),
    "timeout": ("cases", 3),
    "loop": ("runs", 16),
}
WRONG: list[Any] = [None, -1, 0, 2**31 - 1, 1.5, "x", True, [], {}, [[]], [0, 0], [[0, 1]]]


@settings(max_examples=150, deadline=None)
@given(data=st.data(), name=st.sampled_from(sorted(SMALL_CASE)))
def test_whatever_is_written_in_a_case_is_judged_or_refused(
    content: Any, data: st.DataObject, name: str
) -> None:
    """A verdict or an InputError; nothing else comes out, and it does not take for ever."""
    field, position = SMALL_CASE[name]
    one = copy.deepcopy(content(name)[field][position])
    if name == "loop":
        del one["trace"][40:]
    found = places(one)
    container, key = found[data.draw(st.integers(0, len(found) - 1))]
    container[key] = data.draw(st.sampled_from(WRONG))
    whole = {**{k: [] for k, v in content(name).items() if isinstance(v, list)}}
    whole |= {k: v for k, v in content(name).items() if not isinstance(v, list)}
    said = ""
    try:
        assert len(list(compare_content(HERE, {**whole, field: [one]}))) == 1
    except InputError as error:
        said = str(error)
    assert said == "" or said.startswith("here.json: ")
