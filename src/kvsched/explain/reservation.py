"""How to read a replay's waiting without inventing a performance result.

Blocked with many free pages: the pages are promised. Blocked with pages draining: cleanup. Admitted
and not dispatched: the token or row budget. None of them proves a bandwidth bottleneck.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kvsched.explain.words import are, blocks, listed, n, tokens
from kvsched.reserve import Config
from kvsched.reserve import records as rec


def explain_tick(
    config: Config, records: Iterable[rec.Record], t: int, request: str | None = None
) -> list[str]:
    """The sentences about one tick, about one request or all."""
    telling = Telling(config)
    told = [(record, text) for record in records for text in telling.see(record)]
    here = [
        text
        for record, text in told
        if record.t == t and (request is None or getattr(record, "id", None) == request)
    ]
    return here or [f"Nothing is decided{f' about {request}' if request else ''} at t={t}."]


class Telling:
    """Turns a replay's records, seen in order, into sentences."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.active: dict[str, None] = {}
        self.stalled: set[str] = set()

    def see(self, record: rec.Record) -> Iterator[str]:
        """What there is to say of one record."""
        text = self._sentence(record)
        if text is not None:
            yield text
        match record:
            case rec.Admitted():
                self.active[record.id] = None
            case rec.Completed() | rec.Truncated() | rec.Cancelled() | rec.Preempted():
                self.active.pop(record.id, None)
            case rec.Stalled():
                self.stalled.add(record.id)
            case rec.Dispatch():
                yield from self._left_out(record)
                self.stalled.clear()

    def _left_out(self, record: rec.Dispatch) -> Iterator[str]:
        ids = self.stalled.union(part.id for part in record.rows)
        waiting = [request_id for request_id in self.active if request_id not in ids]
        if not waiting:
            return
        what = f"{listed(waiting)} {are(len(waiting))} admitted and not dispatched"
        if record.tokens == self.config.max_tokens:
            yield f"{what}: the token budget of {n(self.config.max_tokens)} is spent."
        else:
            yield f"{what}: all {n(self.config.max_rows)} rows are taken."

    def _sentence(self, record: rec.Record) -> str | None:  # noqa: PLR0911
        match record:
            case rec.Arrival():
                return (
                    f"{record.id} arrives with {tokens(record.prompt)} of prompt for "
                    f"{n(record.output)} of output; admission would promise it "
                    f"{blocks(record.reserve)}."
                )
            case rec.Rejected():
                return (
                    f"{record.id} is rejected: it needs {blocks(record.need)}, the whole pool has "
                    f"{n(record.capacity)}."
                )
            case rec.Admitted():
                return f"{record.id} is admitted with a promise of {blocks(record.reserve)}."
            case rec.AdmissionBlocked():
                return f"{record.id} must wait, and all behind it: {_why(record)}"
            case rec.Completed():
                return f"{record.id} is complete; its promise ends, its pages drain."
            case rec.Truncated():
                end = tokens(record.emitted)
                return f"{record.id} finds no room to grow and is cut short at {end}."
            case rec.Preempted():
                return (
                    f"{record.id} is thrown out so that {record.by} can grow: "
                    f"{tokens(record.lost)} are lost, and {blocks(record.pages)} given up."
                )
            case rec.Stalled():
                return (
                    f"{record.id} cannot grow before {blocks(record.draining)} have drained: "
                    "this points to cleanup."
                )
            case rec.Cancelled():
                return (
                    f"{record.id} is cancelled while {record.was}, after {tokens(record.emitted)}."
                )
            case rec.CancelIgnored():
                return f"A cancellation of {record.id} is ignored: it is {record.reason}."
            case rec.Released():
                pages = record.pages
                return f"{blocks(pages)} of {record.id}'s {are(pages)} free again."
        return None


def _why(r: rec.AdmissionBlocked) -> str:
    """The binding test with its numbers, and what it points to."""
    if r.binding == "serial":
        return "the policy serves one request at a time."
    if r.binding == "batch":
        return "its batch is not formed yet, or another one runs."
    if r.binding == "draining":
        return (
            f"{n(r.need)} + {n(r.credits)} promised + {n(r.draining)} draining > "
            f"{n(r.capacity)}. This points to cleanup: the draining pages alone stand in the way."
        )
    free = "and no page is free"
    if r.free_pages:
        those = "it is" if r.free_pages == 1 else "they are"
        free = f"though {blocks(r.free_pages)} {are(r.free_pages)} free: {those} promised"
    return (
        f"{n(r.need)} + {n(r.credits)} promised > {n(r.capacity)}, {free}. This points to credits."
    )
