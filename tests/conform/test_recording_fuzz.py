"""Whatever the bytes of a file: a Recording, or one line that says what is wrong with it."""

from __future__ import annotations

import copy
import gzip
import json
import random
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvsched.conform.recording import Recording, load
from kvsched.errors import InputError

HERE = Path(__file__).parent
BYTES = (HERE.parent / "golden/vllm/abort_same_step_as_arrival.json.gz").read_bytes()
PLAIN = gzip.decompress(BYTES)
FIRST: dict[str, Any] = json.loads(PLAIN)
SECOND: dict[str, Any] = json.loads((HERE / "second_format.json").read_text())

FUZZ = settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def read_or_refused(path: Path) -> bool:
    """Whether the file gives a recording or a proper refusal; anything else is raised."""
    try:
        result: Recording | InputError = load(path)
    except InputError as error:
        result = error
    if isinstance(result, Recording):
        return result.path == path
    return str(result).isprintable() and result.place.startswith(str(path))


@st.composite
def damaged(draw: st.DrawFn, original: bytes) -> bytes:
    """The original with a few stretches overwritten, cut out or put in, perhaps cut off."""
    data = bytearray(original)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        stop = min(len(data), start + draw(st.integers(0, 8)))
        data[start:stop] = draw(st.binary(max_size=8))
    return bytes(data[: draw(st.integers(0, len(data)) | st.just(len(data)))])


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["", "pre", "abort", "chunk", -1, 0, 2**31, 2**64, 1e308])
)
VALUES = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(st.text(), SCALARS, max_size=2)


def mutate(document: Any, random_: random.Random, value: Any) -> None:
    """Replace, remove, double or rename something anywhere in the document."""
    here = document
    while True:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        if not keys:
            return
        key = random_.choice(keys)
        inner = here[key]
        if not isinstance(inner, dict | list) or not inner or random_.random() < 0.3:
            break
        here = inner
    action = random_.randrange(4)
    if action == 0:
        del here[key]
    elif action == 1 and isinstance(here, list):
        here.insert(key, copy.deepcopy(inner))
    elif action == 2 and isinstance(here, dict):
        here[str(value)] = here.pop(key)
    else:
        here[key] = value


@FUZZ
@given(data=damaged(BYTES))
def test_damaged_gzip_is_refused_or_read(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(data)
    assert read_or_refused(path)


@FUZZ
@given(data=damaged(PLAIN))
def test_damaged_json_is_refused_or_read(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(data)
    assert read_or_refused(path)


@FUZZ
@given(
    original=st.sampled_from([FIRST, SECOND]),
    random_=st.randoms(use_true_random=False),
    values=st.lists(VALUES, min_size=1, max_size=3),
)
def test_a_changed_document_is_refused_or_read(
    tmp_path: Path, original: dict[str, Any], random_: random.Random, values: list[Any]
) -> None:
    document = json.loads(json.dumps(original))
    for value in values:
        mutate(document, random_, value)
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document))
    assert read_or_refused(path)
