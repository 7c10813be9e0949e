"""The fidelity table is read from the tests' markers, and a wrong marker is named."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from kvsched.book import fidelity
from kvsched.errors import InputError

ROOT = Path(__file__).parents[2]
GOOD = '"vLLM", "0.28.0", "--watermark", 0.0, "vllm/v1/core/kv_cache_manager.py:174"'


def suite(root: Path, marker: str, test: str = "def test_a_b(): pass") -> Path:
    (root / "tests").mkdir()
    (root / "pytest.ini").write_text("[pytest]\nmarkers = rule\n")
    text = f"import pytest\n\n@pytest.mark.rule({marker})\n{textwrap.dedent(test)}\n"
    (root / "tests/test_x.py").write_text(text)
    return root


def test_every_marker_of_this_suite_is_a_row() -> None:
    rules = fidelity.collect(ROOT)
    assert len({rule.test for rule in rules}) == len(rules)


def test_a_row(tmp_path: Path) -> None:
    test = '''
        @pytest.mark.parametrize("x", [1, 2])
        def test_a(x):
            """Only what waits is asked,
            and only if something runs.

            More.
            """
    '''
    marker = f"{GOOD}, ours='kvsched.errors.InputError'"
    (rule,) = fidelity.collect(suite(tmp_path, marker, test))
    assert rule.sentence == "Only what waits is asked, and only if something runs."
    assert rule.test == "tests/test_x.py::test_a"
    table = fidelity.markdown([rule])
    assert "`--watermark`<br>`0.0`" in table
    assert "blob/v0.28.0/vllm/v1/core/kv_cache_manager.py#L174)" in table
    assert "`errors.InputError`" in table


def test_without_docstring_the_name_speaks(tmp_path: Path) -> None:
    (rule,) = fidelity.collect(suite(tmp_path, '"vLLM", "0.28.0", "", None, ["vllm/a.py:1"]'))
    assert rule.sentence == "A b."
    assert "| always |" in fidelity.markdown([rule])


@pytest.mark.parametrize(
    ("marker", "words"),
    [
        ('"vLLM"', "missing 4 required"),
        (GOOD.replace("0.28.0", "0.27.0"), "vLLM 0.27.0 is not pinned"),
        (GOOD.replace(":174", ""), "is no place"),
        (GOOD.replace('"vLLM", "0.28.0"', '"SGLang", "0.5.18"'), "is not SGLang's"),
        (f"{GOOD}, ours='kvsched.errors.Nope'", "nothing is called"),
    ],
)
def test_a_wrong_marker_is_named(tmp_path: Path, marker: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        fidelity.collect(suite(tmp_path, marker))
    assert "tests/test_x.py::test_a_b" in str(caught.value)


def test_no_marker_no_table() -> None:
    assert fidelity.markdown([]) == "No test carries the marker yet.\n"
