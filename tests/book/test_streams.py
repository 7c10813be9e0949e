"""A print that the kernel sent in pieces is on the page as it was printed."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from myst_nb.core import render
from nbformat.v4 import new_output

from kvsched.book import extension


def sent(*pieces: tuple[str, str]) -> list[Any]:
    return [new_output("stream", name=name, text=text) for name, text in pieces]  # type: ignore[no-untyped-call]


def texts(outputs: Sequence[Any]) -> list[tuple[str, str]]:
    return [(output.name, output.text) for output in outputs]


def coalesce(outputs: list[Any]) -> list[Any]:
    """As the book's build does it, with our extension set up."""
    ignore = SimpleNamespace()
    for name in ("directive", "html_math_renderer", "css_file"):
        setattr(ignore, f"add_{name}", lambda *_: None)
    ignore.connect = lambda *_, **__: None
    ignore.setup_extension = lambda _: None
    extension.setup(ignore)  # type: ignore[arg-type]
    return render.coalesce_streams(outputs)


def test_a_line_in_pieces_stays_one_line() -> None:
    pieces = sent(("stdout", "Scheduler"), ("stdout", " 131"), ("stdout", "\n  182\n"))
    assert texts(coalesce(pieces)) == [("stdout", "Scheduler 131\n  182\n")]


def test_streams_are_kept_apart() -> None:
    pieces = sent(("stdout", "a"), ("stdout", "b\n"), ("stderr", "no\n"))
    assert texts(coalesce(pieces)) == [("stdout", "ab\n"), ("stderr", "no\n")]
