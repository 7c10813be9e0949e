"""Admission without a radix cache of requests that only their length ends: the future is known.

Instead of a reservation, the adder plays out who ends when, and admits if memory holds until
then. SGLang 0.5.18 managers/schedule_policy.py:1065-1199.
"""

from __future__ import annotations

from math import floor
from typing import NamedTuple

from kvsched.contract import RESERVATION, TOKEN
from kvsched.sglang.adder import PrefillAdder, Verdict
from kvsched.sglang.req import Req

IGNORE_EOS_RESERVE_TOKENS = 1


class Ending(NamedTuple):
    """A request that still gives ``left`` tokens and then gives ``occupied`` back."""

    left: float
    occupied: int


class Adder(PrefillAdder):
    """The adder with both ways in. ``endings`` is None until the second one was used."""

    endings: list[Ending] | None = None

    def add(self, r: Req) -> Verdict:
        """Play out the endings if only its length ends ``r`` and there is no tree (S:1213)."""
        most = self.config.prefill_max_requests
        if not r.ignore_eos or self.kv.tree is not None or (most and len(self.can_run) >= most):
            return super().add(r)
        return self.add_ignore_eos(r)

    def add_ignore_eos(self, r: Req) -> Verdict:
        """Admit ``r`` if nobody runs out of memory before somebody ends.

        Neither clip nor, for such requests, ``new_token_ratio`` plays a part. A refused request
        stays among the endings of this pass.
        """
        need = r.fill_len - r.prefix_len
        computed = self.kv.ceil(need)
        left = min(self.current_left, self.total_left)
        self.tested = computed, left
        if computed > left:
            return self._deny(r, Verdict.NO_TOKEN, RESERVATION, computed, floor(left))
        self._include(r)
        shortage = self.shortage(self.current_left - computed)
        if shortage is not None:
            want, have = shortage
            return self._deny(r, Verdict.NO_TOKEN, RESERVATION, floor(want) + 1, floor(have))
        if self.chunk_left is None or need <= self.chunk_left:
            return self.admit(r, r.fill_len, need, self.charge(r))
        if self.chunk_left <= 0:
            return self._deny(r, Verdict.OTHER, TOKEN, 1, self.chunk_left)
        self.new_chunked = r
        return self.admit(r, self.chunk_left, self.chunk_left, 0)

    def ending(self, r: Req) -> Ending:
        """When ``r`` is expected to end."""
        share = 1.0 if r.ignore_eos else self.ratio
        return Ending(r.max_new_tokens * share - r.num_output_tokens, r.num_tokens)

    def shortage(self, free: float) -> tuple[float, float] | None:
        """Where memory runs out, going from ending to ending: want and have, or None (S:1125).

        Until the next one ends, all that are left each take a token a step.
        """
        endings = self.endings or []
        for i, ending in enumerate(endings):
            batch = len(endings) - i
            have = free - ending.left * batch
            if have <= IGNORE_EOS_RESERVE_TOKENS * batch:
                return ending.left * batch + IGNORE_EOS_RESERVE_TOKENS * batch, free
            free += ending.occupied
        return None

    def _include(self, r: Req) -> None:
        """Keep the endings in order of time.

        The quirk (S:1098-1103): one later than all others goes before the last, not behind it.
        """
        mine = self.ending(r)
        if self.endings is None:
            everyone = [self.ending(q) for q in (r, *self.running, *self.can_run)]
            self.endings = sorted((e for e in everyone if e.left > 0), key=lambda e: e.left)
        elif mine.left > 0:
            later = (i for i, e in enumerate(self.endings) if mine.left <= e.left)
            self.endings.insert(next(later, max(0, len(self.endings) - 1)), mine)
