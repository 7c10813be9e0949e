"""Two engines, one playhead: the step marked is the first that they decide differently."""

from __future__ import annotations

import json

import pytest

from kvsched.log import Admit, Chunk, Log
from kvsched.views import find
from kvsched.views.pair import Decision, compute, decisions
from kvsched.views.victims import WORKLOADS, sglang_log, sglang_victims, vllm_log, vllm_victims

LARGEST = 150_000
FIRST = {"agree": 2, "differ_chunk": 0, "differ_tie": 1, "differ_late": 4}


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_first_difference(name: str) -> None:
    data = compute(name, 0)
    assert data["first"] == FIRST[name]
    assert data["says"][FIRST[name]][0] == "The first difference."
    assert f"first decide differently in step {FIRST[name]}." in data["sentence"]


def test_nothing_before_the_first_difference_differs() -> None:
    workload = WORKLOADS["differ_late"]
    vllm, sglang = decisions(vllm_log(workload)), decisions(sglang_log(workload))
    assert vllm[: FIRST["differ_late"]] == sglang[: FIRST["differ_late"]]
    assert vllm[4] == Decision({"A": 1, "X": 10}, ("X",))
    assert sglang[4] == Decision({"X": 10}, ("X",))


@pytest.mark.parametrize("name", WORKLOADS)
def test_who_is_thrown_out_is_who_the_log_throws_out(name: str) -> None:
    workload = WORKLOADS[name]
    for log, victims in (
        (vllm_log(workload), vllm_victims(name)),
        (sglang_log(workload), sglang_victims(name)),
    ):
        out = [(step, one) for step, each in enumerate(decisions(log)) for one in each.out]
        assert out == sorted(victims)


def test_the_tokens_of_a_decision_are_the_logs() -> None:
    log = vllm_log(WORKLOADS["differ_chunk"])
    decided = decisions(log)
    computed = [e for kind in (Admit, Chunk) for e in _entries(log, kind)]
    assert computed
    for step, name, tokens in computed:
        assert decided[step].tokens[name] == tokens


def _entries(log: Log, kind: type[Admit] | type[Chunk]) -> list[tuple[int, str, int]]:
    return [(e.step, e.event.id, e.event.tokens) for e in log.entries if isinstance(e.event, kind)]


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_stored_pair_stays_small(name: str) -> None:
    told = json.dumps(compute(name, 0), ensure_ascii=False, separators=(",", ":"))
    assert len(told.encode()) < LARGEST


def test_a_pool_with_room_throws_nobody_out_and_still_differs() -> None:
    data = compute("agree", 40)
    assert data["sentence"].endswith("First thrown out: vLLM nobody, SGLang nobody.")
    assert not [step for run in data["runs"] for step in run["trace"]["stops"]]
    assert data["first"] == 2


def test_the_reader_looks_at_the_first_difference_first() -> None:
    view = find("pair")
    assert view.selection is not None
    assert view.selection["step"] == view()["first"]


def test_both_figures_carry_the_mark() -> None:
    view = find("pair")
    data = view()
    figure = view.draw(data, view.selected({}))
    assert figure.count(">≠<") == 2
    assert ">≠<" not in view.draw({**data, "first": None}, {})


def test_the_table_has_every_step_of_both() -> None:
    data = find("pair")()
    rows = find("pair").table(data).rows
    assert len(rows) == max(len(run["trace"]["events"]) for run in data["runs"])
    assert [row[0] for row in rows if "≠" in row[0]] == ["2 ≠"]


def test_what_the_chapter_says_of_the_tie() -> None:
    workload = WORKLOADS["differ_tie"]
    both = list(zip(decisions(vllm_log(workload)), decisions(sglang_log(workload)), strict=False))
    assert [step for step, (one, other) in enumerate(both) if one != other][:2] == [1, 10]
    assert [each.out for each in both[10]] == [("C",), ("L",)]
    assert both[9][0].tokens.keys() == {"A", "B", "C", "L"}
