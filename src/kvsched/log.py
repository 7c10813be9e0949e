"""The event log: the only thing a run leaves behind.

Events are facts, small and few: a decode step that takes no block leaves none. ``steps.py``
rebuilds every step from them. An event's place is (step, phase), stamped when it is added; the
order of the list is the order in which things happened.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, NamedTuple

from kvsched.contract import Denial


class Phase(IntEnum):
    """The parts of a step, in order."""

    ARRIVALS = 0
    SCHEDULE = 1
    MID = 2
    """Between ``schedule()`` and ``update()``, where an abort can fall."""
    UPDATE = 3


class Arrive(NamedTuple):
    """A request enters ``queue`` with this status."""

    id: str
    num_prompt_tokens: int
    max_tokens: int
    priority: int
    arrival_time: int
    status: str
    queue: str


class Admit(NamedTuple):
    """A waiting request starts to run: ``tokens`` now, after ``computed`` found or loaded.

    Of those, ``own_hits`` tokens were read from blocks this request itself had filled before it
    was preempted, ``shared_hits`` from blocks others filled.
    """

    id: str
    tokens: int
    computed: int
    own_hits: int
    shared_hits: int


class Resume(Admit):
    """As Admit, for a request that was preempted before."""


class Chunk(NamedTuple):
    """A running request that is still prefilling computes ``tokens`` in this step."""

    id: str
    tokens: int


class Verify(NamedTuple):
    """A decoding request computes its newest token and ``drafts`` guesses at those after it."""

    id: str
    drafts: int


class Sample(NamedTuple):
    """The pass just scheduled gives ``tokens`` tokens, where one is the rule."""

    id: str
    tokens: int


class Propose(NamedTuple):
    """``drafts`` tokens were guessed for the next pass of ``id``."""

    id: str
    drafts: int


class Skip(NamedTuple):
    """No batch was made in this step: nobody could run."""


class TakeIn(NamedTuple):
    """The output of the batch that step ``step`` made is taken in now, asynchronously."""

    step: int


class Idle(NamedTuple):
    """Running requests that compute nothing in this step."""

    ids: tuple[str, ...]


class Allocate(NamedTuple):
    """Blocks appended to a request's table: ``hits`` found in the cache, then ``blocks`` taken.

    ``free`` blocks are left in the free queue.
    """

    id: str
    hits: tuple[int, ...]
    blocks: tuple[int, ...]
    free: int


class Evict(NamedTuple):
    """Cached blocks that lost their content because ``by`` took them."""

    by: str
    blocks: tuple[int, ...]


class Cache(NamedTuple):
    """Blocks of ``id`` that carry a hash from now on."""

    id: str
    blocks: tuple[int, ...]


class Free(NamedTuple):
    """Blocks ``id`` gave back that nobody else holds.

    ``front`` now stands at the head of the free queue, ``back`` at its end, each in this order.
    """

    id: str
    front: tuple[int, ...]
    back: tuple[int, ...]


class Defer(NamedTuple):
    """``id`` gave these blocks back, but a pass in flight may still read them: not free yet."""

    id: str
    blocks: tuple[int, ...]


class Return(Free):
    """As Free, of blocks deferred before; ``id`` may hold others by now."""


class Uncache(NamedTuple):
    """Blocks that lost their hash without being taken."""

    blocks: tuple[int, ...]


class Deny(NamedTuple):
    """A waiting request is refused; written when first so or when a number changed."""

    denial: Denial


class Undeny(NamedTuple):
    """The standing denial of ``id`` no longer stands."""

    id: str


class Preempt(NamedTuple):
    """A running request is thrown out because ``denial.id`` could not get its blocks.

    ``denial`` is None if a reset of the prefix cache threw everybody out.
    ``tokens_lost``: computed tokens it held; ``refunded``: tokens of this step's pass taken back;
    ``free_before``, ``free_after``: blocks in the free queue; ``preemptions``: how often so far.
    """

    id: str
    denial: Denial | None
    tokens_lost: int
    refunded: int
    free_before: int
    free_after: int
    preemptions: int


class Finish(NamedTuple):
    """A request ends; ``status`` is the engine's name for how, ``reason`` what the client hears.

    ``held``: its blocks stay until a transfer ends; a Forget follows then.
    """

    id: str
    status: str
    reason: str
    stop_reason: int | str | None = None
    held: bool = False


class Abort(NamedTuple):
    """A client gave up; ``status`` before that, None if the id was unknown or finished."""

    id: str
    status: str | None
    held: bool = False


class Forget(NamedTuple):
    """A finished request's transfer ended and its blocks are back."""

    id: str


class Tried(NamedTuple):
    """The queue was walked past a blocked request: was what it waits for there?"""

    id: str
    status: str
    promoted: bool


class Promote(NamedTuple):
    """A blocked request may be admitted from now on, as ``status``."""

    id: str
    status: str


class SetAside(NamedTuple):
    """A request passed over in this walk of the queues."""

    id: str


class Leave(NamedTuple):
    """A request that is not finished is taken out of every queue: nobody will find it again."""

    id: str


class Enqueue(NamedTuple):
    """A request joins the end of ``queue``."""

    id: str
    queue: str


class Ask(NamedTuple):
    """The connector was asked: ``tokens`` beyond ``local`` hits, None if it cannot say yet."""

    id: str
    local: int
    tokens: int | None
    asynchronous: bool


class Reserve(NamedTuple):
    """Blocks kept from the load of ``id`` because work in flight still lacks them."""

    id: str
    blocks: int


class Load(NamedTuple):
    """A load of ``tokens`` into ``blocks`` begins; ``computed`` counts them and the local hits."""

    id: str
    tokens: int
    asynchronous: bool
    blocks: tuple[int, ...]
    computed: int


class Report(NamedTuple):
    """The connector finished loads and sends, and could not fill ``invalid_blocks``."""

    recving: tuple[str, ...]
    sending: tuple[str, ...]
    invalid_blocks: tuple[int, ...]


class Progress(NamedTuple):
    """``num_computed_tokens`` was set back by something other than a preemption."""

    id: str
    num_computed_tokens: int


class ChunkEnd(NamedTuple):
    """A streaming session ends a chunk and is now ``status``; the client is told a reason."""

    id: str
    status: str
    reason: str
    stop_reason: int | str | None


class Continue(NamedTuple):
    """A streaming session got its next chunk and has ``num_tokens`` now."""

    id: str
    num_tokens: int
    arrival_time: int


class Inbox(NamedTuple):
    """A streaming session's client sent a ``chunk`` or a ``close``; ``status`` before that."""

    id: str
    op: str
    status: str | None


class ResetCache(NamedTuple):
    """The prefix cache was to be emptied: ``true``, ``false``, or ``error`` after preempting."""

    outcome: str


class PauseState(NamedTuple):
    """Scheduling was paused (``new``, ``all``) or goes on (``none``)."""

    state: str


class Deliver(NamedTuple):
    """A request's client got ``tokens`` tokens where one was to be expected."""

    id: str
    tokens: int


class Refuse(NamedTuple):
    """A request was turned away at the door."""

    denial: Denial


Event = (
    Arrive | Admit | Resume | Chunk | Idle | Allocate | Evict | Cache | Uncache | Free | Deny
    | Undeny | Preempt | Finish | Abort | Forget | Refuse | Tried | Promote | SetAside | Enqueue
    | Ask | Reserve | Load | Report | Progress | ChunkEnd | Continue | Inbox | ResetCache
    | PauseState | Deliver | Verify | Sample | Propose | Skip | TakeIn | Defer | Return | Leave
)  # fmt: skip

MILESTONES: frozenset[type] = frozenset(
    {Arrive, Admit, Resume, Chunk, Idle, Preempt, Deliver, Progress, Finish, Abort, Refuse}
    | {ChunkEnd, Continue}
)
"""Kept at every level: enough to tell who computes and who gets a token in each step."""


class Entry(NamedTuple):
    """An event in its place."""

    step: int
    phase: Phase
    event: Event


class Level(IntEnum):
    """How much a log keeps."""

    METRICS = 0
    """Milestones of requests and counters, from which ``courses`` reads; blocks and queues
    cannot be rebuilt."""
    EVENTS = 1
    """Every event."""


class Log:
    """Where a scheduler writes. ``engine``, ``version`` and ``config`` say whose log it is.

    The engine loop stamps the step, its start time (``times``) and its end (``ends``); the
    scheduler says which phase it is in. ``delivered`` counts the tokens handed to clients,
    ``free_blocks`` the blocks free after each ``update()``, for a scheduler that keeps blocks.
    ``milestones`` are the kinds of event kept at every level.
    """

    __slots__ = (
        "config",
        "delivered",
        "ends",
        "engine",
        "entries",
        "free_blocks",
        "level",
        "milestones",
        "phase",
        "step",
        "times",
        "version",
    )

    def __init__(self, level: Level = Level.EVENTS) -> None:
        self.level = level
        self.engine = ""
        self.version = ""
        self.config: dict[str, Any] = {}
        self.entries: list[Entry] = []
        self.times: list[int] = []
        self.ends: list[int] = []
        self.free_blocks: list[int] = []
        self.step = 0
        self.phase = Phase.ARRIVALS
        self.delivered = 0
        self.milestones = MILESTONES

    def head(
        self,
        engine: str,
        version: str,
        config: dict[str, Any],
        milestones: frozenset[type] = MILESTONES,
    ) -> None:
        """Say whose decisions follow, and which kinds of event are kept at every level."""
        self.engine, self.version, self.config = engine, version, config
        self.milestones = milestones

    def begin(self, step: int, now: int) -> None:
        """Start a step at time ``now``. Steps are numbered without gaps."""
        self.step = step
        self.phase = Phase.ARRIVALS
        self.times.append(now)

    def end(self, now: int) -> None:
        """The step's pass is over at time ``now``."""
        self.ends.append(now)

    def add(self, event: Event) -> None:
        """Write one event in the present step and phase."""
        if self.level or type(event) in self.milestones:
            self.entries.append(Entry(self.step, self.phase, event))

    def lines(self) -> Iterator[str]:
        """The log as JSON lines: a head, then one line an event. Equal runs give equal bytes."""
        head = {"engine": self.engine, "version": self.version, "config": self.config}
        yield json.dumps(head)
        for entry in self.entries:
            yield json.dumps(record(entry))

    def of(self, *kinds: type) -> list[Entry]:
        """The entries whose event is of one of these kinds, in order."""
        return [entry for entry in self.entries if type(entry.event) in kinds]


def record(entry: Entry) -> dict[str, Any]:
    """An event with its place, as a JSON-able dict."""
    fields = entry.event._asdict()
    if fields.get("denial") is not None:
        fields["denial"] = fields["denial"]._asdict()
    place = {"step": entry.step, "phase": entry.phase.name.lower()}
    return {**place, "event": type(entry.event).__name__.lower(), **fields}
