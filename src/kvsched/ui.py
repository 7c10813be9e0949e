"""What the command line shows beside plain text: a progress bar, a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

T = TypeVar("T")


def progress(items: Iterable[T], label: str, total: int | None = None) -> Iterator[T]:
    """The items, with a bar on standard error while they come, if that is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns,
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    ) as bar:
        yield from bar.track(items, total=total, description=label)


def print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """The rows on standard output, under the names of the first row's fields."""
    table = Table(box=None, pad_edge=False)
    for name, value in rows[0].items():
        table.add_column(name, justify="left" if isinstance(value, str) else "right")
    for row in rows:
        table.add_row(*map(str, row.values()))
    console = Console()
    whole = console.measure(table, options=console.options.update(max_width=1000)).maximum
    console.width = max(console.width, whole)  # nothing is cut off; a narrow terminal wraps
    console.print(table)
