"""The scripted outside of a recording: sampled tokens, drafts, grammars, the KV connector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from kvsched.conform.recording import Recording
from kvsched.contract import Match, Plan, Result, World
from kvsched.log import Deliver, Log

FIRST_TOKEN = 1_000_000
TOKENS_PER_REQUEST = 10_000


class RecordedWorld(World):
    """Answers as the recording's driver did, in the step that ``log`` is in.

    It is the executor too: ``world(plan)`` starts a batch, ``settle`` says what came of it.
    """

    def __init__(self, recording: Recording, log: Log) -> None:
        self.log = log
        self.read = 0
        self.specs = {r["id"]: r for r in recording.requests}
        self.first = {
            r["id"]: FIRST_TOKEN + TOKENS_PER_REQUEST * i for i, r in enumerate(recording.requests)
        }
        self.sent = dict.fromkeys(self.specs, 0)
        self.expected = dict.fromkeys(self.specs, 0)
        self.used: Counter[tuple[str, str]] = Counter()
        spec = recording.config.get("spec") or {}
        self.most_drafts: int = spec.get("num_speculative_tokens", 0)
        self.asked = dict.fromkeys(self.specs, 0)
        self.loads = dict.fromkeys(self.specs, 0)
        self.loading: list[tuple[int, str, list[int]]] = []
        self.sending: list[tuple[int, str]] = []
        self.failed: list[int] = []
        grammars = (r.get("grammar", {}) for r in recording.requests)
        self.last_grammar: int = max(g.get("ready") or 0 for g in grammars)

    # -- the model --------------------------------------------------------------------------

    @property
    def step(self) -> int:
        """The engine step now being made."""
        return self.log.step

    def due(self) -> bool:
        """Is a load, a send or a grammar still under way?"""
        return bool(self.loading or self.sending) or self.step < self.last_grammar

    def __call__(self, plan: Plan) -> Result:
        """How many tokens will come back. Which they are is settled when they do."""
        tokens = {i: [0] * self._count(i, plan) for i in plan.sampling or ()}
        return Result(tokens)

    def settle(self, plan: Plan, result: Result) -> Result:
        """What a batch brings back in this step, as the recording's driver made it up."""
        self._correct()
        sampled = {i: self._sample(i, len(tokens)) for i, tokens in result.tokens.items()}
        recving, invalid = self._finished_loads()
        sending = [i for due, i in self.sending if due <= self.step]
        self.sending = [(due, i) for due, i in self.sending if due > self.step]
        invalid += self.failed
        self.failed = []
        drafts = {i: self._next("drafts", i, self.most_drafts) for i in sampled}
        return Result(sampled, recving, sending, invalid, drafts)

    def _count(self, request_id: str, plan: Plan) -> int:
        """One token, and one for each accepted draft; dummies are rejected, off the script."""
        drafts = plan.drafts.get(request_id, 0)
        if not drafts or request_id in plan.admitted or request_id in plan.resumed:
            return 1
        return 1 + self._next("accepts", request_id, drafts)

    def _next(self, script: str, request_id: str, most: int) -> int:
        """The script's next number, from a cyclic list, at most ``most``."""
        numbers = self.specs[request_id].get(script)
        if numbers is None:
            return 0
        used = self.used[script, request_id]
        self.used[script, request_id] += 1
        return min(most, int(numbers[used % len(numbers)]))

    def _sample(self, request_id: str, count: int) -> list[int]:
        """Tokens ``first + k``, k tokens delivered so far, or what the script says instead."""
        k = self.sent[request_id]
        self.sent[request_id] += count
        self.expected[request_id] = count
        said = self.specs[request_id].get("sample", {})
        return [int(said.get(str(i), self.first[request_id] + i)) for i in range(k, k + count)]

    def _correct(self) -> None:
        """Count only what reached its client: a Deliver event says where that differs."""
        for entry in self.log.entries[self.read :]:
            if isinstance(entry.event, Deliver):
                self.sent[entry.event.id] += entry.event.tokens - self.expected[entry.event.id]
        self.read = len(self.log.entries)

    # -- grammars ---------------------------------------------------------------------------

    def grammar(self, request_id: str) -> str:
        script = self.specs[request_id]["grammar"]
        if script.get("ready") is None or self.step < script["ready"]:
            return "pending"
        return "failed" if script.get("error") else "ready"

    def accepts(self, request_id: str, tokens: Sequence[int]) -> bool:
        reject_at = self.specs[request_id]["grammar"].get("reject_at")
        return reject_at is None or self.first[request_id] + reject_at not in tokens

    # -- the KV connector -------------------------------------------------------------------

    def match(self, request_id: str, num_tokens: int, local: int) -> Match | None:
        script = self.specs[request_id].get("remote")
        if script is None:
            return None
        self.asked[request_id] += 1
        if self.asked[request_id] <= script.get("ask", 0):
            return Match(None, False)
        if self.loads[request_id] >= script.get("times", float("inf")):
            return Match(0, False)
        asynchronous = script.get("async", True)
        cap = num_tokens if asynchronous else num_tokens - 1
        tokens = max(0, min(script["tokens"], cap) - local)
        return Match(tokens, asynchronous and tokens > 0)

    def load(self, request_id: str, tokens: int, asynchronous: bool, blocks: list[int]) -> None:
        script = self.specs[request_id]["remote"]
        self.loads[request_id] += 1
        bad: list[int] = []
        if self.loads[request_id] <= script.get("fails", 1):
            bad = [blocks[index] for index in script.get("fail", ()) if index < len(blocks)]
        if asynchronous:
            self.loading.append((self.step + script.get("delay", 1), request_id, bad))
        else:
            self.failed += bad

    def _finished_loads(self) -> tuple[list[str], list[int]]:
        due = [entry for entry in self.loading if entry[0] <= self.step]
        self.loading = [entry for entry in self.loading if entry[0] > self.step]
        return [i for _, i, _ in due], [block for _, _, bad in due for block in bad]

    def keeps_blocks(self, request_id: str, num_computed_tokens: int) -> bool:
        send: Any = self.specs[request_id].get("remote", {}).get("send")
        if send is None or num_computed_tokens == 0:
            return False
        self.sending.append((self.step + send, request_id))
        return True
