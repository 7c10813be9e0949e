"""Sentences about what waits outside: grammars, remote loads, sessions, orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvsched.explain.words import blocks, listed, n, tokens
from kvsched.log import (
    Ask,
    ChunkEnd,
    Continue,
    Deliver,
    Forget,
    Inbox,
    Load,
    PauseState,
    Progress,
    Promote,
    Report,
    Reserve,
    ResetCache,
    SetAside,
    Tried,
)
from kvsched.steps import StepRecord

REMOTE = "WAITING_FOR_REMOTE_KVS"
STREAM = "WAITING_FOR_STREAMING_REQ"
WAITS_FOR = {
    "WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR": "its grammar to be compiled",
    REMOTE: "its KV to be loaded",
    STREAM: "its client's next chunk",
}


def _tried(e: Tried) -> str | None:
    return None if e.promoted else f"{e.id} is passed over: it waits for {WAITS_FOR[e.status]}."


def _promoted(e: Promote) -> str:
    return f"What {e.id} waited for is there: it is {e.status} again and may be admitted."


def _asked(e: Ask) -> str:
    if e.tokens is None:
        return f"The KV connector cannot say yet what it has for {e.id}, which is set aside."
    how = "loaded while it waits" if e.asynchronous else "loaded in this step"
    offer = f"{tokens(e.tokens)} to be {how}" if e.tokens else "nothing"
    return f"The KV connector offers {e.id} {offer}, beyond {n(e.local)} hit in the cache."


def _reserved(e: Reserve) -> str | None:
    if not e.blocks:
        return None
    return (
        f"Work in flight still lacks {blocks(e.blocks)}: the load of {e.id} must leave that much."
    )


def _loading(e: Load) -> str:
    text = f"A load of {tokens(e.tokens)} into {blocks(len(e.blocks))} begins for {e.id}"
    if e.asynchronous:
        text += "; it holds them and no slot, and nobody can preempt it"
    return text + "."


def _report(e: Report) -> str:
    parts = []
    if e.recving:
        parts.append(f"finished loading {listed(e.recving)}")
    if e.sending:
        parts.append(f"finished sending {listed(e.sending)}")
    if e.invalid_blocks:
        ids = listed(str(block) for block in e.invalid_blocks)
        parts.append(f"could not fill {ids}")
    return f"The KV connector {' and '.join(parts)}; the queue learns of it at its next walk."


def _progress(e: Progress) -> str:
    return f"{e.id} counts {tokens(e.num_computed_tokens)} as computed from here on."


def _chunk_end(e: ChunkEnd) -> str:
    text = f"{e.id} ends a chunk of its session ({e.reason})"
    if e.status == "WAITING":
        return f"{text}; the next one is there, so it queues again, without a slot."
    return f"{text} and pauses: it keeps its blocks and one of max_num_seqs."


def _continued(e: Continue) -> str:
    return (
        f"{e.id} goes on with its next chunk and has {tokens(e.num_tokens)}; what it had not "
        "computed yet was dropped."
    )


def _inbox(e: Inbox) -> str:
    if e.status is None:
        return f"A {e.op} for {e.id} has no effect: there is no such session."
    what = "sends the next chunk" if e.op == "chunk" else "closes the session"
    return f"{e.id}'s client {what}, while it is {e.status}."


def _reset(e: ResetCache) -> str:
    if e.outcome == "true":
        return "The prefix cache is emptied: nothing computed so far can be found again."
    if e.outcome == "false":
        return "The prefix cache is not emptied: blocks are in use."
    return (
        "The prefix cache is not emptied although everybody was preempted for it: requests that "
        "do not run still hold blocks. vLLM raises RuntimeError here."
    )


def _paused(e: PauseState) -> str:
    return {
        "none": "Scheduling goes on.",
        "new": "Paused: nobody is admitted, who runs goes on.",
        "all": "Paused: nothing is scheduled.",
    }[e.state]


def _lost(e: Deliver) -> str:
    if e.tokens:
        return f"{e.id} ends after {tokens(e.tokens)} of this pass: the others are dropped."
    return f"{e.id}'s client gets {tokens(e.tokens)} of this step: what was sampled is dropped."


def _forgotten(e: Forget) -> str:
    return f"The blocks of {e.id}, which had ended, are free at last: its transfer is over."


OUTSIDE: dict[type, Callable[[Any], str | None]] = {
    Tried: _tried,
    Promote: _promoted,
    Ask: _asked,
    Reserve: _reserved,
    Load: _loading,
    Report: _report,
    Progress: _progress,
    ChunkEnd: _chunk_end,
    Continue: _continued,
    Inbox: _inbox,
    ResetCache: _reset,
    PauseState: _paused,
    Deliver: _lost,
    Forget: _forgotten,
    SetAside: lambda e: None,
}


def stuck(record: StepRecord) -> str | None:
    """Who keeps the blocks that a refused head needs while nobody runs, and whether it ends."""
    denial = record.denial
    if denial is None or not denial.of_allocator or record.running:
        return None
    holders = {i: count for i, count in record.holders.items() if i != denial.id}
    if not holders:
        return None
    held = listed(f"{i} holds {blocks(count)}" for i, count in holders.items())
    text = f"Nobody runs, and {denial.id} at the head lacks what others behind it keep: {held}"
    status = {i: record.live[i].status for i in holders}
    loading = [i for i in holders if status[i] == REMOTE and i not in record.loaded]
    sending = [i for i in holders if status[i].startswith("FINISHED")]
    paused = [i for i in holders if status[i] == STREAM]
    if loading:
        return f"{text}. {listed(loading)} still {'loads' if len(loading) == 1 else 'load'}."
    if sending:
        return f"{text}. {listed(sending)} ended, and gives them back once its KV is sent."
    if paused:
        return f"{text}. {listed(paused)} paused: only the client can end that."
    why = "a finished load" if all(i in record.loaded for i in holders) else "work already done"
    return (
        f"{text}, {why}. A walk that ends at its head looks at nobody behind it, so this never "
        "resolves; only an abort ends it."
    )
