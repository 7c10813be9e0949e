"""What goes wrong when one thing is not restored: each class breaks one method of the executor."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from kvsched.device.tiny.executor import Part, TinyExecutor
from kvsched.device.tiny.sequence import Sequence as Kept


class PendingAgain(TinyExecutor):
    """The last token given out was not kept as given: the client gets it a second time."""

    def sample(self, part: Part, logits: Tensor) -> list[int]:
        if part.recovers and part.known > len(part.kept.prompt.tokens):
            return [part.kept.tokens[part.known - 1]]
        return super().sample(part, logits)


class PositionsFromZero(TinyExecutor):
    """Each pass of the recovery counts its positions from 0, not from what is there."""

    def positions(self, part: Part) -> range:
        return range(part.tokens) if part.recovers else super().positions(part)


class NoMask(TinyExecutor):
    """The recovery is masked as a decode is: not at all."""

    def causal(self, part: Part) -> bool:
        return not part.recovers and super().causal(part)


class StaleTable(TinyExecutor):
    """New pages are added to the old table instead of taking its place."""

    def table(self, part: Part) -> Sequence[int]:
        old = self.tables.get(part.kept.prompt.id, ())
        return [*old, *part.table[len(old) :]]


class AdapterLost(TinyExecutor):
    """The adapter went with the place in the batch: what comes back runs on the base model."""

    def preempted(self, kept: Kept) -> None:
        kept.adapter = 0


class GeneratorLost(TinyExecutor):
    """The generator went with the place in the batch, and is seeded again."""

    def preempted(self, kept: Kept) -> None:
        kept.seed_again()


class GuessesKept(TinyExecutor):
    """Guesses that nobody verified stand in the history as if they had been accepted."""

    def accept(self, part: Part, new: list[int]) -> None:
        if part.recovers:
            part.kept.tokens += part.kept.guesses
            part.kept.tokens += new
        else:
            super().accept(part, new)


FAULTS: dict[str, type[TinyExecutor]] = {
    "nothing": TinyExecutor,
    "pending token": PendingAgain,
    "positions": PositionsFromZero,
    "mask": NoMask,
    "block table": StaleTable,
    "adapter": AdapterLost,
    "generator": GeneratorLost,
    "guesses": GuessesKept,
}
"""What is not restored, and the executor that does not."""
