"""Every stored notebook keeps the rules, and each rule finds what it is there for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from kvsched.book import hygiene, notebooks

ROOT = Path(__file__).parents[2]
STORED = notebooks.find([ROOT / "book", ROOT / "labs"])
v4 = nbformat.v4


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_stored_notebook(path: Path) -> None:
    found = [f"{path.relative_to(ROOT)}: {flaw}" for flaw in hygiene.flaws(notebooks.read(path))]
    assert found == []


def test_there_are_notebooks() -> None:
    assert STORED


def figure(**mystnb: Any) -> Any:
    output = v4.new_output("display_data", {"text/plain": "<Figure size 640x480 with 1 Axes>"})
    cell = v4.new_code_cell("draw()", outputs=[output])
    cell.metadata = nbformat.from_dict({"mystnb": mystnb} if mystnb else {})
    return cell


def printed(text: str, **stream: str) -> Any:
    return v4.new_code_cell("run()", outputs=[v4.new_output("stream", text=text, **stream)])


def clean(*cells: Any) -> Any:
    notebook = v4.new_notebook(cells=list(cells))
    notebooks.normalise(notebook)
    for number, cell in enumerate((c for c in cells if c.cell_type == "code"), 1):
        cell.execution_count = number
    return notebook


ALT, NAME = {"alt": "A line rises."}, "fig-x"


@pytest.mark.parametrize(
    ("cell", "problem"),
    [
        (figure(), "without alt text"),
        (figure(image=ALT, figure={"caption": "A line.", "name": ""}), "without a name"),
        (figure(image=ALT, figure={"caption": "A line", "name": NAME}), "is no sentence"),
        (printed("/home/me/book/a.png"), "is a path of one machine"),
        (printed("C:\\book"), "is a path of one machine"),
        (printed("careful", name="stderr"), "writes to stderr"),
        (printed("x" * 150_000), "bytes of output"),
        (v4.new_code_cell("\n".join("a" * 41)), "41 lines"),
        (v4.new_code_cell("a\n" * 9), "median of 9 lines"),
        (v4.new_code_cell("ax.plot(x);"), "hides nothing"),
        (v4.new_code_cell("x", metadata={"tags": ["nbval-skip"]}), "tag nbval-skip"),
        (
            v4.new_code_cell("x", outputs=[v4.new_output("error", ename="KeyError")]),
            "raises KeyError",
        ),
        (
            v4.new_markdown_cell("[a](https://github.com/vllm-project/vllm/blob/main/vllm/a.py)"),
            "not at the pinned tag",
        ),
        (
            v4.new_markdown_cell("![](attachment:a.png)", attachments={"a.png": {}}),
            "attached image",
        ),
    ],
)
def test_a_flaw_is_found(cell: Any, problem: str) -> None:
    found = [str(flaw) for flaw in hygiene.flaws(clean(cell))]
    assert any(problem in flaw for flaw in found), found


def test_a_described_figure_is_clean() -> None:
    described = {"image": ALT, "figure": {"caption": "A line rises.", "name": NAME}}
    assert hygiene.flaws(clean(figure(**described))) == []


def test_an_announced_error_is_clean() -> None:
    cell = v4.new_code_cell("1 / 0", outputs=[v4.new_output("error", ename="ZeroDivisionError")])
    cell.metadata = nbformat.from_dict({"tags": ["raises-exception"]})
    assert hygiene.flaws(clean(cell)) == []


def test_a_cell_run_out_of_order_is_found() -> None:
    notebook = clean(v4.new_code_cell("a"), v4.new_code_cell("b"))
    notebook.cells[0].execution_count, notebook.cells[1].execution_count = 2, 1
    assert [flaw.problem for flaw in hygiene.flaws(notebook)] == [
        "run as 2, not 1",
        "run as 1, not 2",
    ]


def test_an_editors_traces_are_found() -> None:
    notebook = clean(figure(image=ALT, figure={"caption": "A line.", "name": NAME}))
    notebook.metadata["vscode"] = {}
    notebook.cells[0].outputs[0].data["image/png"] = "iVBOR"
    problems = " ".join(flaw.problem for flaw in hygiene.flaws(notebook))
    assert "metadata is not the house's" in problems
    assert "image/png is stored" in problems
    assert "not in normal form" in problems
