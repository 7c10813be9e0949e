"""The state of a run, moved forward by its log's events.

The board knows no scheduling rule. It applies facts: who entered which queue, which blocks were
taken, hashed or given back.
"""

from __future__ import annotations

import zlib
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from typing import Any, NamedTuple

from kvsched.contract import Denial
from kvsched.inflight import InFlight
from kvsched.log import (
    Abort,
    Admit,
    Allocate,
    Arrive,
    Cache,
    Chunk,
    ChunkEnd,
    Continue,
    Defer,
    Deny,
    Enqueue,
    Event,
    Evict,
    Finish,
    Forget,
    Free,
    Idle,
    Leave,
    Load,
    Log,
    Preempt,
    Progress,
    Promote,
    Propose,
    Report,
    Resume,
    Return,
    Sample,
    SetAside,
    Uncache,
    Undeny,
    Verify,
)
from kvsched.queues import Queue, make_queue

RUNNING = "RUNNING"
PREEMPTED = "PREEMPTED"
ABORTED = "FINISHED_ABORTED"
REMOTE = "WAITING_FOR_REMOTE_KVS"
STREAM = "WAITING_FOR_STREAMING_REQ"


class Lane(InFlight):
    """One request as the log shows it, with its block table."""

    __slots__ = ("blocks", "num_preemptions", "queue", "status")

    def __init__(self, event: Arrive) -> None:
        super().__init__(event.num_prompt_tokens)
        self.id = event.id
        self.priority = event.priority
        self.arrival_time = event.arrival_time
        self.status = event.status
        self.queue = event.queue
        self.num_preemptions = 0
        self.blocks: list[int] = []


class LaneState(NamedTuple):
    """A request's numbers at one moment, under vLLM's names."""

    status: str
    num_computed_tokens: int
    num_tokens: int
    num_preemptions: int
    num_output_placeholders: int = 0
    num_in_flight_tokens: int = 0
    num_stale_output_tokens: int = 0
    drop_stale_output: bool = False
    num_spec_tokens: int = 0


class Batch(NamedTuple):
    """A pass that left: tokens by request, tokens that will come back, drafts among the former."""

    step: int
    scheduled: dict[str, int]
    sampling: dict[str, int]
    drafts: dict[str, int]


class Board:
    """Requests, queues, free queue and hashes at one moment.

    ``cached`` maps a block that carries a hash to the request that gave it. ``prefilling`` holds
    the ids of admitted requests and loads whose prefill is not complete. ``ended`` are ids that
    finished or were aborted since it was last cleared. ``reported``: loads that ended and whose
    request does not run yet. ``paused_sessions``: slots that the engine believes paused sessions
    hold. ``batches``: passes in flight, oldest first.
    """

    def __init__(self, log: Log) -> None:
        config = log.config
        self.lanes: dict[str, Lane] = {}
        self.queues: dict[str, Queue[Lane]] = {
            name: make_queue(config["policy"]) for name in ("waiting", "skipped")
        }
        self.held: Queue[Lane] = make_queue(config["policy"])
        self.policy: str = config["policy"]
        self.asynchronous: bool = config.get("async_scheduling", False)
        self.drops: bool = config.get("kv_role", "") in ("kv_producer", "kv_both")
        self.guesses: int = config.get("num_speculative_tokens", 0) if self.asynchronous else 0
        self.batches: deque[Batch] = deque()
        self.paused_sessions = 0
        self.running: list[Lane] = []
        self.free: OrderedDict[int, None] = OrderedDict.fromkeys(range(1, config["num_gpu_blocks"]))
        self.cached: dict[int, str] = {}
        self.prefilling: set[str] = set()
        self.reported: set[str] = set()
        self.denial: Denial | None = None
        self.ended: list[str] = []
        self.erased: list[dict[str, int]] = []
        self.idle: frozenset[str] = frozenset()
        self.chunks: dict[str, int] = {}
        self.samples: dict[str, int] = {}
        self._apply: dict[type, Callable[[Any], None]] = {
            Arrive: self._arrive,
            Abort: self._abort,
            Admit: self._admit,
            Allocate: self._allocate,
            Cache: lambda e: self.cached.update(dict.fromkeys(e.blocks, e.id)),
            Chunk: lambda e: self.chunks.__setitem__(e.id, e.tokens),
            ChunkEnd: self._chunk_end,
            Continue: self._continue,
            Defer: lambda e: setattr(self.lanes[e.id], "blocks", []),
            Deny: lambda e: setattr(self, "denial", e.denial),
            Enqueue: lambda e: self._enqueue(self.lanes[e.id], e.queue),
            Evict: self._evict,
            Finish: self._finish,
            Forget: self._forget,
            Free: self._free,
            Idle: lambda e: setattr(self, "idle", frozenset(e.ids)),
            Leave: lambda e: self._leave_queues(self.lanes[e.id]),
            Load: self._load,
            Preempt: self._preempt,
            Progress: self._progress,
            Promote: lambda e: setattr(self.lanes[e.id], "status", e.status),
            Propose: lambda e: setattr(self.lanes[e.id], "num_spec_tokens", e.drafts),
            Report: lambda e: self.reported.update(e.recving),
            Resume: self._admit,
            Return: self._return,
            Sample: lambda e: self.samples.__setitem__(e.id, e.tokens),
            SetAside: lambda e: self.held.requeue(self._take(self.lanes[e.id])),
            Uncache: self._uncache,
            Undeny: lambda e: setattr(self, "denial", None),
            Verify: lambda e: self.chunks.__setitem__(e.id, 1 + e.drafts),
        }

    def apply(self, event: Event) -> None:
        """Move forward by one event; kinds that change nothing on the board are passed over."""
        apply = self._apply.get(type(event))
        if apply is not None:
            apply(event)

    def compute(self, step: int) -> Batch:
        """End of ``schedule()``: everyone who computes advances; the batch leaves.

        One thing is implied and not written: a running request with one token left to compute
        computes it, unless an Idle event says otherwise. A token in flight counts like a known
        one.
        """
        batch = Batch(step, {}, {}, {})
        for lane in self.running:
            left = lane.num_tokens + lane.num_output_placeholders - lane.num_computed_tokens
            tokens = self.chunks.get(lane.id, 1 if left == 1 else 0)
            if tokens and lane.id not in self.idle:
                self._launch(lane, tokens, batch)
        self.chunks, self.idle, self.samples = {}, frozenset(), {}
        for lane in self.held:
            self.queues["skipped"].requeue(lane)
            lane.queue = "skipped"
        self.held = make_queue(self.policy)
        self.batches.append(batch)
        return batch

    def _launch(self, lane: Lane, tokens: int, batch: Batch) -> None:
        """One request's part of a batch; whoever reaches the last token will sample."""
        lane.num_computed_tokens += tokens
        lane.num_in_flight_tokens += tokens
        lane.num_spec_tokens = 0
        batch.scheduled[lane.id] = tokens
        if lane.num_computed_tokens < lane.num_tokens + lane.num_output_placeholders:
            return
        self.prefilling.discard(lane.id)
        batch.sampling[lane.id] = self.samples.get(lane.id, 1)
        drafts = lane.num_drafts
        if drafts:
            batch.drafts[lane.id] = drafts
        if self.asynchronous:
            lane.num_output_placeholders += 1 + drafts
            lane.num_spec_tokens = self.guesses

    def deliver(self, batch: Batch, delivered: dict[str, int]) -> dict[str, int]:
        """A batch is back: append what was sampled, or what ``delivered`` says instead."""
        emitted = {}
        for request_id, computed in batch.scheduled.items():
            lane = self.lanes.get(request_id)
            if lane is None:
                continue
            stale = lane.land(computed)
            sampled = batch.sampling.get(request_id, 0)
            tokens = delivered.get(request_id, sampled)
            if lane.status.startswith("FINISHED") or not sampled:
                continue
            if request_id in batch.drafts and not stale:
                lane.reject(batch.drafts[request_id] + 1 - sampled)
            if tokens:
                lane.num_tokens += tokens
                emitted[request_id] = tokens
            if self.asynchronous and not stale:
                lane.num_output_placeholders -= tokens
        return emitted

    def live(self) -> dict[str, LaneState]:
        """Every request on the board, in order of arrival."""
        return {
            lane.id: LaneState(
                lane.status,
                lane.num_computed_tokens,
                lane.num_tokens,
                lane.num_preemptions,
                lane.num_output_placeholders,
                lane.num_in_flight_tokens,
                lane.num_stale_output_tokens,
                lane.drop_stale_output,
                lane.num_spec_tokens,
            )
            for lane in self.lanes.values()
        }

    def holders(self) -> dict[str, int]:
        """Blocks held by requests that do not run."""
        return {
            lane.id: len(lane.blocks)
            for lane in self.lanes.values()
            if lane.blocks and lane.status != RUNNING
        }

    def free_crc(self) -> int:
        """``zlib.crc32`` of the free queue's ids, head first, decimal, joined by commas."""
        return zlib.crc32(",".join(map(str, self.free)).encode())

    # -- requests ---------------------------------------------------------------------------

    def _arrive(self, event: Arrive) -> None:
        self.lanes[event.id] = lane = Lane(event)
        self._enqueue(lane, event.queue)

    def _enqueue(self, lane: Lane, queue: str) -> None:
        lane.queue = queue
        self.queues[queue].add(lane)

    def _take(self, lane: Lane) -> Lane:
        """Take a lane from its queue: it is the head."""
        return self.queues[lane.queue].pop()

    def _admit(self, event: Admit) -> None:
        lane = self._take(self.lanes[event.id])
        lane.status = RUNNING
        lane.num_computed_tokens = event.computed
        self.running.append(lane)
        self.reported.discard(event.id)
        self.chunks[event.id] = event.tokens
        if event.computed + event.tokens < lane.num_tokens:
            self.prefilling.add(event.id)

    def _load(self, event: Load) -> None:
        if event.asynchronous:
            lane = self._take(self.lanes[event.id])
            lane.status = REMOTE
            lane.num_computed_tokens = event.computed
            self.prefilling.add(lane.id)
            self.held.requeue(lane)

    def _progress(self, event: Progress) -> None:
        self.lanes[event.id].num_computed_tokens = event.num_computed_tokens

    def _preempt(self, event: Preempt) -> None:
        lane = self.lanes[event.id]
        self.running.remove(lane)
        lane.status = PREEMPTED
        lane.num_computed_tokens = 0
        lane.throw_back(drop=event.denial is None or self.drops)
        lane.num_preemptions = event.preemptions
        lane.blocks = []
        lane.queue = "waiting"
        self.queues["waiting"].requeue(lane)
        self.chunks.pop(event.id, None)
        self.prefilling.discard(event.id)

    def _chunk_end(self, event: ChunkEnd) -> None:
        lane = self.lanes[event.id]
        if lane.status == RUNNING:
            self.running.remove(lane)
        lane.status = event.status
        self.paused_sessions += event.status == STREAM

    def _continue(self, event: Continue) -> None:
        lane = self.lanes[event.id]
        self.paused_sessions -= lane.status == STREAM
        lane.status = "WAITING"
        lane.num_tokens = event.num_tokens
        lane.arrival_time = event.arrival_time

    def _finish(self, event: Finish) -> None:
        self._end(event.id, event.status, event.held)

    def _abort(self, event: Abort) -> None:
        if event.status is not None:
            self._end(event.id, ABORTED, event.held)

    def _end(self, request_id: str, status: str, held: bool) -> None:
        lane = self.lanes[request_id]
        if lane.status == RUNNING:
            self.running.remove(lane)
        else:
            self._leave_queues(lane)
        self.paused_sessions -= status == ABORTED and lane.status == STREAM
        lane.status = status
        self.ended.append(request_id)
        self.prefilling.discard(request_id)
        self.reported.discard(request_id)
        if not held:
            del self.lanes[request_id]

    def _leave_queues(self, lane: Lane) -> None:
        for queue in self.queues.values():
            queue.discard(lane)

    def _forget(self, event: Forget) -> None:
        del self.lanes[event.id]

    # -- blocks -----------------------------------------------------------------------------

    def _allocate(self, event: Allocate) -> None:
        for block in (*event.hits, *event.blocks):
            self.free.pop(block, None)
            self.lanes[event.id].blocks.append(block)

    def _evict(self, event: Evict) -> None:
        self.erased.append(dict(Counter(self.cached.pop(block) for block in event.blocks)))

    def _uncache(self, event: Uncache) -> None:
        for block in event.blocks:
            del self.cached[block]

    def _free(self, event: Free) -> None:
        if event.id in self.lanes:
            self.lanes[event.id].blocks = []
        self._return(event)

    def _return(self, event: Free) -> None:
        for block in event.back:
            self.free[block] = None
        for block in reversed(event.front):
            self.free[block] = None
            self.free.move_to_end(block, last=False)
