"""The normal form of a notebook, and the command that stores it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import nbformat
import pytest

from kvsched.book import notebooks
from kvsched.book.hygiene import flaws

v4 = nbformat.v4


def build(*cells: Any) -> Any:
    return v4.new_notebook(cells=list(cells), metadata={"editor": {"theme": "dark"}})


@pytest.fixture
def messy() -> Any:
    """As an editor leaves it: a figure, a split stream, its own metadata."""
    figure = v4.new_output(
        "display_data",
        {"image/png": "iVBOR", "text/plain": "<Figure size 640x480 with 1 Axes>"},
        metadata={"image/png": {"width": 640}},
    )
    view = v4.new_output("display_data", {"application/vnd.jupyter.widget-view+json": {}})
    streams = [v4.new_output("stream", name="stdout", text=t) for t in ("one\n", "two\n")]
    cell = v4.new_code_cell("draw()", outputs=[figure, view, *streams], execution_count=7)
    cell.metadata = nbformat.from_dict({"collapsed": True, "tags": ["keep"], "mystnb": {}})
    return build(v4.new_markdown_cell("Text."), cell)


def test_normal_form(messy: Any) -> None:
    ids = [cell.id for cell in messy.cells]
    notebooks.normalise(messy)
    outputs = messy.cells[1].outputs
    assert messy.metadata == notebooks.METADATA
    assert [cell.id for cell in messy.cells] == ids
    assert messy.cells[1].metadata == {"tags": ["keep"]}
    assert outputs[0].data == {"text/plain": "<Figure size 640x480 with 1 Axes>"}
    assert outputs[0].metadata == {}
    assert [output.text for output in outputs[1:]] == ["one\ntwo\n"]


def test_the_normal_form_of_the_normal_form_is_itself(messy: Any) -> None:
    notebooks.normalise(messy)
    once = copy.deepcopy(messy)
    notebooks.normalise(messy)
    assert messy == once


def test_streams_of_two_kinds_are_not_merged() -> None:
    outputs = [v4.new_output("stream", name=n, text=n) for n in ("stdout", "stderr", "stdout")]
    notebook = build(v4.new_code_cell("x", outputs=outputs))
    notebooks.normalise(notebook)
    assert [output.name for output in notebook.cells[0].outputs] == ["stdout", "stderr", "stdout"]


def test_the_command_runs_and_stores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.ipynb"
    cells = [
        v4.new_code_cell("print(6 * 7, 'blocks')"),
        v4.new_markdown_cell("43 blocks, 42 blocks"),
    ]
    notebooks.write(build(*cells), path)
    assert notebooks.main([str(tmp_path)]) == 0
    stored = notebooks.read(path)
    assert stored.cells[0].outputs[0].text == "42 blocks\n"
    assert flaws(stored) == []
    assert "in no output: 43 blocks" in capsys.readouterr().out


def test_a_failing_cell_leaves_the_file_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.ipynb"
    notebooks.write(build(v4.new_code_cell("1 / 0")), path)
    before = path.read_bytes()
    assert notebooks.main([str(tmp_path)]) == 1
    assert path.read_bytes() == before
    assert "ZeroDivisionError" in capsys.readouterr().out


def test_checkpoints_are_no_notebooks(tmp_path: Path) -> None:
    (tmp_path / ".ipynb_checkpoints").mkdir()
    for name in ("b.ipynb", "a.ipynb", ".ipynb_checkpoints/a.ipynb"):
        (tmp_path / name).touch()
    assert [path.name for path in notebooks.find([tmp_path])] == ["a.ipynb", "b.ipynb"]
    assert notebooks.find([tmp_path / "b.ipynb"]) == [tmp_path / "b.ipynb"]
