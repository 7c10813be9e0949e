"""What the scheduler keeps about one request."""

from __future__ import annotations

from collections import deque

from kvsched.contract import NextChunk
from kvsched.inflight import InFlight
from kvsched.request import Request, Runs, Tokens
from kvsched.vllm.block_pool import HashChain
from kvsched.vllm.config import Config
from kvsched.vllm.status import WAITING, RequestStatus, check_transition


class RequestState(InFlight):
    """A request inside the scheduler; field names are vLLM's own (v1/request.py).

    ``num_tokens`` is prompt plus outputs (``unfolded`` are the newest, not yet in ``tokens``),
    ``num_computed_tokens`` those whose KV is or is being written, ``longest`` the ``num_tokens``
    at which it ends by length (max_tokens or max_model_len), ``block_hashes`` one name per full
    block of tokens, ``num_cached_blocks`` how many leading blocks of the table carry theirs.
    ``inbox`` is a session's queued chunks, None among them for its close. ``is_prefill_chunk``:
    its last pass left it prefilling. ``sampled_call``: the last call of ``schedule()`` whose pass
    samples for it. Both are kept only where somebody reads them.
    """

    __slots__ = (
        "block_hashes",
        "block_size",
        "block_table",
        "chain",
        "grammar",
        "inbox",
        "is_prefill_chunk",
        "longest",
        "max_model_len",
        "max_tokens",
        "num_cached_blocks",
        "num_preemptions",
        "num_prompt_tokens",
        "sampled_call",
        "status",
        "stop",
        "stop_reason",
        "tokens",
        "unfolded",
    )

    def __init__(self, request: Request, config: Config, chain: HashChain | None) -> None:
        self.tokens = Tokens(request.prompt)
        super().__init__(self.tokens.length)
        self.id = request.id
        self.priority = request.priority
        self.arrival_time = request.arrival_time
        self.max_tokens = request.max_tokens
        self.status = check_transition(request.id, None, WAITING)
        self.stop = request.stop
        self.stop_reason: int | str | None = None
        self.grammar = request.grammar
        self.inbox: deque[NextChunk | None] | None = deque() if request.resumable else None
        self.unfolded: list[int] = []
        self.num_prompt_tokens = self.num_tokens
        self.num_preemptions = 0
        self.max_model_len = config.max_model_len
        self.set_longest()
        self.block_size = config.block_size
        self.block_table: list[int] = []
        self.num_cached_blocks = 0
        self.chain = chain
        self.block_hashes: list[int] = []
        self.is_prefill_chunk = False
        self.sampled_call: int | None = None
        self.hash_full_blocks()

    @property
    def num_output_tokens(self) -> int:
        """Tokens generated so far; preemption keeps them."""
        return self.num_tokens - self.num_prompt_tokens

    def move_to(self, status: RequestStatus) -> None:
        """Change status, by a move the table has."""
        self.status = check_transition(self.id, self.status, status)

    @property
    def last_token(self) -> int:
        """The newest token."""
        return self.unfolded[-1] if self.unfolded else self.tokens.last

    def output_tokens(self) -> list[int]:
        """The generated tokens."""
        folded = self.tokens.between(self.num_prompt_tokens, self.tokens.length)
        return folded + self.unfolded

    def set_longest(self) -> None:
        """Derive the length at which generation ends."""
        self.longest = min(self.max_model_len, self.num_prompt_tokens + self.max_tokens)

    def truncate(self, num_tokens: int) -> None:
        """Drop every token from position ``num_tokens`` on; block names are kept."""
        self._fold()
        self.tokens.truncate(num_tokens)
        self.num_tokens = self.tokens.length

    def extend_prompt(self, runs: Runs) -> None:
        """Make all tokens the prompt, and add to it."""
        self._fold()
        for first, count in runs:
            self.tokens.extend(first, count)
        self.num_tokens = self.num_prompt_tokens = self.tokens.length
        self.set_longest()
        self.hash_full_blocks()

    def append(self, token: int) -> None:
        """Add a sampled token; a block's name is fixed the moment its last token is known."""
        self.unfolded.append(token)
        self.num_tokens += 1
        if self.num_tokens % self.block_size == 0:
            self.hash_full_blocks()

    def append_run(self, first: int, count: int) -> None:
        """Add ``count`` sampled tokens, ``first`` and its successors."""
        self._fold()
        self.tokens.extend(first, count)
        self.num_tokens += count
        self.hash_full_blocks()

    def hash_full_blocks(self) -> None:
        """Extend ``block_hashes`` to every full block of tokens (none with caching off)."""
        if self.chain is None:
            return
        self._fold()
        size = self.block_size
        parent = self.block_hashes[-1] if self.block_hashes else 0
        for k in range(len(self.block_hashes), self.num_tokens // size):
            parent = self.chain.name(parent, self.tokens.content(k * size, (k + 1) * size))
            self.block_hashes.append(parent)

    def _fold(self) -> None:
        self.tokens.append_all(self.unfolded)
        self.unfolded.clear()
