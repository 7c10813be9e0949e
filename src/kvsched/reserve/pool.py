"""The two sums of the invariant: promised blocks, and pages that drain."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from kvsched.invariants import InvariantViolation
from kvsched.reserve.job import Job


class Drain(NamedTuple):
    """Pages of a request that has left, unavailable until ``due``."""

    due: int
    id: str
    pages: int


class Pool:
    """``capacity`` blocks and what they are spoken for.

    ``credits`` are promised to active requests, who have taken ``allocated`` pages of them;
    ``draining`` pages belong to nobody and cannot be used yet. Every change is a request's coming,
    growth or leaving. Drains are due in the order in which they began: all last ``release_delay``.
    """

    def __init__(self, capacity: int, release_delay: int) -> None:
        self.capacity = capacity
        self.release_delay = release_delay
        self.credits = 0
        self.allocated = 0
        self.draining = 0
        self.drains: deque[Drain] = deque()

    @property
    def free(self) -> int:
        """Pages nobody has taken, promised or not."""
        return self.capacity - self.allocated - self.draining

    def unfit(self, need: int) -> str | None:
        """Which sum stands in the way of ``need`` more credits: credits, draining or none."""
        if need + self.credits > self.capacity:
            return "credits"
        if need + self.credits + self.draining > self.capacity:
            return "draining"
        return None

    def promise(self, job: Job, blocks: int) -> None:
        """More credits for a job; the caller has seen that they fit."""
        job.credit += blocks
        self.credits += blocks

    def take(self, job: Job, pages: int) -> None:
        """The job owns so many pages from now on."""
        self.allocated += pages - job.own
        job.own = pages

    def leave(self, job: Job, now: int) -> int:
        """Its credits are gone at once, its pages drain; return how many."""
        pages = job.own
        self.credits -= job.credit
        self.allocated -= pages
        if pages:
            self.drains.append(Drain(now + self.release_delay, job.id, pages))
            self.draining += pages
        job.credit = job.own = 0
        return pages

    def release(self, now: int) -> Iterator[Drain]:
        """The drains that are over, each given back as it is taken from this iterator."""
        while self.drains and self.drains[0].due <= now:
            drain = self.drains.popleft()
            self.draining -= drain.pages
            yield drain

    def check(self) -> None:
        """Raise InvariantViolation if more is promised and draining than there is."""
        if not (self.allocated <= self.credits <= self.capacity - self.draining):
            raise InvariantViolation(
                f"allocated {self.allocated} <= credits {self.credits} <= capacity "
                f"{self.capacity} - draining {self.draining} does not hold"
            )
