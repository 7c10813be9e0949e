"""The one error a user can cause: it names the place, the value and the fix."""

from __future__ import annotations


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
