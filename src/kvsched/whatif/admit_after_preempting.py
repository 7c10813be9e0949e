"""What if a step that threw somebody out still admitted others?

Proposed for vLLM and not merged (pull requests 33499 and 36390): the blocks that came free might
serve somebody at once. First in the queue stands the victim itself.
"""

from __future__ import annotations

from kvsched.vllm import Scheduler
from kvsched.vllm.step import Step


class AdmitAfterPreempting(Scheduler):
    """vLLM's scheduler, except that phase 2 follows a phase 1 that preempted."""

    def may_admit(self, step: Step) -> bool:
        """Whenever scheduling is not paused."""
        return self.paused == "none"
