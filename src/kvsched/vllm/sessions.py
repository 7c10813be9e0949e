"""Streaming input: a request that pauses at each stop and goes on when a chunk comes.

vLLM 0.28.0 v1/core/sched/scheduler.py (S:1429, 2164-2181, 2301-2316).
"""

from __future__ import annotations

from kvsched.contract import NextChunk
from kvsched.log import ChunkEnd, Continue, Log
from kvsched.vllm.state import RequestState
from kvsched.vllm.status import FINISH_REASON, STREAM, WAITING, RequestStatus


class Sessions:
    """``paused`` sessions each hold one of max_num_seqs, and their blocks, while they wait."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.paused = 0

    def next_chunk(self, r: RequestState, chunk: NextChunk) -> None:
        """A chunk reaches its session: used at once if it is paused, else queued."""
        if r.status is STREAM:
            self.paused -= 1
            self.resume(r, chunk)
        elif r.inbox is not None:
            r.inbox.append(chunk)

    def stop(self, r: RequestState, status: RequestStatus) -> bool:
        """A session stops: True if it only ends a chunk, False if it is over.

        The client is told a finish reason either way. ``stop_reason`` is never cleared: after a
        chunk that ended at a stop token, one that ends by length still names that token.
        """
        if r.inbox is None or (r.inbox and r.inbox[0] is None):
            return False
        r.move_to(status)
        waits = not r.inbox
        event = ChunkEnd(
            r.id,
            (STREAM if waits else WAITING).name,
            FINISH_REASON[status],
            r.stop_reason,
        )
        self.log.add(event)
        if waits:
            self.paused += 1
            r.move_to(STREAM)
        else:
            chunk = r.inbox.popleft()
            assert chunk is not None
            self.resume(r, chunk)
        return True

    def resume(self, r: RequestState, chunk: NextChunk) -> None:
        """Drop what was never computed, make the rest the prompt, append the chunk (S:1429).

        max_tokens and priority stay as they were, whatever the chunk says. ``block_hashes`` is
        not shortened: if the dropped token completed a block, the block's name stays wrong. Under
        priority the arrival time changes inside the heap without the heap being rebuilt.
        """
        r.truncate(r.num_computed_tokens)
        r.extend_prompt(chunk.prompt)
        r.arrival_time = chunk.arrival_time
        r.stop = chunk.stop
        r.move_to(WAITING)
        self.log.add(Continue(r.id, r.num_tokens, r.arrival_time))
