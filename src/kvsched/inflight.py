"""What a request has on the device: passes that left and whose output is not taken in yet.

vLLM 0.28.0's own counters (v1/request.py). The scheduler and the log's rebuild of steps both
inherit them, which is why they stand below every scheduler.
"""

from __future__ import annotations

from kvsched.queues import Ranked


class InFlight(Ranked):
    """A request's progress, and how much of it is not known yet.

    ``num_computed_tokens`` counts a pass as soon as it is scheduled; ``num_in_flight_tokens`` are
    those of passes whose output is not taken in. ``num_output_placeholders``: tokens that such
    passes will sample, under asynchronous scheduling. ``num_stale_output_tokens``: those of the
    tokens in flight that were scheduled before a preemption; ``drop_stale_output``: their output
    is not delivered. ``num_spec_tokens``: drafts to verify in the next pass.
    """

    __slots__ = (
        "drop_stale_output",
        "num_computed_tokens",
        "num_in_flight_tokens",
        "num_output_placeholders",
        "num_spec_tokens",
        "num_stale_output_tokens",
        "num_tokens",
    )

    def __init__(self, num_tokens: int) -> None:
        self.num_tokens = num_tokens
        self.num_computed_tokens = 0
        self.num_in_flight_tokens = 0
        self.num_output_placeholders = 0
        self.num_stale_output_tokens = 0
        self.drop_stale_output = False
        self.num_spec_tokens = 0

    @property
    def num_drafts(self) -> int:
        """Tokens scheduled beyond those known and those being sampled."""
        return max(0, self.num_computed_tokens - self.num_tokens - self.num_output_placeholders)

    def throw_back(self, drop: bool) -> None:
        """A preemption: drafts are lost, and output still to come is stale (S:1357-1370)."""
        self.num_spec_tokens = 0
        self.drop_stale_output = drop or (
            self.drop_stale_output and self.num_stale_output_tokens > 0
        )
        self.num_stale_output_tokens = self.num_in_flight_tokens
        self.num_output_placeholders = 0

    def land(self, num_tokens: int) -> bool:
        """A pass of so many tokens is back; True if its output is stale (S:1801-1807)."""
        self.num_in_flight_tokens -= num_tokens
        if self.num_stale_output_tokens == 0:
            return False
        self.num_stale_output_tokens -= num_tokens
        return True

    def reject(self, num_drafts: int) -> None:
        """So many drafts of a pass were wrong: they are not computed after all (S:1830-1848)."""
        if self.num_computed_tokens > 0:
            self.num_computed_tokens -= num_drafts
        if self.num_output_placeholders > 0:
            self.num_output_placeholders -= num_drafts
