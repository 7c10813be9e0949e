"""What a replay leaves behind: flat records, one a line of JSON.

Schema ``kvsched-records-1``: a header (``type`` header, ``schema``, ``unit``, ``config``,
``note``), then the records below in the order in which things happened, each with its time ``t``
and its ``type``. A field that is None is left out: it belongs to an extension that is off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

SCHEMA = "kvsched-records-1"


class Arrival(NamedTuple):
    """A request comes in; admission would promise it ``reserve`` blocks.

    ``output`` is what the scheduler may know: the exact number of output tokens, or the client's
    cap where the trace gives one. ``arrived``: its own time, if that is before this boundary.
    """

    t: int
    id: str
    prompt: int
    output: int
    reserve: int
    arrived: int | None = None
    priority: int | None = None
    deadline: int | None = None


class Rejected(NamedTuple):
    """It needs more blocks than there are: it could never run."""

    t: int
    id: str
    need: int
    capacity: int


class Admitted(NamedTuple):
    """It runs from now on.

    ``hits``: prompt tokens it found computed; ``again``: it was preempted before.
    """

    t: int
    id: str
    reserve: int
    hits: int | None = None
    again: bool | None = None


class AdmissionBlocked(NamedTuple):
    """The head of the queue must wait. ``binding``: serial, batch, credits or draining."""

    t: int
    id: str
    binding: str
    need: int
    credits: int
    draining: int
    capacity: int
    free_pages: int


class Snapshot(NamedTuple):
    """The state before a dispatch: requests, promised blocks, and pages by what they are."""

    t: int
    queued: int
    active: int
    credits: int
    allocated: int
    draining: int
    free: int


class Part(NamedTuple):
    """One request's part of a dispatch; ``kind``: prefill or decode."""

    id: str
    kind: str
    tokens: int


class Dispatch(NamedTuple):
    """Work begins; pages for it are taken now."""

    t: int
    rows: tuple[Part, ...]
    tokens: int


class DispatchDone(NamedTuple):
    """It is over; these got a token."""

    t: int
    emitted: tuple[str, ...]


class Completed(NamedTuple):
    """It has all its tokens. Its credits are gone, its pages drain."""

    t: int
    id: str


class Truncated(NamedTuple):
    """It found no room to grow and ends with what it has."""

    t: int
    id: str
    emitted: int


class Preempted(NamedTuple):
    """It is thrown out so that ``by`` can grow, and queued again.

    ``pages`` drain, ``lost`` computed tokens must be computed again.
    """

    t: int
    id: str
    by: str
    pages: int
    lost: int
    emitted: int


class Stalled(NamedTuple):
    """It cannot grow before draining pages are back, and gets no row."""

    t: int
    id: str
    draining: int


class Cancelled(NamedTuple):
    """The client gave up; it ``was`` queued or active and had got ``emitted`` tokens."""

    t: int
    id: str
    was: str
    emitted: int


class CancelIgnored(NamedTuple):
    """There was nothing to cancel; ``reason``: how it had ended, or unknown."""

    t: int
    id: str
    reason: str


class Released(NamedTuple):
    """Pages whose release delay is over are free."""

    t: int
    id: str
    pages: int


Record = (
    Arrival | Rejected | Admitted | AdmissionBlocked | Snapshot | Dispatch | DispatchDone
    | Completed | Truncated | Preempted | Stalled | Cancelled | CancelIgnored | Released
)  # fmt: skip

KINDS: dict[str, type[Record]] = {
    "arrival": Arrival,
    "rejected": Rejected,
    "admitted": Admitted,
    "admission_blocked": AdmissionBlocked,
    "snapshot": Snapshot,
    "dispatch": Dispatch,
    "dispatch_done": DispatchDone,
    "completed": Completed,
    "truncated": Truncated,
    "preempted": Preempted,
    "stalled": Stalled,
    "cancelled": Cancelled,
    "cancel_ignored": CancelIgnored,
    "released": Released,
}
NAMES = {kind: name for name, kind in KINDS.items()}


def as_json(record: Record) -> dict[str, Any]:
    """The record as a JSON object, ``t`` and ``type`` first."""
    fields = {name: value for name, value in record._asdict().items() if value is not None}
    if isinstance(record, Dispatch):
        fields["rows"] = [list(part) for part in record.rows]
    elif isinstance(record, DispatchDone):
        fields["emitted"] = list(record.emitted)
    return {"t": fields.pop("t"), "type": NAMES[type(record)], **fields}


def from_json(value: Mapping[str, Any]) -> Record:
    """The record that ``as_json`` wrote so; nothing is checked."""
    fields = dict(value)
    kind = KINDS[fields.pop("type")]
    if kind is Dispatch:
        fields["rows"] = tuple(Part(*row) for row in fields["rows"])
    elif kind is DispatchDone:
        fields["emitted"] = tuple(fields["emitted"])
    return kind(**fields)
