"""A policy over the lifecycle model: who is thrown out, who comes in first, who is spared.

In a round every active request takes one step; then, unless somebody was thrown out, those who
wait come in as far as they fit. The clock counts rows computed, one unit each, and tokens reach
their clients when the round ends. So work done again lengthens everybody's gaps; no time of any
device is estimated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kvsched.errors import InputError
from kvsched.lifecycle.model import Lifecycle, Refused, Tracked


@dataclass(frozen=True, slots=True)
class Job:
    """A request to serve: prompt, outputs, and how many samples of it share the prompt's pages.

    Sample 2 of job a is the request ``a.2``, forked when the prompt is in.
    """

    id: str
    prompt: tuple[int, ...]
    outputs: int
    samples: int = 1

    @property
    def names(self) -> list[str]:
        """Its requests."""
        return [self.id, *(f"{self.id}.{n}" for n in range(2, self.samples + 1))]


@dataclass(slots=True)
class Account:
    """What a client saw, and apart from it what was computed again for it."""

    delivered: list[int] = field(default_factory=list)
    preemptions: int = 0
    replay_rows: int = 0
    wasted_rows: int = 0
    """Of the replay rows, those thrown out again before a token came of them."""

    @property
    def longest_gap(self) -> int:
        """The longest time, in rows, from the start or a token to the next token."""
        return max(b - a for a, b in zip([0, *self.delivered], self.delivered, strict=False))


class Preemption(NamedTuple):
    """A victim, the pages its table named, and how many of them came free."""

    victim: str
    held: int
    freed: int


class Rounds:
    """Jobs served to their end. A policy overrides ``score``, ``order`` or ``spared``."""

    def __init__(self, total_pages: int, page_size: int, jobs: Sequence[Job]) -> None:
        self.model = Lifecycle(total_pages, page_size)
        self.jobs = {name: job for job in jobs for name in job.names}
        self.accounts = {name: Account() for name in self.jobs}
        self.waiting = [job.id for job in jobs]
        self.running: list[str] = []
        self.preemptions: list[Preemption] = []
        self.clock = 0
        self._rows = 0
        self._emitted: list[str] = []
        self._unproven: dict[str, int] = {}
        for job in jobs:
            need = self._pages(len(job.prompt) + job.outputs - 1)
            if need > total_pages:
                fix = f"make the pool at least {need} pages"
                raise InputError(f"job {job.id}", f"it needs {need} of {total_pages} pages", fix)

    # -- the policy -------------------------------------------------------------------------

    def score(self, request: Tracked) -> int:
        """The victim is the active request with the largest: here the longest context."""
        return len(request.prompt) + len(request.emitted)

    def order(self, waiting: list[str]) -> list[str]:
        """Who is let in first, as a new list: here those thrown out, then newcomers."""
        return sorted(waiting, key=lambda name: name not in self.model.requests)

    def spared(self, request: Tracked) -> bool:
        """Is it no victim while there is another? Here nobody is spared."""
        return False

    # -- the rounds -------------------------------------------------------------------------

    def run(self) -> dict[str, Account]:
        """Serve everybody; the accounts by job."""
        while self.waiting or self.running:
            self.round()
        return self.accounts

    def round(self) -> None:
        """One dispatch: a step for each active request, admissions, endings."""
        self._rows, self._emitted, victims = 0, [], len(self.preemptions)
        for name in list(self.running):
            if name in self.running:
                self._advance(name)
        if len(self.preemptions) == victims:
            for name in self.order(self.waiting):
                if not self._fits(name):
                    break  # nobody overtakes the head
                self._enter(name)
        self.clock += self._rows
        for name in self._emitted:
            self.accounts[name].delivered.append(self.clock)
            if len(self.accounts[name].delivered) == self.jobs[name].outputs:
                (self.running if name in self.running else self.waiting).remove(name)
                self.model.cancel(name)

    def _pages(self, rows: int) -> int:
        return -(-rows // self.model.page_size)

    def _fits(self, name: str) -> bool:
        """Are there pages for all that it has to compute now?"""
        request = self.model.requests.get(name)
        rows = self.jobs[name].prompt if request is None else request.entered
        return self._pages(len(rows)) <= len(self.model.allocator.free)

    def _enter(self, name: str) -> None:
        """Reconstruct one that was thrown out, which emits nothing; or start one, and its forks."""
        self.waiting.remove(name)
        self.running.append(name)
        if name in self.model.requests:
            rows = self.model.resume(name)
            self._unproven[name] = rows
            self.accounts[name].replay_rows += rows
            self._rows += rows
            return
        job = self.jobs[name]
        self.model.start(name, job.prompt)
        self._step(self.model.requests[name], len(job.prompt))
        for fork in job.names[1:]:
            self.model.fork(name, fork)
            self.running.append(fork)
            self._emitted.append(fork)

    def _advance(self, name: str) -> None:
        """One token for it, at the cost of others if need be, in the end at its own."""
        request = self.model.requests[name]
        while name in self.running:
            try:
                self._step(request, 1)
            except Refused:
                self._preempt(self._victim(request))
            else:
                break

    def _step(self, request: Tracked, rows: int) -> None:
        self.model.step(request.id, len(request.emitted))
        self._rows += rows
        self._emitted.append(request.id)
        self._unproven.pop(request.id, None)

    def _victim(self, request: Tracked) -> Tracked:
        others = [self.model.requests[name] for name in self.running if name != request.id]
        eligible = [other for other in others if not self.spared(other)] or others
        return max(eligible, key=self.score) if eligible else request

    def _preempt(self, victim: Tracked) -> None:
        self.running.remove(victim.id)
        self.waiting.append(victim.id)
        held = len(victim.pages)
        self.preemptions.append(Preemption(victim.id, held, len(self.model.preempt(victim.id))))
        account = self.accounts[victim.id]
        account.preemptions += 1
        account.wasted_rows += self._unproven.pop(victim.id, 0)


class MostRecoverable(Rounds):
    """The victim is whoever gives most pages back, by the allocator's account."""

    def score(self, request: Tracked) -> int:
        """Pages that would be free if it went now."""
        return self.model.recoverable(request.id)
