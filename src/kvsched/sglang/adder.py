"""The admission test: a budget object made fresh for each prefill pass, and its three verdicts.

SGLang 0.5.18 managers/schedule_policy.py (S below). Sums of floats are taken in the engine's
order, so that they are equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from math import floor

from kvsched.contract import POLICY, RESERVATION, TOKEN, Denial
from kvsched.sglang.config import Config
from kvsched.sglang.events import Budgets
from kvsched.sglang.kv_cache import KVCache
from kvsched.sglang.req import Req


class Verdict(StrEnum):
    """Whether the next request may be tried. Not whether this one was added."""

    CONTINUE = "CONTINUE"
    NO_TOKEN = "NO_TOKEN"
    OTHER = "OTHER"


class PrefillAdder:
    """One pass's budgets.

    ``total_offset``: tokens spoken for, with the outputs expected of everyone who runs;
    ``current_offset``: those taken by this pass alone. What remains of memory is free plus
    evictable tokens less an offset, and falls when a found prefix is locked. ``input_left`` and
    ``chunk_left`` (None with chunking off) are what the pass and the chunk may still compute.
    ``can_run``: who is admitted; ``preempted``: who made room; ``denial``: the last refusal.
    ``tested``: both sides of the last request's memory test, None if it did not come to it.
    """

    def __init__(
        self,
        config: Config,
        kv: KVCache,
        running: Sequence[Req],
        ratio: float,
        mixed_decodes: int = 0,
    ) -> None:
        self.config = config
        self.kv = kv
        self.page_size = config.page_size
        self.running = running
        self.ratio = ratio
        self.total_offset = mixed_decodes + sum(self.reserve(r) for r in running)
        self.current_offset = mixed_decodes
        self.input_left = config.max_prefill_tokens - mixed_decodes
        self.chunk_left = (
            None
            if config.chunked_prefill_size is None
            else config.chunked_prefill_size - mixed_decodes
        )
        self.can_run: list[Req] = []
        self.preempted: list[Req] = []
        self.new_chunked: Req | None = None
        self.denial: Denial | None = None
        self.tested: tuple[int, float] | None = None
        self.hit_tokens = 0
        self.input_tokens = 0

    # -- what is left -----------------------------------------------------------------------

    @property
    def total_left(self) -> float:
        """Memory beyond what everyone is expected to need (S:663)."""
        return self.kv.available + self.kv.evictable - self.total_offset

    @property
    def current_left(self) -> float:
        """Memory beyond what this pass takes (S:700)."""
        return self.kv.available + self.kv.evictable - self.current_offset

    @property
    def budgets(self) -> Budgets:
        """All four."""
        return Budgets(self.total_left, self.current_left, self.input_left, self.chunk_left)

    def state(self) -> Verdict:
        """May anyone else be tried (S:834)?"""
        if self.total_left <= 0 or self.current_left <= 0:
            return Verdict.NO_TOKEN
        if self.input_left <= 0 or (self.chunk_left is not None and self.chunk_left <= 0):
            return Verdict.OTHER
        return Verdict.CONTINUE

    # -- the engine's decisions -------------------------------------------------------------

    def reserve(self, r: Req) -> float:
        """Tokens a running request is expected to grow by: a share of what it may (S:654).

        Finished requests that linger in the batch count too.
        """
        return min(r.remaining, self.config.clip_max_new_tokens_estimation) * self.ratio

    def wants(self, r: Req) -> int:
        """Tokens a request is tested for: what it lacks, what it may still give, and a page.

        The clip hides outputs beyond it from the test; it stops nothing (S:1219).
        """
        outputs = min(max(r.remaining, 0), self.config.clip_max_new_tokens_estimation)
        return r.fill_len - r.prefix_len + outputs + self.page_size

    def charge(self, r: Req) -> int:
        """Outputs an admitted request is charged: all of them, also those a resumed one gave.

        The test asks for less (S:1366); so a resumed request is over-charged within its pass.
        """
        return min(r.max_new_tokens, self.config.clip_max_new_tokens_estimation)

    def refuses(self, wanted: int) -> bool:
        """Strict: what exactly fills the memory is refused (S:1236)."""
        return wanted >= self.total_left

    # -- one request ------------------------------------------------------------------------

    def add(self, r: Req) -> Verdict:
        """Admit ``r``, whose prefix has just been matched, as a whole, in part, or not (S:1201)."""
        self.tested = None
        most = self.config.prefill_max_requests
        if most is not None and len(self.can_run) >= most:
            return self._deny(r, Verdict.OTHER, POLICY, len(self.can_run) + 1, most)
        wanted = self.wants(r)
        self.tested = wanted, self.total_left
        if self.refuses(wanted):
            return self._no_room(r, wanted)
        computed = self.kv.ceil(r.fill_len - r.prefix_len)
        if self.chunk_left is None and self.can_run and computed >= self.input_left:
            return self._deny(r, Verdict.OTHER, TOKEN, computed + 1, self.input_left)
        self.kv.lock(r)
        if self.refuses(wanted):  # the prefix was evictable until now
            verdict = self._no_room(r, wanted)
        elif self.chunk_left is None or computed <= self.chunk_left:
            return self.admit(r, r.fill_len, computed, self.charge(r))
        elif (tokens := self.chunk(r, self.chunk_left)) > 0:
            self.new_chunked = r
            return self.admit(r, r.prefix_len + tokens, tokens, 0)
        else:
            verdict = self._deny(r, Verdict.OTHER, TOKEN, self.page_size, self.chunk_left)
        self.kv.unlock(r)
        return verdict

    def chunk(self, r: Req, left: int) -> int:
        """How much of a prompt that is too long for the chunk is computed, 0 if nothing (S:1380).

        It ends at a page's end, and is a multiple of the alignment if one is asked for.
        """
        tokens = self.kv.floor(max(left, 0))
        align = self.config.truncation_align_size
        if align is not None:
            tokens -= tokens % align
        return max(0, self.kv.floor(r.prefix_len + tokens) - r.prefix_len)

    def admit(self, r: Req, end: int, computed: int, outputs: int) -> Verdict:
        """Put ``r``, locked, on the list; the verdict is about who comes next (S:1428)."""
        r.extend_range = (r.prefix_len, end)
        self.can_run.append(r)
        self.hit_tokens += r.prefix_len
        self.deduct(computed, outputs)
        return self.state()

    def add_chunked(self, r: Req) -> bool:
        """The next chunk of ``r``, which is never refused; True if it is not the last (S:997).

        Where memory is short of the chunk, it gets what there is, or the chunk if that is nothing.
        """
        assert self.chunk_left is not None
        most = min(self.chunk_left, int(self.total_left))
        if most <= 0:
            most = self.chunk_left
        truncated = r.fill_len - r.prefix_len > most
        tokens = min(r.fill_len - r.prefix_len, most)
        r.extend_range = (r.prefix_len, r.prefix_len + tokens)
        self.can_run.append(r)
        self.deduct(tokens, 0 if truncated else self.charge(r))
        return truncated

    def deduct(self, computed: int, outputs: int) -> None:
        """Charge a row to all four budgets, with one page more to memory (S:857)."""
        computed = self.kv.ceil(computed)
        self.total_offset += computed + outputs + self.page_size
        self.current_offset += computed + self.page_size
        self.input_left -= computed
        if self.chunk_left is not None:
            self.chunk_left -= computed
        self.input_tokens += computed

    # -- refusals ---------------------------------------------------------------------------

    def exhausted(self, r: Req) -> Denial:
        """Why ``r`` is not tried after a verdict that was about the budgets."""
        memory = min(self.total_left, self.current_left)
        if memory <= 0:
            return Denial(r.id, RESERVATION, 1, free=floor(memory))
        left = self.input_left if self.chunk_left is None else min(self.input_left, self.chunk_left)
        return Denial(r.id, TOKEN, 1, free=left)

    def _no_room(self, r: Req, wanted: int) -> Verdict:
        """The memory test's refusal. One token more is reserved, as the test is strict."""
        free = self.kv.available + self.kv.evictable
        reserved = floor(self.total_offset) + 1
        self.denial = Denial(r.id, RESERVATION, wanted, free=free, reserved=reserved)
        return Verdict.NO_TOKEN

    def _deny(self, r: Req, verdict: Verdict, test: str, need: int, free: int) -> Verdict:
        self.denial = Denial(r.id, test, need, free=free)
        return verdict
