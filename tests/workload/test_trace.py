"""Trace files: what is read, and what is refused with file, line and field."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvsched.errors import InputError
from kvsched.workload import Arrival, Cancel, Limit
from kvsched.workload.trace import LONGEST_LINE, Trace

HEAD = '{"schema": "kvsched-trace-1", "unit": "tick"}'
A = '{"type": "arrive", "t": 0, "id": "a", "prompt": 4, "output": 2}'
CANCEL = '{"type": "cancel", "t": 3, "id": "a"}'


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    """Writes lines, or bytes as they are."""

    def write(*lines: str | bytes) -> Path:
        path = tmp_path / "trace.jsonl"
        path.write_bytes(
            b"".join(text if isinstance(text, bytes) else text.encode() + b"\n" for text in lines)
        )
        return path

    return write


def arrival(**fields: Any) -> str:
    return json.dumps({**json.loads(A), **fields})


def test_arrivals_and_cancellations_in_order(file: Any) -> None:
    trace = Trace(file(HEAD, A, CANCEL))
    first, second = (line.event for line in trace)
    assert isinstance(first, Arrival)
    assert (first.at, first.request.num_prompt_tokens, first.request.max_tokens) == (0, 4, 2)
    assert second == Cancel(3, "a")
    assert (trace.unit, trace.count()) == ("tick", 2)


def test_counted_prompts_share_no_token(file: Any) -> None:
    a, b = (line.event.request.prompt for line in Trace(file(HEAD, A, arrival(id="b"))))
    assert a[0][0] + a[0][1] <= b[0][0]


def test_runs_and_block_ids_are_kept(file: Any) -> None:
    runs = arrival(prompt=[[7, 3], [100, 2]])
    blocks = arrival(id="b", prompt={"block_ids": [5, 9], "block_tokens": 4, "tokens": 6})
    prompts = [line.event.request.prompt for line in Trace(file(HEAD, runs, blocks))]
    assert prompts == [((7, 3), (100, 2)), ((20, 4), (36, 2))]


def test_a_law_makes_the_cap_where_none_is_given(file: Any) -> None:
    path = file(HEAD, A, arrival(id="b", max_tokens=3))
    found = [line.event.request for line in Trace(path, Limit.parse("factor:5"))]
    assert [r.max_tokens for r in found] == [10, 3]
    assert all(r.stop is not None for r in found)
    (exact, _) = [line.event.request for line in Trace(path)]
    assert (exact.max_tokens, exact.stop) == (2, None)


def test_sort_takes_any_order_and_keeps_that_of_equal_times(file: Any) -> None:
    lines = [arrival(id="b", t=5), arrival(id="c", t=5), A]
    assert [line.event.request.id for line in Trace(file(HEAD, *lines), sort=True)] == list("abc")


def test_a_last_line_without_its_newline_is_a_line(file: Any) -> None:
    assert Trace(file(HEAD, A.encode())).count() == 1


BAD: dict[str, tuple[list[str | bytes], str]] = {
    "empty": ([], "trace.jsonl: empty"),
    "no header": ([A], "line 1: no header; begin the file with"),
    "other schema": (['{"schema": "kvsched-trace-2", "unit": "tick"}'], 'line 1: schema: found "k'),
    "no unit": (['{"schema": "kvsched-trace-1"}'], 'line 1: no field "unit"'),
    "bad unit": (['{"schema": "kvsched-trace-1", "unit": "s"}'], 'line 1: unit: found "s"'),
    "malformed": ([HEAD, A, "{"], "line 3: not JSON"),
    "not an object": ([HEAD, "[1]"], "line 2: found a list of 1"),
    "truncated in a line": ([HEAD, A[:40].encode()], "line 2: not JSON"),
    "truncated between lines": (
        ['{"schema": "kvsched-trace-1", "unit": "tick", "events": 3}', A, CANCEL],
        "line 1: events: 3, and 2 lines follow",
    ),
    "out of order": ([HEAD, CANCEL, A], "line 3: t: 0 comes after 3"),
    "duplicate": ([HEAD, A, A], 'line 3: id: "a" arrived on line 2 already'),
    "duplicate key": ([HEAD, '{"type":"cancel","t":1,"t":2,"id":"a"}'], 'line 2: key "t" twice'),
    "empty line": ([HEAD, "", A], "line 2: an empty line"),
    "no type": ([HEAD, '{"t": 1}'], 'line 2: no field "type"'),
    "unknown type": ([HEAD, '{"type": "pause"}'], 'line 2: type: found "pause"'),
    "unknown field": ([HEAD, arrival(prio=1)], 'line 2: unknown field "prio"'),
    "missing field": ([HEAD, '{"type":"arrive","t":0,"id":"a","prompt":1}'], 'no field "output"'),
    "negative time": ([HEAD, arrival(t=-1)], "line 2: t: found -1"),
    "fractional time": ([HEAD, arrival(t=0.5)], "line 2: t: found 0.5"),
    "boolean count": ([HEAD, arrival(output=True)], "line 2: output: found true"),
    "no output": ([HEAD, arrival(output=0)], "line 2: output: found 0"),
    "cap below": ([HEAD, arrival(max_tokens=1)], "line 2: max_tokens: 1 is below output 2"),
    "huge count": ([HEAD, arrival(prompt=2**31)], "line 2: prompt: found 2147483648"),
    "huge sum": ([HEAD, arrival(prompt=2**31 - 1)], "line 2: prompt: 2147483647 tokens, with 2"),
    "huge number": ([HEAD, A.replace("4", "9" * 5000)], "line 2: an integer of thousands"),
    "huge line": ([HEAD, " " * (LONGEST_LINE + 1)], f"line 2: longer than {LONGEST_LINE} bytes"),
    "deep line": ([HEAD, "[" * 100_000], "line 2: nested too deeply"),
    "long id": ([HEAD, arrival(id="x" * 201)], "line 2: id: found"),
    "infinite": ([HEAD, A.replace("4", "Infinity")], "line 2: Infinity is not a JSON number"),
    "surrogate": ([HEAD, A.replace('a"', '\\ud800"', 1)], "line 2: "),
    "runs": ([HEAD, arrival(prompt=[[0, 0]])], "line 2: prompt[0][1]: found 0"),
    "blocks": (
        [HEAD, arrival(prompt={"block_ids": [1], "block_tokens": 4, "tokens": 5})],
        "line 2: prompt.tokens: 5 in blocks for 4",
    ),
    "binary": ([b"\x7fELF\x02\x01\xff\xfe\n"], "line 1: not UTF-8 text (0xff at byte 6)"),
    "nul bytes": ([HEAD, b"\x00\x00\x00"], "line 2: not JSON"),
    "gzip": ([gzip.compress(A.encode())], "line 1: gzip data"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_names_file_line_and_field(file: Any, name: str) -> None:
    lines, message = BAD[name]
    path = file(*lines)
    with pytest.raises(InputError) as error:
        Trace(path).count()
    text = str(error.value)
    assert message in text
    assert text.startswith(str(path))
    assert text.isprintable()
    assert len(text) < 500


FIXES = {
    "1e400": "number 1e400 is beyond a 64-bit float; write a smaller number",
    "NaN": "NaN is not a JSON number; write a finite number",
    "-Infinity": "-Infinity is not a JSON number; write a finite number",
    "9" * 5000: "an integer of thousands of digits; write a smaller number",
    "[" * 5000 + "]" * 5000: "nested too deeply; write it with fewer levels",
    '0, "t": 1': 'key "t" twice in one object; keep one of them',
    "1e3": "t: found 1000.0; write an integer from 0 to",
    "]": "not JSON (Expecting value); write one JSON object a line",
}
"""What stands where a time should, and what is said of it."""


@pytest.mark.parametrize("written", FIXES, ids=lambda text: text[:12])
def test_the_fix_is_one_of_what_is_wrong(file: Any, written: str) -> None:
    bad = '{"type": "cancel", "id": "a", "t": ' + written + "}"
    with pytest.raises(InputError) as error:
        Trace(file(HEAD, bad)).count()
    assert f"line 2: {FIXES[written]}" in str(error.value)


@pytest.mark.parametrize(("name", "problem"), [(".", "not a regular file"), ("x", "No such file")])
def test_what_is_no_file_is_refused(tmp_path: Path, name: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        Trace(tmp_path / name)
