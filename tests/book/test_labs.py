"""The starters: what the reader begins with is made from the solution, and leaves only that out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from kvsched.book import labs, notebooks
from kvsched.errors import InputError

ROOT = Path(__file__).parents[2]
SOLUTIONS = notebooks.find([ROOT / "labs"])
v4 = nbformat.v4

SOLVED = """\
def double(x):
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION


print(double(2))"""
STARTED = """\
def double(x):
    # YOUR CODE HERE
    raise NotImplementedError()


print(double(2))"""


def lab(*sources: str) -> Any:
    outputs = [v4.new_output("stream", text="4\n")]
    cells = [v4.new_code_cell(source, outputs=outputs, execution_count=1) for source in sources]
    return v4.new_notebook(cells=[v4.new_markdown_cell("Twice."), *cells])


def run_through(notebook: Any) -> None:
    names: dict[str, Any] = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            exec(compile(cell.source, cell.id, "exec"), names)


def test_a_solution_becomes_a_stub_and_its_output_goes() -> None:
    solution = lab(SOLVED)
    made = labs.starter(solution)
    text, cell = made.cells
    assert (text.source, cell.source) == ("Twice.", STARTED)
    assert (cell.outputs, cell.execution_count) == ([], None)
    assert solution.cells[1].source == SOLVED


def test_the_rest_is_the_same() -> None:
    solution = lab("x = 1", SOLVED)
    made = labs.starter(solution)
    assert made.cells[1].source == "x = 1"
    assert [cell.id for cell in made.cells] == [cell.id for cell in solution.cells]


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (f"{labs.BEGIN}\nx = 1", "has no end"),
        (f"x = 1\n{labs.END}", "END SOLUTION out of place"),
        (f"{labs.BEGIN}\n{labs.BEGIN}\n{labs.END}", "BEGIN SOLUTION out of place"),
    ],
)
def test_a_marker_without_its_half_is_refused(source: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        labs.starter(lab(source))


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
class TestStored:
    """Every lab."""

    def test_its_starter_is_what_the_generator_makes(self, path: Path) -> None:
        stored = notebooks.read(labs.path_of_starter(path))
        made = labs.starter(notebooks.read(path))
        assert stored == made, "run `make notebooks`"

    def test_its_starter_runs_to_the_first_stub(self, path: Path) -> None:
        with pytest.raises(NotImplementedError):
            run_through(notebooks.read(labs.path_of_starter(path)))

    def test_it_says_how_long_it_takes_and_checks_the_reader(self, path: Path) -> None:
        notebook = notebooks.read(path)
        text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
        assert "minutes" in text
        assert "## Check yourself" in text
        assert any(cell.source.startswith("assert") for cell in notebook.cells)


def test_no_starter_is_left_over() -> None:
    stored = {path.name for path in (ROOT / "labs" / notebooks.STARTERS).glob("*.ipynb")}
    assert stored == {path.name for path in SOLUTIONS}
