"""The KV pool: how many blocks memory holds, how fast decodes drain it, how long head-room lasts.

Blocks here are usable ones. vLLM's ``num_gpu_blocks`` counts one more, the null block.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvsched.costs.units import at_least, binary, positive
from kvsched.errors import InputError


@dataclass(frozen=True, slots=True)
class Pool:
    """Memory for KV, cut into blocks; what does not fill a token or a block is left over.

    ``size``: bytes. ``token_bytes``: KV bytes per token. ``block_size``: tokens per block.
    Raises InputError for a value that is not positive.
    """

    size: int
    token_bytes: int
    block_size: int = 16

    def __post_init__(self) -> None:
        for name in ("size", "token_bytes", "block_size"):
            at_least(name, getattr(self, name), 1)

    @property
    def tokens(self) -> int:
        """Whole tokens the memory holds."""
        return self.size // self.token_bytes

    @property
    def blocks(self) -> int:
        """Whole blocks the memory holds."""
        return self.tokens // self.block_size

    def blocks_of(self, tokens: int) -> int:
        """Blocks a request of this many tokens holds."""
        return -(-tokens // self.block_size)

    def requests_of(self, tokens: int) -> int:
        """How many requests of this many tokens fit at once."""
        return self.blocks // self.blocks_of(at_least("tokens", tokens, 1))


def kv_bytes(memory: float, utilization: float, weights: float, workspace: float) -> int:
    """Bytes left for KV on one device: ``utilization · memory - weights - workspace``, whole.

    ``memory``, ``weights``, ``workspace``: bytes. ``utilization``: vLLM's
    ``gpu_memory_utilization``. ``workspace``: activations, graphs and all else that is not KV.

    Raises InputError: a value is not positive, ``utilization`` is above 1, nothing is left.
    """
    for name, value in (("memory", memory), ("weights", weights), ("workspace", workspace)):
        positive(name, value)
    if not 0 < utilization <= 1:
        raise InputError("utilization", f"{utilization} is not in (0, 1]", "use a fraction: 0.92")
    left = utilization * memory - weights - workspace
    if left < 1:
        found = f"weights and workspace need {binary(-left)} more than there is"
        raise InputError("memory", found, "use a larger device or a smaller model")
    return int(left)


def drain(decodes: int, block_size: int) -> float:
    """Blocks a step that this many running decodes take, on average: one token each."""
    return at_least("decodes", decodes, 0) / at_least("block_size", block_size, 1)


def watermark_blocks(watermark: float, blocks: int) -> int:
    """Blocks the watermark keeps back: truncated, as vLLM does."""
    return int(watermark * blocks)


def runway(blocks: float, blocks_per_step: float) -> float:
    """Steps until this many free blocks are gone, if nobody comes and nobody goes."""
    return blocks / positive("blocks_per_step", blocks_per_step)
