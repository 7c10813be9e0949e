"""One event, one sentence: the part every run needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kvsched.explain.denials import why
from kvsched.explain.flight import FLIGHT, late, taken_in
from kvsched.explain.outside import OUTSIDE, stuck
from kvsched.explain.words import are, blocks, chunk, listed, n, share, tokens
from kvsched.log import (
    Abort,
    Admit,
    Allocate,
    Arrive,
    Chunk,
    Event,
    Evict,
    Finish,
    Idle,
    Load,
    Phase,
    Preempt,
    Report,
    Resume,
    TakeIn,
    Verify,
)
from kvsched.steps import StepRecord


class Sentence(NamedTuple):
    """One sentence, and the requests it is about."""

    text: str
    ids: tuple[str, ...]


class Telling:
    """Turns the events of one step into sentences."""

    def __init__(self, record: StepRecord, config: dict[str, Any]) -> None:
        self.record = record
        self.config = config
        self.admitted = {event.id for event in record.of(Admit)}
        self.victims = {event.id for event in record.of(Preempt)}
        self.loading = {event.id for event in record.of(Load)}
        self.late = late(record)
        self.erased = dict(zip(record.of(Evict), record.erased, strict=True))
        self.taken: dict[str, Allocate] = {event.id: event for event in record.of(Allocate)}
        self.tellers: dict[type, Callable[[Any], str | None]] = {
            **OUTSIDE,
            **FLIGHT,
            TakeIn: lambda e: taken_in(e, self.late),
            Arrive: self._arrival,
            Abort: self._abort,
            Allocate: self._growth,
            Evict: self._eviction,
            Preempt: self._preemption,
            Chunk: self._chunk,
            Idle: self._idle,
            Admit: self._admission,
            Resume: self._admission,
            Finish: self._ending,
        }

    def all(self) -> list[Sentence]:
        """The sentences of the step, in the order in which things happened."""
        decided = self._of(Phase.ARRIVALS, Phase.SCHEDULE)
        after = self._of(Phase.MID, Phase.UPDATE)
        return [*decided, *self.decodes(), *self.denied(), *after]

    def _of(self, *phases: Phase) -> list[Sentence]:
        sentences = []
        for entry in self.record.entries:
            tell = self.tellers.get(type(entry.event))
            text = tell(entry.event) if tell is not None and entry.phase in phases else None
            if text is not None:
                sentences.append(Sentence(text, self._about(entry.event)))
        return sentences

    def _about(self, event: Event) -> tuple[str, ...]:
        """The requests a sentence about this event is about."""
        if isinstance(event, Evict):
            return (event.by, *self.erased[event])
        if isinstance(event, Preempt) and event.denial is not None:
            return tuple(dict.fromkeys((event.denial.id, event.id)))
        if isinstance(event, Idle):
            return event.ids
        if isinstance(event, Report):
            return (*event.recving, *event.sending)
        if isinstance(event, TakeIn):
            return self.late
        request_id = getattr(event, "id", None)
        return () if request_id is None else (request_id,)

    def decodes(self) -> list[Sentence]:
        """One sentence for all who compute a single token."""
        told = {event.id for event in self.record.of_any((Chunk, Verify))} | self.admitted
        ids = tuple(i for i in self.record.scheduled if i not in told)
        if not ids:
            return []
        verb = "computes" if len(ids) == 1 else "each compute"
        return [Sentence(f"{listed(ids)} {verb} 1 token.", ids)]

    def denied(self) -> list[Sentence]:
        """Why the head of the queue was not admitted, if it was not."""
        denial = self.record.denial
        if denial is None:
            return []
        text = f"{denial.id} is not admitted: {why(denial, self.config)}"
        told = [Sentence(text, (denial.id,))]
        end = stuck(self.record)
        return [*told, Sentence(end, tuple(self.record.holders))] if end is not None else told

    def _abort(self, event: Abort) -> str:
        if event.status is None:
            return f"An abort of {event.id} has no effect: it is unknown or has finished."
        kept = " Its blocks stay until its transfer ends." if event.held else ""
        return f"{event.id} is aborted; it was {event.status}.{kept}"

    def _arrival(self, event: Arrive) -> str:
        return (
            f"{event.id} arrives with a prompt of {tokens(event.num_prompt_tokens)} and may "
            f"generate {n(event.max_tokens)}; it joins the {event.queue} queue."
        )

    def _chunk(self, event: Chunk) -> str | None:
        if event.id in self.victims:
            return None
        return f"{event.id} computes {chunk(event.tokens)} of what it still lacks."

    def _ending(self, event: Finish) -> str:
        blocks_go = (
            "its blocks stay until its transfer ends"
            if event.held
            else "its blocks go back to the free queue"
        )
        return f"{event.id} finishes ({event.reason}, {event.status}) and {blocks_go}."

    def _growth(self, event: Allocate) -> str | None:
        if event.id in self.admitted or event.id in self.loading:
            return None
        count = len(event.blocks)
        what = f"block {event.blocks[0]}" if count == 1 else f"{n(count)} blocks"
        if event.free == 0:
            return f"{event.id} takes {what}, the last free {'one' if count == 1 else 'ones'}."
        return f"{event.id} takes {what}; {n(event.free)} {are(event.free)} left free."

    def _eviction(self, event: Evict) -> str:
        what = " and ".join(
            f"{n(count)} cached {'block' if count == 1 else 'blocks'} of {owner}'s"
            for owner, count in self.erased[event].items()
        )
        return f"{event.by} takes over {what}: that content can no longer be found."

    def _preemption(self, event: Preempt) -> str:
        usable = self.config["num_gpu_blocks"] - 1
        freed = event.free_after - event.free_before
        text = (
            f"{self._cause(event)}: {blocks(freed)} freed, {n(event.tokens_lost)} computed tokens "
            f"lost, preemption number {event.preemptions} of {event.id}; usage "
            f"{share(usable - event.free_before, usable)} before, "
            f"{share(usable - event.free_after, usable)} after."
        )
        if event.refunded:
            text += f" The budget gets back the {tokens(event.refunded)} scheduled for it."
        if event.denial is not None and event.id == event.denial.id:
            text += " The running requests behind it get nothing in this step."
        return text

    def _cause(self, event: Preempt) -> str:
        denial = event.denial
        if denial is None:
            return f"The reset preempts {event.id}"
        who = "itself, being" if event.id == denial.id else f"{event.id},"
        rule = (
            "the last admitted"
            if self.config["policy"] == "fcfs"
            else "the largest (priority, arrival_time) running"
        )
        return (
            f"{denial.id} needs {blocks(denial.need)} and {n(denial.free)} {are(denial.free)} "
            f"free, so it fails and preempts {who} {rule}"
        )

    def _idle(self, event: Idle) -> str:
        itself = any(e.denial is not None and e.id == e.denial.id for e in self.record.of(Preempt))
        reason = (
            "a request ahead preempted itself, which ends the pass"
            if itself
            else "the token budget is spent, or the length limit is reached"
        )
        verb = "computes" if len(event.ids) == 1 else "compute"
        return f"{listed(event.ids)} {verb} nothing: {reason}."

    def _admission(self, event: Admit) -> str:
        verb = "resumes" if isinstance(event, Resume) else "is admitted"
        taken = self.taken.get(event.id)
        text = f"{event.id} {verb} with {_has(event)} and {chunk(event.tokens)}"
        if taken is not None:
            found = f" beside the {n(len(taken.hits))} found" if taken.hits else ""
            text += f"; it takes {blocks(len(taken.blocks))}{found}, {n(taken.free)} left free"
        return text + "."


def _has(event: Admit) -> str:
    """What an admitted request need not compute, and whose work it was."""
    hits = event.own_hits + event.shared_hits
    text = f"{n(hits)} hit tokens"
    if event.own_hits and event.shared_hits:
        text += f" ({n(event.own_hits)} its own, {n(event.shared_hits)} shared)"
    elif hits:
        text += " (its own)" if event.own_hits else " (shared)"
    beside = event.computed - hits
    return f"{text}, {tokens(beside)} loaded or kept" if beside else text
