"""Numerals with a unit that stand in a notebook's prose and in none of its outputs.

A reminder for the author, not a check: such a number may be a quotation, or it may have outlived
the run it came from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

UNITS = (
    "%|×|x|µs|us|ns|ms|s|min|h|seconds?|minutes?|hours?|B|kB|MB|GB|TB|KiB|MiB|GiB|TiB|GB/s|tok/s"
    "|tokens?|blocks?|steps?|requests?|slots?|pages?|credits?|preemptions?|FLOPs?|TFLOP/s"
)
_NUMERAL = r"\d[\d,\u202f\u00a0]*(?:\.\d+)?"
_WITH_UNIT = re.compile(rf"(?<![\w.])({_NUMERAL})(?:[ \u00a0\u202f-]?)({UNITS})(?!\w)")
_CODE = re.compile(r"(```|~~~).*?\1|`[^`]*`|\]\([^)]*\)|<https?:[^>]*>|https?:\S+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Numeral:
    """A numeral with its unit, in the cell that says it."""

    cell: str
    text: str

    def __str__(self) -> str:
        return f"{self.text} (cell {self.cell})"


def unexplained(notebook: Any) -> list[Numeral]:
    """The numerals with a unit whose value no output of the same notebook shows."""
    shown = {_value(n) for text in _outputs(notebook) for n in re.findall(_NUMERAL, text)}
    return [
        Numeral(cell.id, f"{match[1]} {match[2]}")
        for cell in notebook.cells
        for text in _prose(cell)
        for match in _WITH_UNIT.finditer(_CODE.sub(" ", text))
        if _value(match[1]) not in shown
    ]


def _prose(cell: Any) -> Iterator[str]:
    """What the reader reads as text: Markdown cells, and the captions and alt texts of figures."""
    if cell.cell_type == "markdown":
        yield cell.source
    mystnb = cell.metadata.get("mystnb", {})
    yield mystnb.get("figure", {}).get("caption", "")
    yield mystnb.get("image", {}).get("alt", "")


def _outputs(notebook: Any) -> Iterator[str]:
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            yield output.get("text", "")
            yield from (text for text in output.get("data", {}).values() if isinstance(text, str))


def _value(numeral: str) -> float:
    return float(re.sub(r"[,\u202f\u00a0]", "", numeral))
