"""What a stored notebook must look like. `tests/book/test_hygiene.py` asks it of every one."""

from __future__ import annotations

import copy
import json
import re
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kvsched.book.notebooks import DROPPED_MIMES, METADATA, normalise
from kvsched.sources import ENGINES

MEDIAN_LINES = 8
MOST_LINES = 40
OUTPUT_BYTES = 150_000
FORBIDDEN_TAGS = ("nbval-skip", "skip-execution")
MACHINE_PATH = re.compile(
    r"(?<![\w.:/])/(?:home|Users|root|tmp|var|mnt|work|private|content)/[\w.-]|\b[A-Z]:\\+\w"
)


@dataclass(frozen=True, slots=True)
class Flaw:
    """What is wrong, in which cell, and what to do about it."""

    cell: str
    problem: str
    fix: str

    def __str__(self) -> str:
        return f"cell {self.cell}: {self.problem}; {self.fix}"


def flaws(notebook: Any) -> list[Flaw]:
    """Every rule's findings, in the order of the rules."""
    return [flaw for rule in RULES for flaw in rule(notebook)]


def _code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def python_kernel(notebook: Any) -> Iterator[Flaw]:
    """The kernel is python3, and no editor's metadata is stored."""
    if notebook.metadata != METADATA:
        yield Flaw("-", "the notebook's metadata is not the house's", "run `make notebooks`")


def no_images(notebook: Any) -> Iterator[Flaw]:
    """The book draws figures anew; none is stored."""
    for cell in notebook.cells:
        if "attachments" in cell:
            yield Flaw(cell.id, "an attached image is stored", "draw it in a cell")
        for output in cell.get("outputs", []):
            for mime in DROPPED_MIMES:
                if mime in output.get("data", {}):
                    yield Flaw(cell.id, f"{mime} is stored", "run `make notebooks`")


def normal_form(notebook: Any) -> Iterator[Flaw]:
    """The stored form is the one that `make notebooks` writes."""
    normal = copy.deepcopy(notebook)
    normalise(normal)
    if normal != notebook:
        yield Flaw("-", "not in normal form", "run `make notebooks`")


def run_in_order(notebook: Any) -> Iterator[Flaw]:
    """Every cell was run once, from top to bottom, without an error or a warning."""
    for number, cell in enumerate(_code(notebook), 1):
        if cell.execution_count != number:
            yield Flaw(cell.id, f"run as {cell.execution_count}, not {number}", "`make notebooks`")
        for output in cell.outputs:
            if output.output_type == "error" and "raises-exception" not in _tags(cell):
                yield Flaw(cell.id, f"raises {output.ename}", "repair it, or tag raises-exception")
            if output.get("name") == "stderr":
                yield Flaw(cell.id, "writes to stderr", "remove what it warns of")


def figures_described(notebook: Any) -> Iterator[Flaw]:
    """A figure has alt text, a name to refer to, and a caption of whole sentences."""
    for cell in _code(notebook):
        texts = [output.get("data", {}).get("text/plain", "") for output in cell.outputs]
        if not any(text.startswith("<Figure size") for text in texts):
            continue
        mystnb = cell.metadata.get("mystnb", {})
        caption = mystnb.get("figure", {}).get("caption", "")
        wanted = "set mystnb.image.alt, mystnb.figure.caption and mystnb.figure.name"
        if not mystnb.get("image", {}).get("alt"):
            yield Flaw(cell.id, "a figure without alt text", wanted)
        if not mystnb.get("figure", {}).get("name"):
            yield Flaw(cell.id, "a figure without a name", wanted)
        if not caption.rstrip().endswith("."):
            yield Flaw(cell.id, f"the caption {caption!r} is no sentence", wanted)


def no_machine_paths(notebook: Any) -> Iterator[Flaw]:
    """Nothing stored names a folder of the machine it was made on."""
    for cell in notebook.cells:
        stored = [cell.source, json.dumps(cell.get("outputs", []))]
        for match in filter(None, map(MACHINE_PATH.search, stored)):
            yield Flaw(cell.id, f"{match[0]!r} is a path of one machine", "print a relative path")


def short_cells(notebook: Any) -> Iterator[Flaw]:
    """Code cells are short, most of them very short; longer code has a place in src/."""
    lines = {cell.id: len(cell.source.splitlines()) for cell in _code(notebook)}
    for cell, count in lines.items():
        if count > MOST_LINES:
            yield Flaw(cell, f"{count} lines, at most {MOST_LINES}", "move code to src/")
    if lines and statistics.median(lines.values()) > MEDIAN_LINES:
        median = statistics.median(lines.values())
        yield Flaw("-", f"median of {median} lines, at most {MEDIAN_LINES}", "move code to src/")


def small_outputs(notebook: Any) -> Iterator[Flaw]:
    """What is long is computed, not stored."""
    for cell in _code(notebook):
        size = len(json.dumps(cell.outputs).encode())
        if size > OUTPUT_BYTES:
            yield Flaw(cell.id, f"{size} bytes of output, at most {OUTPUT_BYTES}", "show less")


def comparable(notebook: Any) -> Iterator[Flaw]:
    """The strict comparison sees every cell, and sees the same as the book."""
    for cell in _code(notebook):
        for tag in FORBIDDEN_TAGS:
            if tag in _tags(cell):
                yield Flaw(cell.id, f"tag {tag}", "every cell runs everywhere; remove the tag")
        if cell.source.rstrip().endswith(";"):
            yield Flaw(cell.id, "ends in `;`, which hides nothing here", "end with `_ = …`")


def pinned_links(notebook: Any) -> Iterator[Flaw]:
    """A link into an engine's source names the pinned tag."""
    for cell in notebook.cells:
        for engine in ENGINES:
            for link in re.findall(rf"{engine.repository}/(?:blob|tree)/\S+", cell.source):
                if not link.startswith(engine.blob):
                    yield Flaw(cell.id, f"{link} is not at the pinned tag", f"use {engine.blob}")


def _tags(cell: Any) -> list[str]:
    tags: list[str] = cell.metadata.get("tags", [])
    return tags


RULES: tuple[Callable[[Any], Iterator[Flaw]], ...] = (
    python_kernel,
    no_images,
    normal_form,
    run_in_order,
    figures_described,
    no_machine_paths,
    short_cells,
    small_outputs,
    comparable,
    pinned_links,
)
