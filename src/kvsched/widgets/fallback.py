"""What stands in the page before any script runs, and stays if none does.

The figure as SVG, the sentence, the caption, and everything the figure shows as a table. The
front end takes the state from the JSON beside them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from kvsched.views import Table


def html(state: Mapping[str, Any], figure: str, table: Table) -> str:
    """The `<figure>` of a widget; equal states give equal bytes."""
    data = state["data"]
    return (
        f'<figure class="kv-widget" id="widget-{escape(state["name"])}">'
        f'<div class="kv-stage"><p class="kv-sentence">{escape(data["sentence"], quote=False)}</p>'
        f"{figure}{_details(table)}</div>"
        f'<figcaption class="kv-caption">{escape(data["caption"], quote=False)}</figcaption>'
        f'<script type="application/json">{_inert(state)}</script>'
        "</figure>"
    )


def _inert(state: Mapping[str, Any]) -> str:
    """JSON in which nothing can end the script element that holds it."""
    text = json.dumps(state, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _details(table: Table) -> str:
    head = "".join(f"<th>{escape(name, quote=False)}</th>" for name in table.head)
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    return (
        f'<details class="kv-table"><summary>{escape(table.title, quote=False)}</summary>'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></details>"
    )


def _cell(cell: str | tuple[str, str]) -> str:
    if isinstance(cell, str):
        return f"<td>{escape(cell, quote=False)}</td>"
    text, address = cell
    return f'<td><a href="{escape(address)}">{escape(text, quote=False)}</a></td>'
