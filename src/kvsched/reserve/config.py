"""The simulator's knobs, under the names of the worked traces (``reserve-1``)."""

from __future__ import annotations

from dataclasses import dataclass, fields

from kvsched.errors import InputError

LIMIT = 2**31 - 1

CHOICES = {
    "policy": ("serial", "continuous"),
    "reserve": ("whole", "truncate", "preempt"),
    "order": ("fifo", "priority", "deadline"),
}


@dataclass(frozen=True, slots=True)
class Config:
    """One replay's configuration.

    ``policy``: one request at a time (``serial``) or admission before every dispatch
    (``continuous``). ``blocks`` of ``block_size`` tokens are the usable capacity. ``max_tokens``
    and ``max_rows`` bound a dispatch, ``chunk`` the prefill tokens one request takes in it.
    ``release_delay``: ticks for which a finished request's pages stay unavailable.

    What follows is beyond the contract and off by default. ``reserve``: promise the whole request,
    or only what is known (prompt, and after a preemption what had been generated); then a request
    that finds no room to grow is cut short (``truncate``), or the last in order is thrown out and
    computed again (``preempt``). ``prefix_cache``: full prompt blocks that an active request has
    computed are shared, and not promised again. ``order``: who is first in the queue, by
    priority (small first), or deadline (soon first). ``batch_size``: a batch of at most so many is
    admitted only when nobody is active; a batch not full waits ``batch_wait`` for its oldest.

    Raises InputError naming the field for a value that cannot be used.
    """

    policy: str = "continuous"
    block_size: int = 16
    blocks: int = 1024
    max_tokens: int = 8192
    max_rows: int = 256
    chunk: int = 8192
    release_delay: int = 0
    reserve: str = "whole"
    prefix_cache: bool = False
    order: str = "fifo"
    batch_size: int = 0
    batch_wait: int = 0

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name in CHOICES:
                _one_of(f.name, value)
            elif f.type == "bool":
                if not isinstance(value, bool):
                    raise InputError(f.name, f"{value!r} is no bool", "use true or false")
            else:
                optional = f.name in ("release_delay", "batch_size", "batch_wait")
                _count(f.name, value, 0 if optional else 1)
        if self.batch_wait and not self.batch_size:
            raise InputError("batch_wait", "there is no batch to wait for", "give batch_size too")

    def blocks_for(self, tokens: int) -> int:
        """Blocks that so many tokens fill, the last one perhaps in part."""
        return -(-tokens // self.block_size)


def _one_of(name: str, value: object) -> None:
    if value not in CHOICES[name]:
        fix = f"use {' or '.join(CHOICES[name])}"
        raise InputError(name, f"unknown value {value!r}", fix)


def _count(name: str, value: object, low: int) -> None:
    if type(value) is not int or not low <= value <= LIMIT:
        fix = f"use an integer from {low} to {LIMIT}"
        raise InputError(name, f"{value!r} is no such count", fix)
