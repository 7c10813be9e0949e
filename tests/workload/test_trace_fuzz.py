"""Whatever the bytes of a trace: lines, or one printable error that names the file.

``traces/`` is the corpus: good and bad files from which damaged ones are made.
``python tests/workload/test_trace_fuzz.py SECONDS SEED`` fuzzes longer.

Three runs of ten minutes: with damaged bytes alone, 111,587 files, of which 157 could still be
read; with damaged fields too, seed 2, 52,426 files, 6,858 of them read and replayed to their end,
and seed 3, 180,077 files and 23,983. None found a fault of the reader or the simulator; the second
found one of the fuzzer.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvsched.errors import InputError
from kvsched.replay import replay_reserve
from kvsched.reserve import Config
from kvsched.workload.trace import Trace

CORPUS = sorted((Path(__file__).parent / "traces").iterdir())
SEEDS = [path.read_bytes() for path in CORPUS]
PIECES = [
    *(b'"', b"{", b"}", b"[", b"]", b",", b":", b"\n", b"\r", b"\0", b"\xff", b"\\ud800", b"\\n"),
    *(
        b"-1",
        b"0",
        b"1e999",
        b"NaN",
        b"null",
        b"true",
        b"9" * 30,
        b"2147483648",
        b"0.5",
        b"\x1f\x8b",
    ),
    *(b'"t"', b'"id"', b'"arrive"', b'"cancel"', b'"prompt"', b'"max_tokens":1', b"[[0,1]]"),
]
POOL = Config(block_size=4, blocks=8, max_tokens=16, max_rows=4, chunk=8)


def read_or_refused(path: Path) -> str:
    """How a file was taken; anything but lines or a proper refusal is raised."""
    try:
        lines = list(Trace(path, sort=True))
    except InputError as error:
        text = str(error)
        assert text.isprintable(), ascii(text)
        assert text.startswith(str(path)), text
        assert len(text) < 1000, len(text)
        return "refused"
    assert all(line.event.at >= 0 for line in lines)
    if sum(line.output for line in lines) < 10_000:
        assert replay_reserve(iter(lines), POOL).verdict == "all_done"
    return "read"


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A file of the corpus with stretches overwritten, cut out or put in, perhaps cut off."""
    data = bytearray(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        stop = min(len(data), start + draw(st.integers(0, 8)))
        data[start:stop] = draw(st.binary(max_size=8) | st.sampled_from(PIECES))
    return bytes(data[: draw(st.integers(0, len(data)) | st.just(len(data)))])


@settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=damaged())
def test_a_damaged_trace_is_read_or_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(data)
    assert read_or_refused(path)


def test_changed_fields_and_lines_are_read_or_refused(tmp_path: Path) -> None:
    rng, path = random.Random(5), tmp_path / "trace.jsonl"
    taken = Counter[str]()
    for _ in range(200):
        path.write_bytes(mutate(rng, rng.choice(SEEDS)))
        taken[read_or_refused(path)] += 1
    assert min(taken["read"], taken["refused"]) > 20


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_a_file_of_the_corpus_is_taken_as_its_name_says(path: Path) -> None:
    assert read_or_refused(path) == ("read" if path.name.startswith("good") else "refused")


VALUES: list[Any] = [
    *(None, True, "", "a", "b", "tick", "ns", "cancel", -1, 0, 1, 2, 3, 40, 0.5, 2**31, 2**62),
    *([], [[0, 3]], [[0, 0]], [[7, 2], [7, 2]], {}, "x" * 201, "\u2028\n", {"block_ids": [1]}),
]


def change_field(rng: random.Random, data: bytes) -> bytes:
    """A field of one line gets another value, a new name, or goes; most files stay JSON."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    number = rng.randrange(len(lines))
    try:
        value = json.loads(lines[number])
    except ValueError:
        return data
    if not isinstance(value, dict) or not value:
        return data
    name = rng.choice(sorted(value))
    if rng.random() < 0.7:
        value[name] = rng.randint(0, 60) if type(value[name]) is int else value[name]
    elif rng.random() < 0.6:
        value[name] = rng.choice(VALUES)
    elif rng.random() < 0.5:
        del value[name]
    else:
        value[rng.choice(["max_tokens", "priority", "deadline", "events", "x"])] = rng.choice(
            VALUES
        )
    lines[number] = json.dumps(value).encode() + b"\n"
    return b"".join(lines)


def mutate(rng: random.Random, data: bytes) -> bytes:
    """Lines change places, fields change, or bytes do."""
    if rng.random() < 0.2:
        head, *rest = data.splitlines(keepends=True) or [b""]
        rng.shuffle(rest)
        data = b"".join((head, *rest))
    if rng.random() < 0.7:
        return change_field(rng, data)
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        start = rng.randint(0, len(out))
        piece = rng.choice(PIECES) if rng.random() < 0.7 else rng.randbytes(rng.randint(0, 8))
        out[start : start + rng.choice((0, 0, 1, len(piece), 8))] = piece
    return bytes(out[: rng.randint(0, len(out))] if rng.random() < 0.1 else out)


def fuzz(seconds: float, seed: int) -> None:
    """Fuzz for so long, and print what was seen; a failing input is left in a file."""
    rng, seen = random.Random(seed), Counter[str]()
    path = Path(tempfile.mkdtemp()) / "trace.jsonl"
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        data = rng.choice(SEEDS)
        for _ in range(rng.randint(1, 3)):
            data = mutate(rng, data)
        path.write_bytes(data)
        try:
            seen[read_or_refused(path)] += 1
        except BaseException:
            sys.stderr.write(f"input kept in {path}\n")
            raise
    sys.stdout.write(f"seed {seed}, {seconds:g} s: {dict(seen)}\n")


if __name__ == "__main__":
    fuzz(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
