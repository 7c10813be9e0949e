"""One widget for every view: in a kernel the front end asks it, on a page it is already there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anywidget
import traitlets as t

from kvsched.views import find, reply
from kvsched.widgets import assets
from kvsched.widgets.fallback import html


class Widget(anywidget.AnyWidget):  # type: ignore[misc, unused-ignore]
    """A view with its controls.

    ``state`` is all that a front end needs to start. ``ask`` is its latest question, a serial
    number and parameters; ``reply`` answers it under the same number.
    """

    _esm = t.Unicode(assets.module()).tag(sync=True)
    _css = t.Unicode(assets.kernel_style()).tag(sync=True)
    state = t.Dict().tag(sync=True)
    figure = t.Unicode().tag(sync=True)
    ask = t.Dict().tag(sync=True)
    reply = t.Dict().tag(sync=True)

    def __init__(
        self, view: str, name: str, params: Mapping[str, Any], selection: Mapping[str, Any]
    ) -> None:
        found = find(view)
        checked, selected = found.checked(params), found.selected(selection)
        data = found(**checked)
        self.table = found.table(data)
        super().__init__(
            state={
                "name": name,
                "view": view,
                "renderer": found.renderer,
                "label": found.label,
                "controls": [param.control() for param in found.params],
                "params": checked,
                "selection": selected,
                "data": data,
            },
            figure=found.draw(data, selected),
        )

    @t.observe("ask")
    def _answer(self, change: Any) -> None:
        ask = change.new
        answer = reply(self.state["view"], ask["params"], ask["selection"])
        self.reply = {"serial": ask["serial"], "params": ask["params"], **answer}

    def __repr__(self) -> str:
        return f"{self.state['label']}: {self.state['data']['sentence']}"

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = super()._repr_mimebundle_(**options) or ({}, {})
        text = {"text/plain": repr(self), "text/html": html(self.state, self.figure, self.table)}
        return {**data, **text}, metadata


def widget(
    view: str, *, name: str = "", selection: Mapping[str, Any] | None = None, **params: Any
) -> Widget:
    """The widget of a view, with its parameters and what is selected at first.

    ``name`` is its place in the page's address; give one where a page shows a view twice.
    InputError names an unknown view, parameter or selection.
    """
    return Widget(view, name or view, params, selection or {})
