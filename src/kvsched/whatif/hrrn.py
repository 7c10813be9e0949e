"""What if those went first who have waited longest, measured by what they ask for?

Highest response ratio next: (wait + service) / service. Short requests go early, and every ratio
grows while its owner waits. SGLang pull requests 30806 (shortest first with aging, closed) and
32911 (this one, merged; not in 0.5.18).

**The estimate of service** is the prompt's uncached tokens, at least 1. Taken as proportional to
time, its rate cancels: the order is that of wait / tokens, and no speed need be known. Outputs are
not counted, as nobody knows them; so it suits prefill, embedding and scoring. Deprioritised
requests stay last and more than 128 stay unsorted, as under lpm, whose lookups it needs.

**What it bounds.** While nobody else waits longer than W or needs fewer than s tokens, a request of
S tokens is passed by nobody once it has waited more than W * S / s: its ratio is the largest. Put
last, or unsorted, it can be passed all the same. Where more comes than can be served, the others'
waits have no W, and it can be passed for as long as that lasts.

vLLM has no such method to override: its queues are ordered as they are filled, and a ratio that
changes while one waits is no key of a heap.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvsched.log import Log
from kvsched.sglang import Config, Scheduler
from kvsched.sglang.req import Req


class HRRN(Scheduler):
    """SGLang's scheduler, except that lpm's order is that of the response ratio."""

    def __init__(self, config: Config, log: Log | None = None) -> None:
        super().__init__(config, log)
        self.policy.orders["lpm"] = self.by_response_ratio

    def by_response_ratio(self, waiting: list[Req], running: Sequence[Req]) -> None:
        """The longest wait for each uncached token first, and the deprioritised last."""
        last = self.policy.deprioritized
        waiting.sort(key=lambda r: (r.id in last, -self.waited(r) / self.service(r)))

    def waited(self, r: Req) -> float:
        """Since it entered the queue, in the units of ``schedule(now)``."""
        return self.now - r.wait_queue_entry_time if r.wait_queue_entry_time is not None else 0

    def service(self, r: Req) -> int:
        """Tokens to compute: all that are not cached, and one of those that are all cached."""
        return r.num_tokens - r.num_matched_prefix_tokens
