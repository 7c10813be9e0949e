"""Runs a scheduler's plans on the model. It has no code for preemption, and needs none.

Where a request's KV lies, where its pass begins and how long it is, all comes with each row of the
plan. What the rows do not carry, the tokens, the adapter, the generator, is kept by request, not
by place in a batch. Each thing that must be right after a preemption is a method of its own;
``faults`` breaks one at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from torch import Tensor

from kvsched.contract import Plan, Result, Row
from kvsched.device.tiny.model import Llama, Piece
from kvsched.device.tiny.pages import PagedKV
from kvsched.device.tiny.sequence import Prompt
from kvsched.device.tiny.sequence import Sequence as Kept
from kvsched.log import Allocate, Log
from kvsched.sglang.events import Grow

NO_GUESS = -1
"""Where the scheduler pads with drafts that nobody made."""


class UnwrittenKV(RuntimeError):
    """A request attended to KV that nobody had computed."""


class Part(NamedTuple):
    """A row of the plan with its request: ``guesses`` are the last of its ``tokens`` tokens.

    ``recovers``: its request was thrown out, and has sampled nothing since.
    """

    kept: Kept
    start: int
    tokens: int
    table: Sequence[int]
    guesses: tuple[int, ...]
    recovers: bool

    @property
    def known(self) -> int:
        """Tokens of the request, guesses not counted, at the end of the row."""
        return self.start + self.tokens - len(self.guesses)


class Moment(NamedTuple):
    """A request was thrown ``out`` or came ``back`` when its client had ``outputs`` tokens.

    ``found``: tokens whose KV was there when it came back, in the cache or copied.
    """

    kind: str
    id: str
    outputs: int
    found: int


class TinyExecutor:
    """An executor for ``engine.run``, over as many pages as ``kv`` has.

    ``drafter``: a model that guesses ``drafts`` tokens after each output, without KV of its own.
    With ``log``, the run's, every page the scheduler hands out is wiped first, so that reading what
    nobody wrote raises UnwrittenKV instead of finding what lay there.
    """

    def __init__(
        self,
        model: Llama,
        prompts: Iterable[Prompt],
        kv: PagedKV,
        drafts: int = 0,
        drafter: Llama | None = None,
        log: Log | None = None,
    ) -> None:
        self.model, self.kv = model, kv
        self.drafts, self.drafter = drafts, drafter or model
        self.kept = {prompt.id: Kept(prompt) for prompt in prompts}
        self.tables: dict[str, Sequence[int]] = {}
        self.moments: list[Moment] = []
        self.recovering: set[str] = set()
        self.log = log
        self._read = 0

    def due(self) -> bool:
        """Nothing comes by itself."""
        return False

    def __call__(self, plan: Plan) -> Result:
        self.follow()
        for victim in plan.victims:
            kept = self.kept[victim]
            self.moments.append(Moment("out", victim, len(kept.outputs), 0))
            self.preempted(kept)
        parts = [self._part(row, plan) for row in plan.rows]
        if not parts:
            return Result()
        sampling = set(plan.scheduled if plan.sampling is None else plan.sampling)
        tokens, drafts = {}, {}
        for part, logits in zip(parts, self._forward(parts), strict=True):
            kept = part.kept
            if kept.prompt.id in sampling:
                self.recovering.discard(kept.prompt.id)
                new = self.sample(part, logits)
                self.accept(part, new)
                tokens[kept.prompt.id] = [kept.prompt.name(token) for token in new]
                drafts[kept.prompt.id] = self._guess(kept)
        return Result(tokens, drafts=drafts)

    # -- what must be right after a preemption ----------------------------------------------

    def preempted(self, kept: Kept) -> None:
        """A request was thrown out: nothing is to be done."""

    def inputs(self, part: Part) -> list[int]:
        """The tokens to feed: those known, the pending one last, and then the guesses."""
        return [*part.kept.tokens[part.start : part.known], *part.guesses]

    def positions(self, part: Part) -> range:
        """Where in its sequence each of them stands."""
        return range(part.start, part.start + part.tokens)

    def table(self, part: Part) -> Sequence[int]:
        """The pages that hold its KV."""
        return part.table

    def causal(self, part: Part) -> bool:
        """Does a token see only those before it? A pass of one token has no others."""
        return True

    def adapter(self, part: Part) -> int:
        """The LoRA it is computed with."""
        return part.kept.adapter

    def sample(self, part: Part, logits: Tensor) -> list[int]:
        """The token after the pending one, and one more for each guess that was right."""
        kept, first = part.kept, part.known - len(part.kept.prompt.tokens)
        new: list[int] = []
        for number, guess in enumerate((*part.guesses, NO_GUESS)):
            row = logits[len(logits) - 1 - len(part.guesses) + number]
            new.append(kept.draw(row, first + number))
            if new[-1] != guess:
                break
        return new

    def accept(self, part: Part, new: list[int]) -> None:
        """Put new tokens where the row ended, over whatever a dropped pass left there."""
        part.kept.tokens[part.known :] = new

    # -- the pass ---------------------------------------------------------------------------

    def _part(self, row: Row, plan: Plan) -> Part:
        kept, drafts = self.kept[row.id], plan.drafts.get(row.id, 0)
        if row.id in plan.resumed:
            self.recovering.add(row.id)
            self.moments.append(Moment("back", row.id, len(kept.outputs), row.start))
        recovers = row.id in self.recovering
        guesses = () if recovers else tuple(kept.guesses[:drafts])
        padded = guesses + (NO_GUESS,) * (drafts - len(guesses))
        part = Part(kept, row.start, row.tokens, row.blocks, padded, recovers)
        self.tables[row.id] = self.table(part)
        return part

    def _forward(self, parts: Sequence[Part]) -> list[Tensor]:
        """One pass; the logits of each part."""
        tokens: list[int] = []
        positions: list[int] = []
        pieces: list[Piece] = []
        for part in parts:
            tokens += [max(0, token) for token in self.inputs(part)]
            positions += self.positions(part)
            slots = self.kv.slots(self.table(part), 0, part.start + part.tokens)
            pieces.append(Piece(part.tokens, slots, self.adapter(part), self.causal(part)))
        logits = self.model.forward(tokens, positions, pieces, self.kv)
        ends = list(accumulate(part.tokens for part in parts))
        for part, end in zip(parts, ends, strict=True):
            if logits[end - part.tokens : end].isnan().any():
                raise UnwrittenKV(f"{part.kept.prompt.id} attends to KV that nobody computed")
        return [logits[end - part.tokens : end] for part, end in zip(parts, ends, strict=True)]

    def _guess(self, kept: Kept) -> int:
        """Let the drafter guess what follows; how many tokens it guessed."""
        kept.guesses = []
        for _ in range(self.drafts):
            logits = self.drafter.whole([*kept.tokens, *kept.guesses])
            kept.guesses.append(int(logits[-1].argmax()))
        return len(kept.guesses)

    def follow(self) -> None:
        """Wipe the pages that were handed out since last asked."""
        if self.log is None:
            return
        for entry in self.log.entries[self._read :]:
            event: object = entry.event
            if isinstance(event, Allocate):
                self.kv.wipe(event.blocks)
            elif isinstance(event, Grow):
                self.kv.wipe(event.pages)
        self._read = len(self.log.entries)
