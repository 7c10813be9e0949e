"""Numerals with a unit that no output explains are listed; the others are not."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest

from kvsched.book.numerals import unexplained

v4 = nbformat.v4


def notebook(prose: str, output: str = "", **metadata: Any) -> Any:
    code = v4.new_code_cell("run()", outputs=[v4.new_output("stream", name="stdout", text=output)])
    code.metadata = nbformat.from_dict(metadata)
    return v4.new_notebook(cells=[v4.new_markdown_cell(prose), code])


@pytest.mark.parametrize(
    ("prose", "listed"),
    [
        ("It takes 300 ms.", ["300 ms"]),
        (
            "It takes 8,192 tokens, 2.5 blocks a step, 11× and 40 %.",
            ["8,192 tokens", "2.5 blocks", "11 ×", "40 %"],
        ),
        ("Version 0.28.0, chapter 5, D holds five blocks.", []),
        ("`300 ms` and [a link](http://x/300ms) and\n```\n300 ms\n```", []),
        ("The 12 statuses", []),
    ],
)
def test_what_is_listed(prose: str, listed: list[str]) -> None:
    assert [numeral.text for numeral in unexplained(notebook(prose))] == listed


def test_an_output_explains_in_any_spelling() -> None:
    assert unexplained(notebook("8,192 tokens in 82 steps", "tokens 8192\nsteps: 82.0")) == []


def test_captions_and_alt_texts_are_prose() -> None:
    mystnb = {"figure": {"caption": "Drains 40 blocks."}, "image": {"alt": "Falls to 3 blocks."}}
    found = unexplained(notebook("Text.", "40", mystnb=mystnb))
    assert [numeral.text for numeral in found] == ["3 blocks"]
