"""A prefill pass in sentences: the adder's budgets, its verdicts, and who gives a place to whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvsched.contract import SLOT
from kvsched.explain.sglang.refusals import why
from kvsched.explain.sglang.words import VERDICTS, pages, some, who, whom
from kvsched.explain.words import chunk, n, tokens
from kvsched.log import Admit, Allocate, Chunk, Resume
from kvsched.sglang import Config
from kvsched.sglang.events import Budgets, Chunked, Continued, Displace, Lose, Offer, Opening
from kvsched.sglang.steps import Iteration


class Admitting:
    """The sentences of an admission pass; ``refused``: whose refusal is among them."""

    def __init__(self, it: Iteration, config: Config) -> None:
        self.it = it
        self.config = config
        self.refused: set[str] = set()
        self.taken = {event.id: event for event in it.of(Allocate)}
        self.tellers: dict[type, Callable[[Any], str | None]] = {
            Opening: self._opening,
            Continued: self._continued,
            Offer: self._offer,
            Displace: self._displacement,
            Lose: self._loss,
            Admit: self._admission,
            Resume: self._admission,
            Chunk: self._chunk,
            Chunked: lambda e: (
                None if e.id is None else f"{who(e.id)} stands between two chunks from now on."
            ),
        }

    def _opening(self, event: Opening) -> str:
        total, _, inputs, piece = event.budgets
        text = (
            f"A prefill pass begins: beyond what everyone who runs is expected to need there are "
            f"{some(total)} tokens of memory; it may compute {tokens(inputs)}"
        )
        return f"{text}." if piece is None else f"{text}, in a chunk of {n(piece)}."

    def _continued(self, event: Continued) -> str:
        begin, end = event.extent
        rest = "its prompt still does not end" if event.truncated else "its prompt ends there"
        text = f"{who(event.id)}, between two chunks, goes first and is never refused: it gets "
        return f"{text}{tokens(end - begin)} from {n(begin)} on, and {rest}."

    def _offer(self, event: Offer) -> str:
        name, end = who(event.id), f"{event.verdict}: {VERDICTS[event.verdict]}."
        if event.extent is None:
            self.refused.add(event.id)
            denial = self.it.denial
            reason = why(denial, self.config) if denial is not None else ""
            return f"{name} is offered to the adder and refused: {reason} {end}"
        begin, until = event.extent
        asked, left = event.asked, event.left
        fits = f" ({n(asked)} < {some(left)})" if asked is not None and left is not None else ""
        return (
            f"{name} is offered to the adder and added{fits} with {tokens(until - begin)} from "
            f"{n(begin)} on; {_left(event.budgets)}. {end}"
        )

    def _displacement(self, event: Displace) -> str | None:
        threshold = self.config.priority_scheduling_preemption_threshold
        if event.victims:
            return (
                f"{who(event.id)} is better by more than {n(threshold)} in priority than "
                f"{whom(event.victims)} and takes the place: {_left(event.budgets)}."
            )
        denial = self.it.denial
        if denial is not None and denial.id == event.id and denial.test == SLOT:
            self.refused.add(event.id)
            return (
                f"{who(event.id)} stays in the queue: {why(denial, self.config)} Those who run "
                f"and are worse by more than {n(threshold)} in priority would not free enough."
            )
        return None

    def _loss(self, event: Lose) -> str:
        return (
            f"{whom(event.ids)} gave way and nobody was admitted: a bug of 0.5.18 forgets "
            f"{'it' if len(event.ids) == 1 else 'them'}, in no queue and no batch, for ever."
        )

    def _admission(self, event: Admit) -> str:
        again = "resumes" if isinstance(event, Resume) else "is admitted"
        taken = self.taken[event.id]
        found = f" beside the {n(len(taken.hits))} found" if taken.hits else ""
        return (
            f"{who(event.id)} {again} with {_hits(event)} and {chunk(event.tokens)}; it takes "
            f"{pages(len(taken.blocks))}{found}, {n(taken.free)} left free."
        )

    def _chunk(self, event: Chunk) -> str:
        taken = self.taken[event.id]
        return (
            f"{who(event.id)} computes {chunk(event.tokens)} of what it still lacks; it takes "
            f"{pages(len(taken.blocks))}, {n(taken.free)} left free."
        )


def _left(budgets: Budgets) -> str:
    text = f"{some(budgets.total)} tokens of memory and {n(budgets.inputs)} to compute are left"
    return text if budgets.chunk is None else f"{text}, {n(budgets.chunk)} of the chunk"


def _hits(event: Admit) -> str:
    """What an admitted request need not compute, and whose work it was."""
    text = f"{n(event.own_hits + event.shared_hits)} hit tokens"
    if event.own_hits and event.shared_hits:
        return f"{text} ({n(event.own_hits)} its own, {n(event.shared_hits)} shared)"
    if event.computed:
        return f"{text} ({'its own' if event.own_hits else 'shared'})"
    return text
