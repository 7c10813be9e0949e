"""The notebooks as JupyterLite opens them: what is not there is commented out, not left to fail.

Pyodide comes here without numpy and matplotlib. In a notebook's copy every statement that needs
them, or that needs what such a statement makes, becomes a comment, and a note above says so.
"""

from __future__ import annotations

import ast
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat

from kvsched.book import notebooks
from kvsched.book.lite.python import DATA, WORKING
from kvsched.views import VIEWS, find

ABSENT = (
    "matplotlib",
    "numpy",
    "pandas",
    "torch",
    "kvsched.device",
    "kvsched.frames",
    "kvsched.plots",
)
KERNEL = {
    "kernelspec": {"display_name": "Python (Pyodide)", "language": "python", "name": "python"}
}
GALLERY = "widgets.ipynb"
OFF = "# not in JupyterLite: "
NOTE = (
    "*This copy runs in your browser, in JupyterLite. It has no matplotlib, numpy or torch: the "
    "statements that need them are commented out, and what they show is on the page of the "
    "book. What you change stays in this browser.*"
)
READ_DATA = f"""# The recordings lie beside the package; they are loaded once.
import os

import pyodide_js

await pyodide_js.loadPackage("{DATA}")
os.makedirs("{WORKING}", exist_ok=True)
os.chdir("{WORKING}")"""


def write(folders: list[Path], target: Path) -> None:
    """Put the folders' notebooks and the gallery under ``target``."""
    _write(gallery(), target / GALLERY)
    for folder in folders:
        for path in notebooks.find([folder]):
            copied = target / path.relative_to(folder.parent)
            copied.parent.mkdir(parents=True, exist_ok=True)
            _write(prepared(notebooks.read(path)), copied)


def prepared(notebook: Any) -> Any:
    """A copy of the notebook that runs from top to bottom in the browser."""
    lite = copy.deepcopy(notebook)
    lite.metadata.update(KERNEL)
    lost: set[str] = set()
    code = [cell for cell in lite.cells if cell.cell_type == "code"]
    for cell in code:
        cell.source = offline(cell.source, lost)
    above = [_cell("markdown", "lite-note", NOTE)]
    if any("../" in cell.source for cell in code):
        above.append(_cell("code", "lite-data", READ_DATA))
    lite.cells[:0] = above
    return lite


def offline(source: str, lost: set[str]) -> str:
    """The cell with what needs an absent library as comments.

    ``lost`` has the names that earlier cells no longer bind; those of this cell are added.
    """
    try:
        statements = ast.parse(source).body
    except SyntaxError:  # a magic
        return source
    lines = source.split("\n")
    for statement in statements:
        bound = set(_bound(statement))
        if not _needs_absent(statement) and not lost & set(_used(statement)):
            lost -= bound
            continue
        lost |= bound
        for number in range(statement.lineno - 1, statement.end_lineno or statement.lineno):
            lines[number] = OFF + lines[number]
    return "\n".join(lines)


def gallery() -> Any:
    """A notebook with every registered view, live."""
    cells = [
        _cell("markdown", "title", f"# Every figure that can be moved\n\n{NOTE}"),
        _cell("code", "import", "from kvsched.widgets import widget"),
    ]
    for name in VIEWS:
        cells.append(_cell("markdown", f"{name}-title", f"## {find(name).label}"))
        cells.append(_cell("code", name, f'widget("{name}")'))
    return _node({"nbformat": 4, "nbformat_minor": 5, "metadata": KERNEL, "cells": cells})


def _cell(kind: str, name: str, source: str) -> Any:
    run: dict[str, Any] = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return _node({"cell_type": kind, "id": name, "metadata": {}, "source": source, **run})


def _node(content: dict[str, Any]) -> Any:
    return nbformat.from_dict(content)  # type: ignore[no-untyped-call]


def _write(notebook: Any, path: Path) -> None:
    """Each source as one text: JupyterLite does not join lines as a server does."""
    path.write_text(json.dumps(notebook), encoding="utf-8")


def _needs_absent(statement: ast.stmt) -> bool:
    return any(
        f"{module}.".startswith(f"{absent}.")
        for node in ast.walk(statement)
        for module in _modules(node)
        for absent in ABSENT
    )


def _modules(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _used(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that the statement gives a value; of a function or class its own."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        yield statement.name
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.alias):
            yield node.asname or node.name.partition(".")[0]
