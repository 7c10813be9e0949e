"""Sentences about what is in flight: late output, drafts, blocks that are not free yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvsched.explain.words import are, blocks, listed, tokens
from kvsched.log import Defer, Leave, Return, TakeIn, Verify
from kvsched.steps import StepRecord


def late(record: StepRecord) -> tuple[str, ...]:
    """Who got output in this step and did not run any more when it came."""
    live = record.live
    return tuple(i for i in record.emitted if i in live and live[i].num_stale_output_tokens)


def taken_in(e: TakeIn, ids: tuple[str, ...]) -> str | None:
    """Whose output comes late; None if all is as usual."""
    if not ids:
        return None
    get = "does not run any more and still gets its" if len(ids) == 1 else "get their"
    return f"The output of step {e.step} is taken in: {listed(ids)} {get} token in flight."


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
