"""A view: a function from parameters to one JSON-able dict, and what is drawn from that dict.

Widget, figure, caption and alt text all read the dict. Besides what its renderer needs it has
``sentence`` (what a picture cannot say), ``caption`` (whole sentences) and ``alt``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kvsched.errors import InputError
from kvsched.views.params import Param

Data = dict[str, Any]
Selection = Mapping[str, Any]


class Table(NamedTuple):
    """Everything the figure shows, as text. A cell is text, or text and an address."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str | tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class View:
    """A registered view.

    ``renderer`` names the front end's part that shows it. ``selection`` is where the reader looks
    at first: it changes what is marked, never what is computed. ``draw`` makes the figure as SVG
    and ``table`` the same content as text.
    """

    name: str
    renderer: str
    label: str
    compute: Callable[..., Data]
    draw: Callable[[Data, Selection], str]
    table: Callable[[Data], Table]
    params: tuple[Param, ...] = ()
    selection: Mapping[str, Any] | None = None

    def __call__(self, **given: Any) -> Data:
        """Run with checked parameters; those not given take their defaults."""
        return self.compute(**self.checked(given))

    def checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Every parameter's value; InputError names an unknown one or a bad value."""
        names = [param.name for param in self.params]
        for name in given:
            if name not in names:
                known = ", ".join(names) or "none"
                raise InputError(f"view {self.name}", f"no parameter {name!r}", f"known: {known}")
        try:
            return {p.name: p.check(given.get(p.name, p.default)) for p in self.params}
        except InputError as error:
            raise error.inside(f"view {self.name}") from None

    def selected(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The selection with these entries; InputError names one that the view does not have."""
        at_first = dict(self.selection or {})
        for name in given:
            if name not in at_first:
                known = ", ".join(at_first) or "none"
                raise InputError(f"view {self.name}", f"nothing to select {name!r}", known)
        return at_first | dict(given)

    def samples(self) -> Iterator[dict[str, Any]]:
        """The defaults, then each parameter at each of its extremes, the others at defaults."""
        yield self.checked({})
        for param in self.params:
            for value in param.extremes:
                yield self.checked({param.name: value})
