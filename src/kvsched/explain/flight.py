"""Sentences about what is in flight: late output, drafts, blocks that are not free yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvsched.explain.words import are, blocks, listed, tokens
from kvsched.log import Defer, Leave, Return, TakeIn, Verify
from kvsched.steps import StepRecord


def taken_in(e: TakeIn, record: StepRecord) -> str | None:
    """Whose output reaches it although it does not run any more; None if all is as usual."""
    late = [
        i for i in record.emitted if i in record.live and record.live[i].num_stale_output_tokens
    ]
    if not late:
        return None
    verb = "does not run any more and still gets its" if len(late) == 1 else "get their"
    return f"The output of step {e.step} is taken in: {listed(late)} {verb} token in flight."


def _deferred(e: Defer) -> str:
    count = len(e.blocks)
    return (
        f"A pass in flight may still read what {e.id} gives back: {blocks(count)} {are(count)} "
        "free only when it is back."
    )


def _returned(e: Return) -> str:
    count = len(e.front) + len(e.back)
    return f"The pass that could read them is back: {blocks(count)} of {e.id} {are(count)} free."


def _verified(e: Verify) -> str:
    return f"{e.id} computes 1 token and {tokens(e.drafts)} drafted after it."


def _left(e: Leave) -> str:
    return f"{e.id} is in no queue any more: nobody will find it again."


FLIGHT: dict[type, Callable[[Any], str | None]] = {
    Defer: _deferred,
    Leave: _left,
    Return: _returned,
    Verify: _verified,
}
