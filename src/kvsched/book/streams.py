"""What a cell prints comes in pieces, cut where the kernel happened to send; here it is whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

Outputs = list[Any]


def joined(outputs: Iterable[Any]) -> Outputs:
    """The outputs, with neighbouring pieces of one stream put together as they were printed."""
    kept: Outputs = []
    for output in outputs:
        last = kept[-1] if kept else None
        if output.output_type == "stream" and last is not None and last.get("name") == output.name:
            last.text += output.text
        else:
            kept.append(output)
    return kept


def joined_first(coalesce: Callable[[Outputs], Outputs]) -> Callable[[Outputs], Outputs]:
    """MyST-NB's merging, which ends every piece with a new line, given whole streams."""
    return lambda outputs: coalesce(joined(outputs))
