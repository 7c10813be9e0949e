"""Requests and trees set up by hand, to drive one part of the scheduler alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvsched.request import Tokens
from kvsched.sglang import Config, Request
from kvsched.sglang.kv_cache import KVCache
from kvsched.sglang.req import Req

PRIVATE = 1_000_000
"""Where the token ids begin that occur in one request only."""

Ranges = Sequence[Sequence[int]]


def make_req(
    config: Config,
    number: int,
    prompt: Ranges,
    max_new: int = 1,
    priority: int | None = 0,
    ignore_eos: bool = False,
) -> Req:
    """A request of a recording, its id its number; ``max_new`` was cut to the pool already."""
    request = Request(
        id=str(number),
        prompt=tuple((first, count) for first, count in prompt),
        max_tokens=max_new,
        priority=priority or 0,
        no_priority=priority is None,
        ignore_eos=ignore_eos,
    )
    r = Req(request, config)
    r.max_new_tokens = max_new
    return r


def give(r: Req, tokens: Iterable[int]) -> None:
    """Append outputs."""
    for token in tokens:
        r.append(token)


def fill_tree(kv: KVCache, prefixes: Iterable[Ranges]) -> None:
    """Insert token ranges in order; the tree takes a page for each new one."""
    if kv.tree is None:
        return
    for ranges in prefixes:
        tokens = Tokens((first, count) for first, count in ranges)
        pages = kv.pool.take(kv.floor(tokens.length) // kv.page_size)
        present = kv.tree.insert(tokens.runs(), pages) // kv.page_size
        kv.pool.give(pages[:present])
