"""What if a retraction said nothing to admission?

SGLang assigns ``new_token_ratio`` anew after each one. Without that the ratio only falls, and how
bold a server is follows from ``schedule_conservativeness`` alone.
"""

from __future__ import annotations

from kvsched.sglang import Scheduler
from kvsched.sglang.req import Req


class KeepRatio(Scheduler):
    """SGLang's scheduler with the feedback cut."""

    def after_retraction(self, kept: list[Req]) -> None:
        """Leave the ratio as it is."""
