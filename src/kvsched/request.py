"""A neutral request, and token content held as runs of consecutive ids.

A block's identity in a prefix cache is the content of all tokens up to its end, so a prompt is
described by what its tokens *are*. A run ``(first, count)`` stands for the tokens ``first``,
``first + 1``, …, ``first + count - 1``: 8,192 tokens cost one pair.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Runs = tuple[tuple[int, int], ...]
BlockContent = int | tuple[int, ...]

EOS = 128_001
"""The end-of-sequence token of requests that end of themselves (Llama 3's)."""


@dataclass(frozen=True, slots=True)
class Stop:
    """When generation ends by what was generated, by vLLM's own names.

    ``eos_token_id`` None ignores EOS. ``min_tokens``: before so many outputs nothing ends it.
    ``repetition``: (max_pattern_size, min_pattern_size, min_count), or None.
    """

    eos_token_id: int | None = None
    stop_token_ids: tuple[int, ...] = ()
    min_tokens: int = 0
    repetition: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks for. Schedulers may read every field.

    ``prompt``: runs of token ids. ``max_tokens``: the client's cap on output tokens; the true
    output length is the executor's secret. ``arrival_time``: any integer, used by priority
    order. ``priority``: smaller is more urgent. ``grammar``: the output is constrained by a
    grammar that must be compiled first. ``resumable``: a streaming session, whose prompt may get
    further chunks. ``deadline``: when the client wants it done, for schedulers that look.
    """

    id: str
    prompt: Runs
    max_tokens: int
    arrival_time: int = 0
    priority: int = 0
    stop: Stop | None = None
    grammar: bool = False
    resumable: bool = False
    deadline: int | None = None

    @property
    def num_prompt_tokens(self) -> int:
        """Prompt length in tokens."""
        return sum(count for _, count in self.prompt)


def runs_from_block_ids(block_ids: Sequence[int], block_tokens: int, num_tokens: int) -> Runs:
    """Turn a trace's block ids (``block_tokens`` tokens each) into runs of token ids.

    Block id ``h`` becomes the tokens ``h * block_tokens`` and following, so equal ids at equal
    positions share a prefix and nothing else does. The last block may be partly used:
    ``num_tokens`` is the prompt's length.
    """
    tokens = Tokens((h * block_tokens, block_tokens) for h in block_ids)
    tokens.truncate(num_tokens)
    return tokens.runs()


class Tokens:
    """A growing sequence of token ids, stored as maximal runs of consecutive ids."""

    __slots__ = ("_firsts", "_next", "_starts", "length")

    def __init__(self, runs: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._firsts: list[int] = []
        self._next: int | None = None
        self.length = 0
        for first, count in runs:
            self.extend(first, count)

    def append(self, token: int) -> None:
        """Add one token at the end."""
        if token != self._next:
            self._starts.append(self.length)
            self._firsts.append(token)
        self._next = token + 1
        self.length += 1

    def extend(self, first: int, count: int) -> None:
        """Add the run ``first, first + 1, …`` of ``count`` tokens at the end."""
        if count > 0:
            self.append(first)
            self._next = first + count
            self.length += count - 1

    def append_all(self, tokens: Iterable[int]) -> None:
        """Add tokens at the end."""
        for token in tokens:
            if token == self._next:
                self._next += 1
                self.length += 1
            else:
                self.append(token)

    @property
    def last(self) -> int:
        """The last token; there must be one."""
        assert self._next is not None
        return self._next - 1

    def between(self, start: int, stop: int) -> list[int]:
        """The tokens ``start`` to ``stop - 1``."""
        run = bisect_right(self._starts, start) - 1
        return [self._token(run, position) for position in range(start, stop)]

    def truncate(self, length: int) -> None:
        """Keep the first ``length`` tokens."""
        if length >= self.length:
            return
        keep = bisect_right(self._starts, length - 1)
        del self._starts[keep:], self._firsts[keep:]
        self.length = length
        self._next = self._firsts[-1] + length - self._starts[-1] if keep else None

    def runs(self) -> Runs:
        """The maximal runs, in order."""
        ends = [*self._starts[1:], self.length]
        return tuple(
            (first, end - start)
            for first, start, end in zip(self._firsts, self._starts, ends, strict=False)
        )

    def content(self, start: int, stop: int) -> BlockContent:
        """Canonical content of the tokens ``start`` to ``stop - 1``.

        The first token id if they are consecutive ids, else all of them. For a fixed
        ``stop - start`` two contents are equal exactly if the tokens are.
        """
        run = bisect_right(self._starts, start) - 1
        if run + 1 == len(self._starts) or self._starts[run + 1] >= stop:
            return self._firsts[run] + start - self._starts[run]
        return tuple(self.between(start, stop))

    def _token(self, run: int, position: int) -> int:
        while run + 1 < len(self._starts) and self._starts[run + 1] <= position:
            run += 1
        return self._firsts[run] + position - self._starts[run]
