"""Views by name: what the book's figures and widgets show, computed from a run or a table.

The same functions run in a kernel, while the book is built, and in the reader's browser. A view
is imported when it is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from kvsched.errors import InputError
from kvsched.views.view import Data, Selection, Table, View

__all__ = ["VIEWS", "Data", "Selection", "Table", "View", "find", "line", "parity", "reply"]

VIEWS: Mapping[str, str] = {
    "adder": "kvsched.views.adder",
    "admission": "kvsched.views.admission",
    "crossover": "kvsched.views.crossover",
    "lifecycle": "kvsched.views.lifecycle",
    "measured": "kvsched.views.measured",
    "feedback": "kvsched.views.feedback",
    "ordering": "kvsched.views.ordering",
    "pair": "kvsched.views.pair",
    "preemption": "kvsched.views.preemption",
    "replayed": "kvsched.views.replayed",
    "reservations": "kvsched.views.reservations",
    "same_answer": "kvsched.views.same_answer",
    "starvation": "kvsched.views.starvation",
    "states": "kvsched.views.states",
    "storm": "kvsched.views.storm",
    "tour": "kvsched.views.tour",
    "two_lines": "kvsched.views.two_lines",
    "watermark": "kvsched.views.watermark",
}
"""The module of each view, which it calls ``VIEW``."""


def find(name: str) -> View:
    """The view of this name; InputError lists those there are."""
    if name not in VIEWS:
        raise InputError(f"view {name!r}", "no such view", f"known: {', '.join(VIEWS)}")
    view: View = import_module(VIEWS[name]).VIEW
    return view


def reply(view: str, params: Mapping[str, Any], selection: Selection) -> dict[str, Any]:
    """What a front end gets when it asks: ``data`` and its ``figure``, or the ``error`` to show."""
    try:
        found = find(view)
        data = found(**params)
        return {"data": data, "figure": found.draw(data, found.selected(selection))}
    except InputError as error:
        return {"error": str(error)}


def line(view: str, params: Mapping[str, Any]) -> str:
    """A view's reply as one line of JSON."""
    told = {"view": view, "params": params, **reply(view, params, {})}
    return json.dumps(told, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def parity() -> Iterator[str]:
    """Every view's replies at its defaults and extremes, a line each, to compare Pythons by."""
    for name in VIEWS:
        for params in find(name).samples():
            yield line(name, params)
