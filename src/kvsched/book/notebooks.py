"""`make notebooks`: run every notebook from top to bottom and store it in its normal form.

The normal form keeps text outputs, for the strict comparison, and cell ids, for small diffs. It
drops figures (the book draws them again), widget views and all that an editor leaves behind.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from rich.console import Console
from rich.progress import track
from rich.text import Text

from kvsched.book.numerals import unexplained
from kvsched.book.streams import joined

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
CELL_METADATA = ("mystnb", "tags")
DROPPED_MIMES = (
    "image/png",
    "image/jpeg",
    "image/svg+xml",
    "application/pdf",
    "application/vnd.jupyter.widget-view+json",
)
TIMEOUT_S = 120
STARTERS = "starters"
"""The folder of the labs' starters, which are made and do not run through."""


def find(places: Iterable[Path]) -> list[Path]:
    """The notebooks named, and those under folders, checkpoints and starters left out."""
    found = (
        path
        for place in places
        for path in (place.rglob("*.ipynb") if place.is_dir() else (place,))
    )
    left_out = {".ipynb_checkpoints", STARTERS}
    return sorted(path for path in found if left_out.isdisjoint(path.parts))


def read(path: Path) -> Any:
    """The notebook, in format 4."""
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def write(notebook: Any, path: Path) -> None:
    """Store the notebook as nbformat spells it, one line of source a line of JSON."""
    nbformat.write(notebook, path)  # type: ignore[no-untyped-call]


def execute(notebook: Any, folder: Path) -> None:
    """Run all cells in a fresh kernel whose working folder is the notebook's own."""
    NotebookClient(
        notebook,
        timeout=TIMEOUT_S,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    ).execute()


def normalise(notebook: Any) -> None:
    """Bring the notebook into its normal form, in place; doing so twice changes nothing."""
    notebook.metadata = nbformat.from_dict(METADATA)  # type: ignore[no-untyped-call]
    notebook.nbformat_minor = 5
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict(  # type: ignore[no-untyped-call]
            {key: cell.metadata[key] for key in CELL_METADATA if cell.metadata.get(key)}
        )
        if cell.cell_type == "code":
            cell.outputs = joined(_without_figures(cell.outputs))


def _without_figures(outputs: list[Any]) -> list[Any]:
    """The outputs, text and data without pictures."""
    kept: list[Any] = []
    for output in outputs:
        if output.output_type in ("display_data", "execute_result"):
            for mime in DROPPED_MIMES:
                output.data.pop(mime, None)
            output.metadata.clear()
            if not output.data:
                continue
        kept.append(output)
    return kept


def main(places: list[str]) -> int:
    """Run and store the notebooks; list what in their prose no output explains."""
    console = Console()
    paths = find(map(Path, places))
    for path in track(paths, "notebooks", console=console, transient=True):
        notebook = read(path)
        try:
            execute(notebook, path.parent)
        except CellExecutionError as error:
            console.print(f"error: {path}: a cell failed; the file is unchanged", style="red")
            console.print(Text.from_ansi(str(error)), soft_wrap=True)
            return 1
        normalise(notebook)
        write(notebook, path)
        console.print(f"{path}: stored", highlight=False)
        for numeral in unexplained(notebook):
            console.print(f"  in no output: {numeral}", highlight=False, markup=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
