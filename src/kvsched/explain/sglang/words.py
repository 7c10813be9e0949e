"""Requests, pages and verdicts in words. A request known by a number alone is ``request 3``."""

from __future__ import annotations

from collections.abc import Iterable

from kvsched.explain.words import listed, n

VERDICTS = {
    "CONTINUE": "the next one may be tried",
    "NO_TOKEN": "memory is spoken for, so nobody else is tried, and batch_is_full is set",
    "OTHER": "what one pass may compute is spent, so nobody else is tried in it",
}
"""What a verdict means for those behind."""


def who(request_id: str) -> str:
    """A request's name."""
    return f"request {request_id}" if request_id.isdigit() else request_id


def whom(ids: Iterable[str]) -> str:
    """Several requests by name."""
    names = list(ids)
    if len(names) > 1 and all(name.isdigit() for name in names):
        return f"requests {listed(names)}"
    return listed(map(who, names))


def first(text: str) -> str:
    """A sentence begins with a capital where it begins with ``request``."""
    return text[0].upper() + text[1:] if text.startswith("request") else text


def pages(count: int) -> str:
    """A page count with its noun."""
    return "1 page" if count == 1 else f"{n(count)} pages"


def some(value: float) -> str:
    """Tokens of memory, which a share of expected outputs makes fractional: one decimal place."""
    return n(int(value)) if value == int(value) else f"{value:,.1f}"


def verb(ids: Iterable[str], one: str, many: str) -> str:
    """The verb that the number of requests wants."""
    return one if len(list(ids)) == 1 else many
