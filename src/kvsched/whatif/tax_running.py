"""What if the watermark bound running requests too?

A reader asked why the append check ignores it while admission obeys it (vllm issue 255). The
maintainer's answer: head-room is kept for requests that run, so that they may use every block.
"""

from __future__ import annotations

from kvsched.vllm import Scheduler
from kvsched.vllm.state import RequestState
from kvsched.vllm.status import RUNNING


class TaxRunning(Scheduler):
    """vLLM's scheduler, except that growing must leave the watermark free as well."""

    def headroom(self, r: RequestState) -> int:
        """The watermark, whoever asks, while anybody else runs."""
        others = len(self.running) - (r.status is RUNNING)
        return self.config.watermark_blocks if others else 0
