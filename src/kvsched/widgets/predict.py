"""`predict(question, answer=…)`: the reader commits to a number or a choice, then sees.

Plain HTML: the answer stands in a fold that opens once something is entered, and no script is
needed. Where one runs, on a page as in a kernel's front end, it adds the button, the lock and the
gap between guess and answer. No kernel is asked; the guess is kept nowhere; nothing waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import anywidget
import traitlets as t

from kvsched.errors import InputError
from kvsched.widgets import assets

_STYLE = (
    "<style>.kv-predict>details{visibility:hidden}"
    ".kv-predict:has(input:checked)>details,"
    ".kv-predict:has(input[type=number]:valid)>details{visibility:visible}</style>"
)
_KEYS = 'onkeydown="event.stopPropagation()"'
"""JupyterLab would take the arrow keys off the controls."""


class Prediction(anywidget.AnyWidget):  # type: ignore[misc, unused-ignore]
    """A question and the HTML that asks it, for a kernel's front end and for a page."""

    _esm = t.Unicode(assets.prediction()).tag(sync=True)
    _css = t.Unicode(assets.kernel_style()).tag(sync=True)
    html = t.Unicode().tag(sync=True)

    def __init__(self, question: str, html: str) -> None:
        self.question = question
        super().__init__(html=html)

    def __repr__(self) -> str:
        return f"Predict: {self.question}"

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = super()._repr_mimebundle_(**options) or ({}, {})
        return {**data, "text/plain": repr(self), "text/html": self.html}, metadata


def predict(
    question: str,
    *,
    answer: float | str,
    reveal: str = "",
    unit: str = "",
    choices: Sequence[str] = (),
) -> Prediction:
    """Ask for a guess before ``answer`` is shown; ``reveal`` says why it is so.

    With ``choices`` the reader picks one of them, else enters a number of ``unit``. InputError if
    the answer is not among the choices, or is no number where there are none.
    """
    if choices and answer not in choices:
        raise InputError("predict()", f"{answer!r} is no choice", f"one of {', '.join(choices)}")
    if not choices and (isinstance(answer, bool) or not isinstance(answer, int | float)):
        raise InputError("predict()", f"{answer!r} is no number", "give a number, or choices")
    html = _html(question, answer, reveal, unit, choices)
    return Prediction(question, html)


def _html(
    question: str, answer: float | str, reveal: str, unit: str, choices: Sequence[str]
) -> str:
    given = escape(str(answer))
    kind = "choice" if choices else "number"
    words = " ".join(filter(None, (str(answer), unit)))
    return (
        f'<div class="kv-predict" role="group" data-kind="{kind}" data-answer="{given}" '
        f'data-unit="{escape(unit)}" {_KEYS}>{_STYLE}'
        f'<p class="kv-question">{escape(question, quote=False)}</p>'
        f"{_choices(question, choices) if choices else _number(unit)}"
        f"<details><summary>Show the answer</summary><p><b>{escape(words, quote=False)}.</b> "
        f"{escape(reveal, quote=False)}</p></details></div>"
    )


def _number(unit: str) -> str:
    word = f" {escape(unit, quote=False)}" if unit else ""
    return (
        '<label>Your guess <input type="number" step="any" required '
        f'autocomplete="off">{word}</label>'
    )


def _choices(question: str, choices: Sequence[str]) -> str:
    name = escape(f"predict-{question}")
    rows = "".join(
        f'<label><input type="radio" name="{name}" value="{escape(choice)}" '
        f'autocomplete="off"> {escape(choice, quote=False)}</label>'
        for choice in choices
    )
    return f'<div class="kv-choices">{rows}</div>'
