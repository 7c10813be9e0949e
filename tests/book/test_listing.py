"""`show()` prints our source as it stands, and nothing that moves when another line does."""

from __future__ import annotations

import functools

import pytest

from kvsched import errors, palette
from kvsched.book import show
from kvsched.errors import InputError


class Sample:
    """A class to show."""

    @property
    def doubled(self) -> int:
        """Twice one."""
        return 2

    @functools.cached_property
    def tripled(self) -> int:
        """Thrice one."""
        return 3

    def method(self) -> str:
        return "```"


def test_a_method_is_dedented_and_named() -> None:
    text = repr(show(InputError.inside, engine="vllm/v1/request.py:374"))
    title, engine, blank, first, *_ = text.splitlines()
    assert title == "# kvsched.errors.InputError.inside"
    assert engine == "# vLLM 0.28.0: vllm/v1/request.py:374"
    assert (blank, first) == ("", "def inside(self, outer: str) -> InputError:")


@pytest.mark.parametrize(
    ("obj", "begins"),
    [
        (Sample, "class Sample:"),
        (Sample.doubled, "@property"),
        (Sample.__dict__["tripled"], "@functools.cached_property"),
        (errors, '"""'),
        (palette.css, "def css()"),
    ],
)
def test_what_can_be_shown(obj: object, begins: str) -> None:
    assert show(obj).text.startswith(begins)


def test_a_constant_is_shown_with_the_docstring_under_it() -> None:
    shown = show("kvsched.plots.WIDTH")
    assert shown.text.splitlines()[0] == "WIDTH = 7.6"
    assert shown.text.endswith('"""')
    assert show("kvsched.palette.PHASES").text.startswith("PHASES = (WAITING")


def test_several_places_of_the_engine() -> None:
    shown = show(palette.css, engine=["vllm/a.py:1", "python/sglang/b.py:2-3"])
    markdown = shown._repr_markdown_()
    assert markdown.startswith("```python\ndef css()")
    assert (
        "[vLLM 0.28.0, vllm/a.py:1](https://github.com/vllm-project/vllm/blob/v0.28.0/" in markdown
    )
    assert "[SGLang 0.5.18, python/sglang/b.py:2-3](https://github.com/sgl-project/" in markdown


def test_a_fence_is_longer_than_any_in_the_source() -> None:
    assert show(Sample.method)._repr_markdown_().startswith("`````python\n")


@pytest.mark.parametrize(
    ("obj", "words"),
    [
        (3, "a int has no source"),
        ("kvsched.palette.NOPE", "binds no 'NOPE'"),
        ("kvsched.nope.X", "no module"),
        ("X", "no module"),
    ],
)
def test_what_cannot_be_shown_says_why(obj: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        show(obj)
