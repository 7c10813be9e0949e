"""Totals of a run as a recording's ``summary`` states them, read off the rebuilt steps."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kvsched.log import Admit, Allocate, ChunkEnd, Finish, Load, Phase, Preempt, Resume
from kvsched.steps import StepRecord
from kvsched.vllm.status import ABORTED


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
    """Sums over a run, under the names the recordings' summaries use."""

    def __init__(self, block_size: int, caching: bool) -> None:
        self.written = Written(block_size) if caching else None
        self.sums: Counter[str] = Counter()
        self.finished: Counter[str] = Counter()
        self.statuses: set[str] = set()
        self.phantom: list[list[int | str]] = []

    def see(self, record: StepRecord) -> None:
        """Take one step in."""
        victims = record.of(Preempt, Phase.SCHEDULE)
        resumed = record.of(Resume)
        fresh = [event for event in record.of(Admit) if not isinstance(event, Resume)]
        self.sums += Counter(
            steps=1,
            preemptions=len(victims),
            preempt_steps=bool(victims),
            resumes=len(resumed),
            hit_tokens_new=sum(event.computed for event in fresh),
            hit_tokens_resumed=sum(event.computed for event in resumed),
            scheduled_tokens=sum(record.scheduled.values()),
            output_tokens=sum(record.emitted.values()),
            finished=len(record.of(Finish)),
            idle_steps=not record.scheduled and not record.emitted,
            skipped_steps=record.made and bool(record.skipped),
            preempt_in_flight=sum(
                record.live[event.id].num_stale_output_tokens > 0 for event in victims
            ),
            kv_loads=len(record.of(Load)),
        )
        self.finished.update(
            event.reason
            for event in record.of_any((Finish, ChunkEnd))
            if event.status != ABORTED.name
        )
        self.statuses.update(state.status for state in record.live.values())
        self.statuses.update(state.status for state in record.live_end.values())
        if self.written is not None:
            self.phantom += self.written.see(record)

    def first_format(self, stop: str) -> dict[str, object]:
        """The summary of a ``vllm-golden-1`` recording."""
        names = (
            "steps preemptions preempt_steps resumes hit_tokens_new hit_tokens_resumed "
            "scheduled_tokens output_tokens finished idle_steps"
        )
        phantom = self.phantom if self.written is not None else None
        return {**self._sums(names), "stop": stop, "phantom": phantom}

    def second_format(self, stop: str, config: dict[str, Any]) -> dict[str, object]:
        """The summary of a ``vllm-golden-2`` recording; Model Runner V2 knows no resumes."""
        names = (
            "steps preemptions preempt_in_flight resumes hit_tokens_new hit_tokens_resumed "
            "scheduled_tokens output_tokens skipped_steps kv_loads"
        )
        if config["pipeline_parallel_size"] > 1:
            self.sums["hit_tokens_new"] += self.sums["hit_tokens_resumed"]
            self.sums["resumes"] = self.sums["hit_tokens_resumed"] = 0
        return {
            **self._sums(names),
            "finished": dict(self.finished),
            "statuses": sorted(self.statuses),
            "stop": stop,
        }

    def _sums(self, names: str) -> dict[str, int]:
        return {name: self.sums[name] for name in names.split()}
