"""`make notebooks`: make each lab's starter from its solution, by nbgrader's markers.

The lab with its solutions is the source. What stands between ``### BEGIN SOLUTION`` and
``### END SOLUTION`` in a code cell becomes a stub; outputs go. Everything else, checks included,
is the same in both.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvsched.book import notebooks
from kvsched.errors import InputError

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
STUB = ("# YOUR CODE HERE", "raise NotImplementedError()")


def path_of_starter(solution: Path) -> Path:
    """Where a lab's starter is stored."""
    return solution.parent / notebooks.STARTERS / solution.name


def starter(solution: Any) -> Any:
    """The notebook a reader begins with; the solution is unchanged."""
    notebook = copy.deepcopy(solution)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = "\n".join(_without_solutions(cell.source, cell.id))
            cell.outputs, cell.execution_count = [], None
    notebooks.normalise(notebook)
    return notebook


def _without_solutions(source: str, cell: str) -> Iterator[str]:
    """The lines, each solution replaced by a stub as far indented as its first marker.

    Raises InputError: a marker without its other half, or one inside another's solution.
    """
    inside = False
    for line in source.splitlines():
        marker = line.strip()
        if marker in (BEGIN, END):
            if (marker == BEGIN) == inside:
                raise InputError(f"cell {cell}", f"{marker} out of place", "pair BEGIN with END")
            inside = marker == BEGIN
            if inside:
                indent = line[: len(line) - len(line.lstrip())]
                yield from (indent + text for text in STUB)
        elif not inside:
            yield line
    if inside:
        raise InputError(f"cell {cell}", f"{BEGIN} has no end", f"add {END}")


def main(places: list[str]) -> int:
    """Store the starter of every lab in these folders."""
    for solution in notebooks.find(map(Path, places)):
        path = path_of_starter(solution)
        path.parent.mkdir(exist_ok=True)
        notebooks.write(starter(notebooks.read(solution)), path)
        sys.stdout.write(f"{path}: stored\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
