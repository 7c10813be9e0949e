"""Requests moved by hand: started, stepped, preempted, resumed, forked, transferred, cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kvsched.errors import InputError
from kvsched.lifecycle.pages import Allocator, Transfer

ACTIVE = "active"
SUSPENDED = "suspended"
CANCELLED = "cancelled"


class Refused(InputError):
    """A move that cannot be made now; nothing has changed."""


@dataclass(slots=True, eq=False)
class Tracked:
    """A request: logical progress, which preemption keeps, and residency, which it drops.

    Progress: ``prompt`` and ``emitted``. The last emitted token is *pending*: the client has it,
    the model has not. Residency: ``pages`` hold the first ``resident`` tokens. ``replay_rows``:
    rows computed a second time by successful reconstructions.
    """

    id: str
    prompt: tuple[int, ...]
    emitted: list[int] = field(default_factory=list)
    state: str = ACTIVE
    pages: list[int] = field(default_factory=list)
    resident: int = 0
    replay_rows: int = 0
    preemptions: int = 0

    @property
    def entered(self) -> tuple[int, ...]:
        """The tokens that have gone through the model: all but the pending one."""
        return (*self.prompt, *self.emitted[:-1]) if self.emitted else ()

    @property
    def pending(self) -> int | None:
        """The token the next step consumes; None before the first one."""
        return self.emitted[-1] if self.emitted else None


class Lifecycle:
    """The control plane over one allocator; ``rows`` are what each page really holds.

    A refused move raises Refused with the reason and what would help, and changes nothing.
    """

    def __init__(self, total_pages: int, page_size: int) -> None:
        self.allocator = Allocator(total_pages)
        self.page_size = page_size
        self.requests: dict[str, Tracked] = {}
        self.rows: dict[int, list[int]] = {}
        self.receivers: dict[int, Tracked] = {}

    # -- progress ---------------------------------------------------------------------------

    def start(self, request_id: str, prompt: Sequence[int]) -> Tracked:
        """Take a request in. It has no page before its first step."""
        if request_id in self.requests:
            raise Refused(f"start {request_id}", "the id is in use", "give each its own id")
        if not prompt:
            raise Refused(f"start {request_id}", "the prompt is empty", "give at least one token")
        request = self.requests[request_id] = Tracked(request_id, tuple(prompt))
        return request

    def step(self, request_id: str, sampled: int) -> int:
        """One pass: the prompt, or after it the pending token, goes in; ``sampled`` comes out.

        The client gets that one token, never one it has had.
        """
        request = self._active("step", request_id)
        if request in self.receivers.values():
            fix = "wait for the acknowledgement that its transfer has drained"
            raise Refused(f"step {request_id}", "its rows are still arriving", fix)
        pending = request.pending
        entering = request.prompt[request.resident :] if pending is None else (pending,)
        if not self._write(request, entering):
            raise self._no_room("step", request)
        request.emitted.append(sampled)
        return sampled

    # -- residency --------------------------------------------------------------------------

    def preempt(self, request_id: str) -> list[int]:
        """Drop the table, keep the history. Returns the pages free by it: perhaps none."""
        request = self._active("preempt", request_id)
        request.state = SUSPENDED
        request.preemptions += 1
        return self._drop(request)

    def resume(self, request_id: str) -> int:
        """Reconstruct what had entered the model, row by row; return how many rows.

        Nothing is emitted, and the pending token stays pending. Without room for every row, all
        that was taken is given back and the request stays suspended.
        """
        request = self._known("resume", request_id)
        if request.state != SUSPENDED:
            fix = "start a new request" if request.state == CANCELLED else "preempt it first"
            raise Refused(f"resume {request_id}", f"it is {request.state}", fix)
        rows = request.entered
        for position in range(0, len(rows), self.page_size):
            if not self._write(request, rows[position : position + self.page_size]):
                self._drop(request)
                raise self._no_room("resume", request)
        request.state = ACTIVE
        request.replay_rows += len(rows)
        return len(rows)

    def cancel(self, request_id: str) -> list[int]:
        """End a request; a second time is harmless. Returns the pages free by it."""
        request = self._known("cancel", request_id)
        request.state = CANCELLED
        return self._drop(request)

    # -- sharing and transfers --------------------------------------------------------------

    def fork(self, request_id: str, new_id: str) -> Tracked:
        """A second request with the same history and the same pages, the partial last one too.

        Whoever writes into a shared page first gets its own copy.
        """
        parent = self._active("fork", request_id)
        if new_id in self.requests:
            raise Refused(f"fork {request_id}", f"the id {new_id} is in use", "give another")
        self.allocator.share(parent.pages)
        child = Tracked(new_id, parent.prompt, list(parent.emitted))
        child.pages, child.resident = list(parent.pages), parent.resident
        self.requests[new_id] = child
        return child

    def transfer(self, request_id: str) -> Transfer:
        """Begin to copy a request's pages into new ones, asynchronously.

        Both sides are pinned. The copy's table belongs to the request ``ID'`` that receives it.
        """
        producer = self._active("transfer", request_id)
        if f"{request_id}'" in self.requests:
            raise Refused(f"transfer {request_id}", "it was made before", "fork, then transfer")
        copies = self.allocator.take(len(producer.pages))
        if copies is None:
            raise self._no_room("transfer", producer)
        receiver = self.start(f"{request_id}'", producer.prompt)
        receiver.emitted = list(producer.emitted)
        receiver.pages, receiver.resident = copies, producer.resident
        for page, copy in zip(producer.pages, copies, strict=True):
            self.rows[copy] = list(self.rows[page])
        transfer = self.allocator.begin(producer.pages, copies)
        self.receivers[transfer.number] = receiver
        return transfer

    def abort(self, transfer: Transfer) -> list[int]:
        """Give a running transfer up: the receiver ends, and the pins stay until the drain."""
        if transfer.number not in self.allocator.transfers:
            raise Refused(f"abort {transfer.number}", "it has drained", "abort a running one")
        return self.cancel(self.receivers[transfer.number].id)

    def drained(self, transfer: Transfer) -> list[int]:
        """The acknowledgement that a transfer touches nothing any more; the pages free by it."""
        if transfer.number not in self.allocator.transfers:
            raise Refused(f"drained {transfer.number}", "it was said before", "say it once")
        del self.receivers[transfer.number]
        return self.allocator.acknowledge(transfer.number)

    # -- what the moves are made of ---------------------------------------------------------

    def held(self, request_id: str) -> list[int]:
        """The tokens whose rows the request's table really holds, read from the pages."""
        request = self._known("held", request_id)
        found = [row for page in request.pages for row in self.rows[page]]
        return found[: request.resident]

    def recoverable(self, request_id: str) -> int:
        """Pages a preemption would free now; the length of a context does not tell."""
        return self.allocator.recoverable(self._known("recoverable", request_id).pages)

    def _write(self, request: Tracked, tokens: Sequence[int]) -> bool:
        """Append rows to the request's table, on a copy of a last page that others use.

        False, and nothing changed, if there are too few free pages.
        """
        size, used = self.page_size, request.resident % self.page_size
        last = request.pages[-1] if used else None
        copies = last is not None and not self.allocator.may_write(last)
        fresh = -(-(request.resident + len(tokens)) // size) - len(request.pages)
        pages = self.allocator.take(fresh + copies)
        if pages is None:
            return False
        if last is not None and copies:
            request.pages[-1] = pages.pop(0)
            self.rows[request.pages[-1]] = self.rows[last][:used]
            self.allocator.drop([last])
        for page in pages:
            self.rows[page] = []
        request.pages += pages
        for token in tokens:
            del self.rows[request.pages[request.resident // size]][request.resident % size :]
            self.rows[request.pages[request.resident // size]].append(token)
            request.resident += 1
        return True

    def _drop(self, request: Tracked) -> list[int]:
        pages, request.pages, request.resident = request.pages, [], 0
        return self.allocator.drop(pages)

    def _known(self, move: str, request_id: str) -> Tracked:
        request = self.requests.get(request_id)
        if request is None:
            known = ", ".join(self.requests) or "none yet"
            raise Refused(f"{move} {request_id}", "no such request", f"known: {known}")
        return request

    def _active(self, move: str, request_id: str) -> Tracked:
        request = self._known(move, request_id)
        if request.state != ACTIVE:
            fix = "resume it first" if request.state == SUSPENDED else "start a new request"
            raise Refused(f"{move} {request_id}", f"it is {request.state}", fix)
        return request

    def _no_room(self, move: str, request: Tracked) -> Refused:
        free, draining = len(self.allocator.free), len(self.allocator.draining)
        found = f"too few free pages ({free} free, {draining} draining)"
        fix = "wait for the drain" if draining else "preempt or cancel somebody"
        return Refused(f"{move} {request.id}", found, fix)
