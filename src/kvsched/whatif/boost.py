"""What if being thrown out made a request more urgent, up to a bound?

Under vLLM's priority policy a victim queues by its old key and can be thrown out again and again
(vllm issue 41951; pull request 51574 proposes a boost).
"""

from __future__ import annotations

from kvsched.vllm import Scheduler
from kvsched.vllm.state import RequestState

BOUND = 3
"""Levels of priority a request can gain: without a bound old victims would rule the queue."""


class BoundedBoost(Scheduler):
    """vLLM's scheduler, except that each of the first ``BOUND`` preemptions adds urgency."""

    def on_preempt(self, v: RequestState) -> None:
        """One level more urgent, in the queue and among the running."""
        super().on_preempt(v)
        if v.num_preemptions <= BOUND:
            v.priority -= 1
