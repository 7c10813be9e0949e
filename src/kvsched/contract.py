"""The one contract every scheduler keeps: what it is asked, and what it answers.

``add`` and ``abort`` change who is waiting, ``schedule`` decides one step, ``update`` takes in
what the device returned. A beginner's scheduler needs ``add``, ``schedule``, ``update`` and
``has_work``; a plan needs no more than ``Plan({request_id: token_count})``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kvsched.request import Request, Runs, Stop

# The tests that can refuse, by the name a denial carries.
TOKEN = "token"
SLOT = "slot"
BLOCK = "block"
WATERMARK = "watermark"
WHOLE_SEQUENCE = "whole-sequence"
RESERVED = "reserved"
RESERVATION = "reservation"
DRAINING = "draining"
POLICY = "policy"


class Denial(NamedTuple):
    """A refusal: which test bound, and both sides of its inequality ``asked > limit``.

    ``need``: what the request wants (blocks, tokens or slots). ``cached``: prefix-hit blocks
    lying in the free queue, which taking would remove from it. ``headroom``: blocks the
    watermark keeps back. ``free``: what there is; ``reserved``: what of it is spoken for.
    ``have``: blocks it holds or has found, which the test does not charge again.
    """

    id: str
    test: str
    need: int
    cached: int = 0
    headroom: int = 0
    free: int = 0
    reserved: int = 0
    have: int = 0

    @property
    def asked(self) -> int:
        """Left side of the inequality."""
        return self.need + self.cached + self.headroom

    @property
    def limit(self) -> int:
        """Right side of the inequality."""
        return self.free - self.reserved

    @property
    def of_allocator(self) -> bool:
        """Did the block allocator refuse (as against a budget or a rule)?"""
        return self.test in (BLOCK, WATERMARK, WHOLE_SEQUENCE, RESERVED)


class Row(NamedTuple):
    """One request's part of a pass: ``tokens`` tokens from position ``start`` on, in ``blocks``.

    ``blocks`` is the scheduler's own table, not a copy.
    """

    id: str
    start: int
    tokens: int
    blocks: Sequence[int]


@dataclass(slots=True)
class Plan:
    """One step's decision. ``scheduled`` maps request id to token count, in scheduling order.

    ``sampling``: ids whose pass ends at their last token, so that a token comes back; None means
    all of them. ``admitted``, ``resumed``, ``victims``: ids in the order chosen. ``kind``: the
    kind of pass (vLLM runs only ``mixed`` ones). ``drafts``: how many of a request's tokens are
    guesses that the pass verifies. ``rows`` is read off the scheduler's tables, so
    it holds until this plan's ``update`` and no longer.
    """

    scheduled: dict[str, int] = field(default_factory=dict)
    sampling: list[str] | None = None
    admitted: list[str] = field(default_factory=list)
    resumed: list[str] = field(default_factory=list)
    victims: list[str] = field(default_factory=list)
    denials: list[Denial] = field(default_factory=list)
    kind: str = "mixed"
    drafts: dict[str, int] = field(default_factory=dict)
    read_rows: Callable[[Plan], list[Row]] | None = None

    @property
    def rows(self) -> list[Row]:
        """The pass, row by row; empty for a scheduler that keeps no blocks."""
        return self.read_rows(self) if self.read_rows is not None else []


@dataclass(slots=True)
class Result:
    """What came back for a plan.

    ``tokens``: the sampled tokens of each request: one, and one for each draft that was right.
    ``drafts``: how many tokens were guessed for its next pass. From the KV connector: ids whose
    load into the cache (``finished_recving``) or out of it (``finished_sending``) ended, and
    blocks whose load failed (``invalid_blocks``).
    """

    tokens: Mapping[str, Sequence[int]] = field(default_factory=dict)
    finished_recving: Sequence[str] = ()
    finished_sending: Sequence[str] = ()
    invalid_blocks: Sequence[int] = ()
    drafts: Mapping[str, int] = field(default_factory=dict)


class Match(NamedTuple):
    """A connector's answer: ``tokens`` beyond the local hits, None if it cannot say yet."""

    tokens: int | None
    asynchronous: bool


class World:
    """What a scheduler waits for outside itself. In this one nothing waits."""

    def grammar(self, request_id: str) -> str:
        """``ready``, ``pending`` or ``failed``: the state of a request's grammar."""
        return "ready"

    def accepts(self, request_id: str, tokens: Sequence[int]) -> bool:
        """Does the grammar accept the tokens just generated?"""
        return True

    def match(self, request_id: str, num_tokens: int, local: int) -> Match | None:
        """KV the connector offers a request of ``num_tokens``, ``local`` of them hit locally.

        None: no connector serves this request.
        """
        return None

    def load(self, request_id: str, tokens: int, asynchronous: bool, blocks: list[int]) -> None:
        """A load of ``tokens`` into the request's ``blocks`` begins."""

    def keeps_blocks(self, request_id: str, num_computed_tokens: int) -> bool:
        """Must a finished request keep its blocks until they were sent elsewhere?"""
        return False


class NextChunk(NamedTuple):
    """The next input of a streaming session.

    ``max_tokens`` is what the client sent; vLLM 0.28.0 ignores it and keeps the first chunk's.
    """

    id: str
    prompt: Runs
    arrival_time: int
    stop: Stop | None
    max_tokens: int


class Close(NamedTuple):
    """The end of a streaming session's input."""

    id: str


class Reset(NamedTuple):
    """Empty the prefix cache; ``running``: preempt everyone first."""

    running: bool


class Pause(NamedTuple):
    """``none`` to go on, ``new`` to admit nobody, ``all`` to schedule nothing."""

    state: str


Control = NextChunk | Close | Reset | Pause


class Executor(Protocol):
    """Runs a plan and returns its result; ``due``: is anything still to come from outside?"""

    def __call__(self, plan: Plan) -> Result: ...

    def due(self) -> bool: ...


class Script(Protocol):
    """Tokens that are known beforehand: an executor that leaves nothing open."""

    def ahead(self, request_id: str) -> range:
        """The next tokens of a request, as long as each is the last one's successor."""

    def skip(self, request_ids: Iterable[str], steps: int) -> None:
        """So many tokens of each were taken from ``ahead``."""


class Stretch(Protocol):
    """Steps that decide nothing: everybody decodes, at most ``most`` times, by the same ``plan``.

    ``context``: tokens attended to in the first of them; a later one adds one per request.
    ``steps``: how many were taken.
    """

    plan: Plan
    context: int
    most: int
    steps: int

    def step(self) -> bool:
        """Take one; False, and none taken, if something may have to be decided in it."""

    def close(self) -> None:
        """Leave the scheduler as these steps would have left it, played one by one."""


class Scheduler(Protocol):
    """What the engine loop calls. Times are integers: ticks or nanoseconds.

    One with a true attribute ``rests`` is not asked for a plan while it has no work; any other is
    asked in every step. One with a true attribute ``idles`` is asked once more when all are done
    and time is about to jump to the next arrival.
    """

    def add(self, request: Request) -> Denial | None:
        """Take a request in; a denial says it was turned away at the door."""

    def abort(self, request_id: str) -> None:
        """Forget a request; an unknown or finished id has no effect."""

    def schedule(self, now: int) -> Plan:
        """Decide one step."""

    def update(self, plan: Plan, result: Result) -> None:
        """Take in a plan's result."""

    def has_work(self) -> bool:
        """Is any request unfinished?"""

    def control(self, op: Control) -> None:
        """Carry out an order only some engines know."""
