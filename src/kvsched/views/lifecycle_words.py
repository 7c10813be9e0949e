"""What a move of the lifecycle model did, in words; a refusal in the model's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kvsched.lifecycle import Lifecycle
from kvsched.lifecycle.moves import Played

Before = Mapping[str, Any]
"""A state as the view holds it."""


def says(model: Lifecycle, played: Played, before: Before) -> str:
    """One move in a sentence or three."""
    if played.refused is not None:
        return f"Refused: {played.refused}."
    return _TELL[played.move.what](model, played, before)


def _start(model: Lifecycle, played: Played, before: Before) -> str:
    request = model.requests[played.move.who]
    return (
        f"{request.id} comes with the prompt {_tokens(request.prompt)}. It has no page before its "
        "first step."
    )


def _step(model: Lifecycle, played: Played, before: Before) -> str:
    request = model.requests[played.move.who]
    was = _before(before, request.id)
    sampled = request.emitted[-1]
    if len(request.emitted) == 1:
        text = f"The prompt of {request.id} enters the model, {_rows(request.resident)}."
        ending = f"The client gets {sampled}, which has not entered: it is pending."
    else:
        text = f"{request.emitted[-2]}, which was pending, enters the model."
        ending = f"The client gets {sampled}, one new token; now that is pending."
    return f"{text}{_copied(was['pages'], request.pages, before)} {ending}"


def _copied(old: list[int], new: list[int], before: Before) -> str:
    """Copy on write: the last page was another's as well, or pinned."""
    changed = [(a, b) for a, b in zip(old, new, strict=False) if a != b]
    if not changed:
        return ""
    ((source, copy),) = changed
    page = before["table"][source]
    why = "is another's too" if len(page["owners"]) > 1 else "is pinned by a transfer"
    return f" Page {source} {why}, so it writes into a copy, page {copy}."


def _preempt(model: Lifecycle, played: Played, before: Before) -> str:
    request = model.requests[played.move.who]
    pages = _before(before, request.id)["pages"]
    kept = _tokens(request.prompt)
    if request.emitted:
        kept += f" and {_tokens(request.emitted)}"
    return (
        f"{request.id} drops {_pages(pages)} and keeps its history: {kept}. "
        f"{_freed(model, pages, played.freed)}"
    )


def _resume(model: Lifecycle, played: Played, before: Before) -> str:
    request = model.requests[played.move.who]
    if not played.replayed:
        return f"{request.id} is active again. Nothing of it had entered, so nothing is computed."
    return (
        f"{_rows(played.replayed)} of {request.id} {'is' if played.replayed == 1 else 'are'} "
        f"computed again: {_tokens(request.entered)}. Nothing is emitted, and {request.pending} is "
        f"still pending. Replay rows of {request.id} so far: {request.replay_rows}."
    )


def _fork(model: Lifecycle, played: Played, before: Before) -> str:
    parent = model.requests[played.move.who]
    if not parent.pages:
        return f"{played.move.more} is a copy of {parent.id}. There is no page to share yet."
    partial = parent.resident % model.page_size
    part = ", the partial last one too" if partial else ""
    return (
        f"{played.move.more} has the history of {parent.id} and names the same pages, "
        f"{_and(parent.pages)}{part}. No page is taken and no row computed."
    )


def _transfer(model: Lifecycle, played: Played, before: Before) -> str:
    producer = model.requests[played.move.who]
    receiver = model.requests[f"{producer.id}'"]
    if not producer.pages:
        return f"{receiver.id} will receive {producer.id}, which has no page yet."
    return (
        f"{_pages(producer.pages).capitalize()} of {producer.id} {_are(producer.pages)} being "
        f"copied into {_and(receiver.pages)}, the table of {receiver.id}. Both sides are pinned "
        "until the device acknowledges that the copy has drained."
    )


def _abort(model: Lifecycle, played: Played, before: Before) -> str:
    receiver = f"{played.move.who}'"
    pages = _before(before, receiver)["pages"]
    if _before(before, receiver)["state"] == "cancelled":
        return f"{receiver} has ended already; nothing changes. The pins stay until the drain."
    return (
        f"The transfer of {played.move.who} is given up and {receiver} ends. What the device does "
        f"goes on. {_freed(model, pages, played.freed)}"
    )


def _drained(model: Lifecycle, played: Played, before: Before) -> str:
    return (
        f"The device acknowledges: the transfer of {played.move.who} touches nothing any more. "
        f"{_free_now(played.freed)}"
    )


def _cancel(model: Lifecycle, played: Played, before: Before) -> str:
    was = _before(before, played.move.who)
    if was["state"] == "cancelled":
        return (
            f"{played.move.who} was cancelled before. A second time is harmless: nothing changes."
        )
    return f"{played.move.who} ends for good. {_freed(model, was['pages'], played.freed)}"


_TELL: dict[str, Callable[[Lifecycle, Played, Before], str]] = {
    "start": _start,
    "step": _step,
    "preempt": _preempt,
    "resume": _resume,
    "fork": _fork,
    "transfer": _transfer,
    "abort": _abort,
    "drained": _drained,
    "cancel": _cancel,
}


def _freed(model: Lifecycle, dropped: list[int], freed: tuple[int, ...]) -> str:
    """What became of the pages a table dropped: free, or whose they still are."""
    if not dropped:
        return "It had no page to give."
    kept = [page for page in dropped if page not in freed]
    shared = [page for page in kept if model.allocator.refs[page]]
    pinned = [page for page in kept if not model.allocator.refs[page]]
    parts = [_free_now(freed)]
    if shared:
        named = {r.id for r in model.requests.values() if set(r.pages) & set(shared)}
        parts.append(
            f"{_pages(shared).capitalize()} {_are(shared)} still named by {_and(sorted(named))}."
        )
    if pinned:
        many = (
            f"{_are(pinned)} pinned by a transfer and {'drains' if len(pinned) == 1 else 'drain'}"
        )
        parts.append(f"{_pages(pinned).capitalize()} {many}.")
    return " ".join(parts)


def _free_now(freed: tuple[int, ...]) -> str:
    return f"Free by it: {_pages(sorted(freed))}." if freed else "Free by it: none."


def _before(before: Before, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(r for r in before["requests"] if r["id"] == name)
    return found


def _pages(pages: Iterable[int]) -> str:
    numbers = list(pages)
    if not numbers:
        return "no page"
    return f"page{'' if len(numbers) == 1 else 's'} {_and(numbers)}"


def _and(names: Iterable[object]) -> str:
    *rest, last = map(str, names)
    return f"{', '.join(rest)} and {last}" if rest else last


def _are(pages: list[int]) -> str:
    return "is" if len(pages) == 1 else "are"


def _rows(count: int) -> str:
    return f"{count} row{'' if count == 1 else 's'}"


def _tokens(tokens: Iterable[object]) -> str:
    return ", ".join(map(str, tokens))
