"""`predict(question, answer=…)`: the reader commits to a number or a choice, then sees.

Plain HTML: the answer stands in a fold that opens once something is entered. No script and no
kernel are needed; on a page, a script adds the button, the lock and the gap between guess and
answer. The guess is kept nowhere else and nothing waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from kvsched.errors import InputError

_STYLE = (
    "<style>.kv-predict>details{visibility:hidden}"
    ".kv-predict:has(input:checked)>details,"
    ".kv-predict:has(input[type=number]:valid)>details{visibility:visible}</style>"
)
_KEYS = 'onkeydown="event.stopPropagation()"'
"""JupyterLab would take the arrow keys off the controls."""


@dataclass(frozen=True, slots=True, repr=False)
class Prediction:
    """A question with its answer; ``choices`` empty for a number."""

    question: str
    answer: float | str
    reveal: str
    unit: str
    choices: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Predict: {self.question}"

    def _repr_html_(self) -> str:
        given = escape(str(self.answer))
        kind = "choice" if self.choices else "number"
        answer = " ".join(filter(None, (str(self.answer), self.unit)))
        return (
            f'<div class="kv-predict" role="group" data-kind="{kind}" data-answer="{given}" '
            f'data-unit="{escape(self.unit)}" {_KEYS}>{_STYLE}'
            f'<p class="kv-question">{escape(self.question, quote=False)}</p>'
            f"{self._choices() if self.choices else self._number()}"
            f"<details><summary>Show the answer</summary><p><b>{escape(answer, quote=False)}.</b> "
            f"{escape(self.reveal, quote=False)}</p></details></div>"
        )

    def _number(self) -> str:
        unit = f" {escape(self.unit, quote=False)}" if self.unit else ""
        return (
            '<label>Your guess <input type="number" step="any" required '
            f'autocomplete="off">{unit}</label>'
        )

    def _choices(self) -> str:
        name = escape(f"predict-{self.question}")
        rows = "".join(
            f'<label><input type="radio" name="{name}" value="{escape(choice)}" '
            f'autocomplete="off"> {escape(choice, quote=False)}</label>'
            for choice in self.choices
        )
        return f'<div class="kv-choices">{rows}</div>'


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
    return Prediction(question, answer, reveal, unit, tuple(choices))
