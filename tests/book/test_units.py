"""A number and its per cent sign stand on one line, except in code."""

from __future__ import annotations

from typing import Any, cast

from docutils.core import publish_doctree

from kvsched.book.extension import keep_units


def test_prose_and_code() -> None:
    tree = publish_doctree("Below 5 % of ``5 %``::\n\n  5 %\n")
    keep_units(cast("Any", None), tree)
    prose, block = tree.children
    assert prose.children[0].astext() == "Below 5\N{NO-BREAK SPACE}% of "
    assert prose.children[1].astext() == block.astext() == "5 %"
