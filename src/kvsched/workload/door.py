"""The front end's check, which the schedulers themselves do not make.

vLLM's scheduler queues a prompt that can never fit and lets it block everyone behind it
(spec case: vllm issue 39734). Labs put this door before the scheduler; conformance does not.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvsched.contract import POLICY, WHOLE_SEQUENCE, Denial
from kvsched.request import Request


@dataclass(frozen=True, slots=True)
class Door:
    """Turns away what can never be served by ``usable_blocks`` blocks of ``block_size`` tokens.

    ``context_length``: also turn away prompts that with their outputs exceed it, the last output
    counted, as SGLang 0.5.18's does (managers/tokenizer_manager.py:1223-1226).
    """

    usable_blocks: int
    block_size: int
    context_length: int | None = None

    def check(self, request: Request) -> Denial | None:
        """A denial if prompt plus outputs outgrow the context or the pool, else None.

        P prompt and N output tokens need ceil((P + N - 1) / block_size) blocks: the last token
        is sampled and never written.
        """
        total = request.num_prompt_tokens + request.max_tokens
        if self.context_length is not None and total > self.context_length:
            return Denial(request.id, POLICY, total, free=self.context_length)
        written = total - 1
        need = -(-written // self.block_size)
        if need <= self.usable_blocks:
            return None
        return Denial(request.id, WHOLE_SEQUENCE, need, free=self.usable_blocks)
