"""What if a victim's KV were copied to the host and back, instead of computed again?

**Not vLLM V1**, whose only way back is to compute: ``swap_space`` had no effect in V1 and is gone
since 0.18.0. V0 had this way beside recomputation. Here a victim's copy waits in a host pool; when
it is admitted again, what the prefix cache did not keep is copied back. In the log a preemption
still counts the victim's tokens as lost: the device has lost them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvsched.clock import CostClock
from kvsched.contract import Match, Plan, World
from kvsched.costs import Link, copy_seconds
from kvsched.errors import InputError
from kvsched.log import Log
from kvsched.vllm import Config, Scheduler
from kvsched.vllm.state import RequestState

OVERLAPS = ("none", "out", "both")


class Host(World):
    """Host memory of ``tokens`` tokens: copies by request, and what moved since last asked.

    A victim that does not fit is recomputed. A copy is dropped when it is read back or its
    request ends; one that the prefix cache made needless stays until then.
    """

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.copies: dict[str, int] = {}
        self._out: list[int] = []
        self._back: list[int] = []

    def store(self, request_id: str, tokens: int) -> None:
        """Copy a victim's tokens out, if there is room."""
        self.copies.pop(request_id, None)
        if 0 < tokens <= self.tokens - sum(self.copies.values()):
            self.copies[request_id] = tokens
            self._out.append(tokens)

    def match(self, request_id: str, num_tokens: int, local: int) -> Match | None:
        """What the copy holds beyond the prefix cache's hits."""
        held = self.copies.get(request_id, 0)
        return Match(held - local, asynchronous=False) if held > local else None

    def load(self, request_id: str, tokens: int, asynchronous: bool, blocks: list[int]) -> None:
        """The copy back; the host's place is free again."""
        del self.copies[request_id]
        self._back.append(tokens)

    def keeps_blocks(self, request_id: str, num_computed_tokens: int) -> bool:
        """Nothing on the device waits; the ended request's copy goes."""
        self.copies.pop(request_id, None)
        return False

    def moved(self) -> tuple[Sequence[int], Sequence[int]]:
        """Tokens of each copy out and of each copy back since the last call."""
        moved = self._out, self._back
        self._out, self._back = [], []
        return moved


class Swap(Scheduler):
    """vLLM's scheduler, except that a victim's KV is copied to ``host`` first."""

    def __init__(self, config: Config, log: Log | None, host: Host) -> None:
        super().__init__(config, log, host)
        self.host = host

    def on_preempt(self, v: RequestState) -> None:
        """Copy, then forget: the way back is a load of what the host holds."""
        self.host.store(v.id, v.num_computed_tokens)
        super().on_preempt(v)


@dataclass(frozen=True, slots=True)
class SwapClock:
    """A step's pass and the copies it waits for, in nanoseconds.

    Copies go in fragments of ``fragment`` bytes over ``out`` and ``back``. ``overlap``: ``none``,
    every copy is waited for; ``out``, copies to the host run beside the pass, as if the blocks had
    been staged elsewhere first; ``both``, all do, and a step lasts as long as the longer of them.
    """

    clock: CostClock
    host: Host
    out: Link
    back: Link
    fragment: int
    overlap: str = "none"

    def __post_init__(self) -> None:
        if self.overlap not in OVERLAPS:
            fix = f"use {', '.join(OVERLAPS)}"
            raise InputError("overlap", f"unknown overlap {self.overlap!r}", fix)

    def duration(self, plan: Plan) -> int:
        """The pass, and what of the copies it does not hide."""
        out, back = self.host.moved()
        out_ns, back_ns = self._ns(self.out, out), self._ns(self.back, back)
        hidden = (out_ns if self.overlap != "none" else 0) + (
            back_ns if self.overlap == "both" else 0
        )
        return max(self.clock.duration(plan), hidden) + out_ns + back_ns - hidden

    def _ns(self, link: Link, copies: Sequence[int]) -> int:
        size = self.clock.model.kv_bytes_per_token
        return sum(round(copy_seconds(link, n * size, self.fragment) * 1e9) for n in copies)
