"""Outputs that read as prose on the page and as text in the stored notebook."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kvsched.conform.recording import Recording
from kvsched.conform.replay import replay
from kvsched.explain import explain_step
from kvsched.log import Log


@dataclass(frozen=True, slots=True, repr=False)
class Told:
    """Sentences by step."""

    steps: tuple[tuple[int, tuple[str, ...]], ...]

    def __repr__(self) -> str:
        return "\n".join(f"step {step}: {text}" for step, texts in self.steps for text in texts)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<dt>step {step}</dt>{''.join(f'<dd>{html.escape(text)}</dd>' for text in texts)}"
            for step, texts in self.steps
        )
        return f'<dl class="kv-told">{rows}</dl>'


def tell(
    run: Recording | Log, steps: Iterable[int], about: str | None = None, most: int | None = None
) -> Told:
    """What happened in these steps and why, of a recording or a log.

    ``about`` keeps the sentences that concern one request, ``most`` that many of a step.
    """
    log = replay(run).log if isinstance(run, Recording) else run
    told = []
    for step in steps:
        sentences = [s.text for s in explain_step(log, step) if about is None or about in s.ids]
        if sentences:
            told.append((step, tuple(sentences[:most])))
    return Told(tuple(told))


@dataclass(frozen=True, slots=True, repr=False)
class Table:
    """Rows under named columns; a number stands right, anything else left."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]

    def __repr__(self) -> str:
        texts = [self.columns, *(tuple(_text(cell) for cell in row) for row in self.rows)]
        widths = [max(len(row[i]) for row in texts) for i in range(len(self.columns))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in texts
        )

    def _repr_html_(self) -> str:
        numeric = [all(isinstance(row[i], int) for row in self.rows) for i in self._indices()]
        head = "".join(
            f'<th scope="col"{_align(right)}>{html.escape(name)}</th>'
            for name, right in zip(self.columns, numeric, strict=True)
        )
        body = "".join(
            "<tr>"
            + "".join(
                f"<td{_align(right)}>{_cell(cell)}</td>"
                for cell, right in zip(row, numeric, strict=True)
            )
            + "</tr>"
            for row in self.rows
        )
        return (
            f'<table class="kv-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        )

    def _indices(self) -> range:
        return range(len(self.columns))


def table(rows: Sequence[Mapping[str, object]]) -> Table:
    """A table of rows that all have the same keys, in the order of the first."""
    columns = tuple(rows[0])
    return Table(columns, tuple(tuple(row[column] for column in columns) for row in rows))


def _text(cell: object) -> str:
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def _cell(cell: object) -> str:
    """Escaped, and breakable after an underscore, where the engines' long names may break."""
    return html.escape(_text(cell)).replace("_", "_<wbr>")


def _align(right: bool) -> str:
    return ' class="kv-number"' if right else ""
