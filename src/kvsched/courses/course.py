"""The course of one request: what it computed, when it got tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kvsched.log import Admit, Arrive, Resume


class Prefill(NamedTuple):
    """In ``step`` the tokens from position ``start`` on, ``tokens`` of them, were computed.

    The first ``again`` of them it had held before, computed or found, until a preemption took
    them: the price of preemption. What a failed load takes away is not counted.
    """

    step: int
    start: int
    tokens: int
    again: int


@dataclass(slots=True)
class Course:
    """One request from its arrival on.

    ``arrived``: the step at whose start the scheduler got it. ``admitted``: the steps of its first
    admission and of each return. ``prefills``: every pass of it that computed something else than
    the one newest token. ``runs``: steps (first, last), in each of which it got output;
    ``num_output_tokens`` counts that. ``own_hits``, ``shared_hits``: tokens it found in the cache,
    filled by itself before a preemption or by others; ``first_hits`` are those of its first
    admission, ``first_queries`` the tokens looked up then. ``tokens_lost``: computed tokens it
    held when it was thrown out. ``ended``: its last step, None if it did not end; ``reason`` is
    what the client heard, None after an abort.
    """

    id: str
    num_prompt_tokens: int
    max_tokens: int
    arrival_time: int
    arrived: int
    admitted: list[int] = field(default_factory=list)
    prefills: list[Prefill] = field(default_factory=list)
    runs: list[tuple[int, int]] = field(default_factory=list)
    num_output_tokens: int = 0
    num_preemptions: int = 0
    tokens_lost: int = 0
    own_hits: int = 0
    shared_hits: int = 0
    first_hits: int = 0
    first_queries: int = 0
    ended: int | None = None
    reason: str | None = None

    @classmethod
    def of(cls, step: int, e: Arrive) -> Course:
        """A request that arrived in this step."""
        return cls(e.id, e.num_prompt_tokens, e.max_tokens, e.arrival_time, step)

    def admit(self, step: int, e: Admit | Resume, num_tokens: int) -> None:
        """It was let in with ``num_tokens`` tokens known, all of which were looked up."""
        if not self.admitted:
            self.first_queries, self.first_hits = num_tokens, e.own_hits + e.shared_hits
        self.admitted.append(step)
        self.own_hits += e.own_hits
        self.shared_hits += e.shared_hits

    @property
    def first_token(self) -> int | None:
        """The step that gave the first output token."""
        return self.runs[0][0] if self.runs else None

    @property
    def tokens_recomputed(self) -> int:
        """Tokens computed because a preemption had taken them, generated ones included."""
        return sum(part.again for part in self.prefills)
