"""A request: what the client asks beyond the neutral part, and what the scheduler keeps of it."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from kvsched.request import Request as NeutralRequest
from kvsched.request import Runs, Tokens
from kvsched.sglang.config import Config
from kvsched.sglang.keys import cut
from kvsched.sglang.radix import Node


@dataclass(frozen=True, slots=True)
class Request(NeutralRequest):
    """A neutral request with SGLang's own fields.

    ``ignore_eos``: no token ends it, and the adder counts on that. ``routing_key``: what the
    policy of that name groups by. ``no_priority``: the client gave none, which is the worst.
    """

    ignore_eos: bool = False
    routing_key: str | None = None
    no_priority: bool = False


class Req:
    """A request inside the scheduler; field names are SGLang's own (managers/schedule_batch.py).

    ``tokens(n)`` are the first of prompt and outputs. ``kv_committed_len`` of them have KV, in
    ``pages``; those of the first ``cache_protected_len`` are the tree's, under the lock on
    ``last_node``. ``prefix_len`` and ``extend_range`` say what the last pass found and computed,
    ``fill_len`` what it aimed at. ``entry_order`` orders arrivals and requeues of one moment,
    ``wait_queue_entry_time`` is when, None before the first ``schedule()``. ``finished``: how, once
    it ended by itself. ``to_finish``: an abort waiting for the next token. ``abort_sent``: the
    client was told that it will not be served.
    """

    __slots__ = (
        "_known",
        "abort_sent",
        "cache_protected_len",
        "entry_order",
        "extend_range",
        "fill_len",
        "finished",
        "has_slot",
        "id",
        "ignore_eos",
        "inflight_middle_chunks",
        "is_retracted",
        "kv_committed_len",
        "last_node",
        "max_new_tokens",
        "num_matched_prefix_tokens",
        "num_output_tokens",
        "num_prompt_tokens",
        "output_ids",
        "pages",
        "prefix_len",
        "priority",
        "retraction_count",
        "routing_key",
        "stop_token_ids",
        "to_finish",
        "wait_queue_entry_time",
    )

    def __init__(self, request: NeutralRequest, config: Config) -> None:
        own = request if isinstance(request, Request) else None
        self.id = request.id
        self.priority = request.priority
        if own is not None and own.no_priority and config.enable_priority_scheduling:
            self.priority = worst_priority(config)
        self.ignore_eos = own is not None and own.ignore_eos
        self.routing_key = own.routing_key if own is not None else None
        self.stop_token_ids = _stop_tokens(request)
        self._known = Tokens(request.prompt)
        self.num_prompt_tokens = self._known.length
        self.num_output_tokens = 0
        self.output_ids: list[int] = []
        self.max_new_tokens = clipped(request.max_tokens, self.num_prompt_tokens, config)
        self.wait_queue_entry_time: float | None = None
        self.entry_order: float = 0
        self.num_matched_prefix_tokens = 0
        self.fill_len = 0
        self.prefix_len = 0
        self.extend_range = (0, 0)
        self.kv_committed_len = 0
        self.cache_protected_len = 0
        self.last_node: Node | None = None
        self.pages: list[int] = []
        self.has_slot = False
        self.inflight_middle_chunks = 0
        self.is_retracted = False
        self.retraction_count = 0
        self.finished: str | None = None
        self.to_finish: str | None = None
        self.abort_sent = False

    @property
    def num_tokens(self) -> int:
        """Prompt and outputs; retraction keeps both."""
        return self.num_prompt_tokens + self.num_output_tokens

    @property
    def remaining(self) -> int:
        """Outputs it may still give."""
        return self.max_new_tokens - self.num_output_tokens

    @property
    def over(self) -> bool:
        """Has it ended, one way or another? Nothing more is computed for it."""
        return self.finished is not None or self.abort_sent

    def append(self, token: int) -> None:
        """Add a sampled token."""
        self.output_ids.append(token)
        self.num_output_tokens += 1

    def tokens(self, count: int) -> Runs:
        """The first ``count`` of prompt and outputs, as runs."""
        known = self._known
        if known.length < count:
            known.append_all(self.output_ids[known.length - self.num_prompt_tokens :])
        return cut(known.runs(), 0, count)


def worst_priority(config: Config) -> int:
    """What no priority counts as (managers/scheduler.py:2742)."""
    return sys.maxsize if config.schedule_low_priority_values_first else -sys.maxsize - 1


def clipped(max_new_tokens: int, num_prompt_tokens: int, config: Config) -> int:
    """The outputs a request may have, cut once at arrival (managers/scheduler.py:2176).

    So that it fits the context with one token to spare, and the pool with one page and one token.
    """
    page = config.page_size
    in_pages = -(-num_prompt_tokens // page) * page
    context = config.context_length - 1 - num_prompt_tokens - 1
    pool = config.num_pages * page - in_pages - page - 1
    return min(max_new_tokens, context, pool)


def _stop_tokens(request: NeutralRequest) -> tuple[int, ...]:
    """The tokens that end it, the end of sequence among them."""
    stop = request.stop
    if stop is None:
        return ()
    return stop.stop_token_ids + (() if stop.eos_token_id is None else (stop.eos_token_id,))
