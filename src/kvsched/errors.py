"""The one error a user can cause: it names the place, the value and the fix."""

from __future__ import annotations

import re
from collections.abc import Mapping


class InputError(ValueError):
    """Input that cannot be used.

    ``place`` says where (file, line, field), ``problem`` what was found there, ``fix`` what to
    write instead. The command line prints the three on one line and exits with status 2.
    """

    def __init__(self, place: str, problem: str, fix: str) -> None:
        super().__init__(f"{place}: {problem}; {fix}")
        self.place = place
        self.problem = problem
        self.fix = fix

    def inside(self, outer: str) -> InputError:
        """The same error seen from one level further out: the file that holds the field."""
        return type(self)(f"{outer}: {self.place}", self.problem, self.fix)

    def called(self, names: Mapping[str, str]) -> InputError:
        """The same error with fields called as the user knows them, in the place and the words.

        A field whose name is one plain word is one in the place alone: elsewhere it is English.
        """

        def said(text: str) -> str:
            return re.sub(r"\w+_\w+", lambda found: names.get(found[0], found[0]), text)

        place = names.get(self.place, said(self.place))
        return type(self)(place, said(self.problem), said(self.fix))
