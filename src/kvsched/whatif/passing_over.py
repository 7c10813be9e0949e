"""What if a request that does not fit were passed over, so that those behind it are tried?

Proposed for vLLM and not merged (pull request 35852): small requests would no longer wait behind a
large one for which there is no room. The price is the large one's: nothing keeps blocks for it.
"""

from __future__ import annotations

from kvsched.contract import Denial
from kvsched.vllm import Scheduler


class PassingOver(Scheduler):
    """vLLM's scheduler, except for ``continue`` where it has ``break``."""

    def passes_over(self, denial: Denial) -> bool:
        """Yes if blocks are lacking: the next may need fewer. Tokens and slots nobody has."""
        return denial.of_allocator
