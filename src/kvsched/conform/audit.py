"""Totals of a run as a recording's ``summary`` states them, read off the rebuilt steps."""

from __future__ import annotations

from kvsched.log import Admit, Allocate, Finish, Preempt, Resume
from kvsched.steps import StepRecord


class Written:
    """Which token slots hold KV that was really computed.

    A prefix hit on a slot nobody wrote is a phantom: vLLM 0.28.0 registers a block's hash when
    it schedules the pass, and keeps it when the pass is taken back (scheduler.py:659-666).
    """

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.slots: dict[int, set[int]] = {}
        self.tables: dict[str, list[int]] = {}

    def see(self, record: StepRecord) -> list[list[int | str]]:
        """Take a step in; return its phantoms as [step, id, tokens, first position]."""
        size = self.block_size
        self._move_blocks(record)
        for request_id, count in record.scheduled.items():
            computed = record.live[request_id][1]
            table = self.tables[request_id]
            for position in range(computed - count, computed):
                self.slots[table[position // size]].add(position % size)
        return [
            [record.step, event.id, len(missing), missing[0]]
            for event in record.of(Admit)
            if (missing := self._missing(event.id, event.computed))
        ]

    def _move_blocks(self, record: StepRecord) -> None:
        for event in record.of(Admit):
            self.tables[event.id] = []
        for request_id, blocks in record.blocks.items():
            self.tables[request_id].extend(blocks)
        for allocation in record.of(Allocate):
            for block in allocation.blocks:
                self.slots[block] = set()

    def _missing(self, request_id: str, computed: int) -> list[int]:
        size = self.block_size
        table = self.tables[request_id]
        return [p for p in range(computed) if p % size not in self.slots[table[p // size]]]


class Totals:
    """Sums over a run, under the names a recording's summary uses."""

    def __init__(self, block_size: int, caching: bool) -> None:
        self.written = Written(block_size) if caching else None
        self.sums = dict.fromkeys(
            (
                "steps",
                "preemptions",
                "preempt_steps",
                "resumes",
                "hit_tokens_new",
                "hit_tokens_resumed",
                "scheduled_tokens",
                "output_tokens",
                "finished",
                "idle_steps",
            ),
            0,
        )
        self.phantom: list[list[int | str]] = []

    def see(self, record: StepRecord) -> None:
        """Take one step in."""
        sums = self.sums
        resumed = record.of(Resume)
        fresh = [event for event in record.of(Admit) if not isinstance(event, Resume)]
        victims = record.of(Preempt)
        sums["steps"] += 1
        sums["preemptions"] += len(victims)
        sums["preempt_steps"] += bool(victims)
        sums["resumes"] += len(resumed)
        sums["hit_tokens_new"] += sum(event.computed for event in fresh)
        sums["hit_tokens_resumed"] += sum(event.computed for event in resumed)
        sums["scheduled_tokens"] += sum(record.scheduled.values())
        sums["output_tokens"] += len(record.emitted)
        sums["finished"] += len(record.of(Finish))
        sums["idle_steps"] += not record.scheduled and not record.emitted
        if self.written is not None:
            self.phantom += self.written.see(record)

    def summary(self, stop: str) -> dict[str, object]:
        """The totals as a recording writes them."""
        phantom = self.phantom if self.written is not None else None
        return {**self.sums, "stop": stop, "phantom": phantom}
