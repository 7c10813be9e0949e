"""Why a step went as it did, in sentences read off the log.

One event, one sentence. The numbers are the log's own; nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from kvsched.conform.recording import Recording
from kvsched.conform.replay import replay
from kvsched.contract import POLICY, SLOT, TOKEN, WATERMARK, WHOLE_SEQUENCE, Denial
from kvsched.errors import InputError
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
    Log,
    Preempt,
    Resume,
)
from kvsched.steps import StepRecord, rebuild


class Sentence(NamedTuple):
    """One sentence, and the requests it is about."""

    text: str
    ids: tuple[str, ...]


def explain_case(recording: Recording, step: int, request: str | None = None) -> list[str]:
    """Replay a recording and explain one step of it, for one request or for all.

    Raises InputError if the run has no such step or request.
    """
    if request is not None and request not in (known := [r["id"] for r in recording.requests]):
        raise InputError(f"--request {request}", "no such request", f"known: {', '.join(known)}")
    log = replay(recording).log
    if not 0 <= step < len(log.times):
        raise InputError(
            f"--step {step}", "no such step", f"give a step from 0 to {len(log.times) - 1}"
        )
    sentences = explain_step(log, step)
    if request is not None:
        sentences = [s for s in sentences if request in s.ids]
        if not sentences:
            return [f"Nothing happens to {request} in step {step}."]
    return [sentence.text for sentence in sentences]


def explain_step(log: Log, step: int) -> list[Sentence]:
    """The sentences of one step, in the order in which things happened."""
    for record in rebuild(log):
        if record.step == step:
            return explain(record, log.config)
    raise InputError(f"step {step}", "no such step", f"give a step below {len(log.times)}")


def explain(record: StepRecord, config: dict[str, Any]) -> list[Sentence]:
    """The sentences of a rebuilt step."""
    telling = _Telling(record, config)
    sentences = [s for entry in record.entries if (s := telling.of(entry.event)) is not None]
    decodes = telling.decodes()
    at = telling.before_update(sentences)
    sentences[at:at] = [*decodes, *telling.denied()]
    return sentences or [Sentence("Nothing happens: no request is live.", ())]


class _Telling:
    """Turns the events of one step into sentences."""

    def __init__(self, record: StepRecord, config: dict[str, Any]) -> None:
        self.record = record
        self.config = config
        self.admitted = {event.id for event in record.of(Admit)}
        self.victims = {event.id for event in record.of(Preempt)}
        self.erased = iter(record.erased)
        self.taken: dict[str, Allocate] = {event.id: event for event in record.of(Allocate)}
        self.tellers: dict[type, Callable[[Any], Sentence | None]] = {
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

    def of(self, event: Event) -> Sentence | None:
        """The sentence of an event, None for those that another sentence covers."""
        tell = self.tellers.get(type(event))
        return tell(event) if tell is not None else None

    def decodes(self) -> list[Sentence]:
        """One sentence for all who compute a single token."""
        told = {event.id for event in self.record.of(Chunk)} | self.admitted
        ids = tuple(i for i in self.record.scheduled if i not in told)
        if not ids:
            return []
        verb = "computes" if len(ids) == 1 else "each compute"
        return [Sentence(f"{listed(ids)} {verb} 1 token.", ids)]

    def before_update(self, sentences: list[Sentence]) -> int:
        """Where in the list the sentences of ``update()`` begin."""
        return len(sentences) - len(self.record.of(Finish))

    def denied(self) -> list[Sentence]:
        """Why the head of the queue was not admitted, if it was not."""
        denial = self.record.denial
        if denial is None:
            return []
        behind = len(self.record.waiting) - 1
        text = f"{denial.id} is not admitted: {why(denial, self.config)}"
        if behind > 0 and denial.of_allocator:
            text += f" The {n(behind)} behind it are not tried."
        return [Sentence(text, (denial.id,))]

    def _abort(self, event: Abort) -> Sentence:
        if event.status is None:
            return Sentence(
                f"An abort of {event.id} has no effect: it is unknown or has finished.",
                (event.id,),
            )
        return Sentence(f"{event.id} is aborted; it was {event.status}.", (event.id,))

    def _arrival(self, event: Arrive) -> Sentence:
        return Sentence(
            f"{event.id} arrives with a prompt of {tokens(event.num_prompt_tokens)} and may "
            f"generate {n(event.max_tokens)}; it joins the {event.queue} queue.",
            (event.id,),
        )

    def _chunk(self, event: Chunk) -> Sentence | None:
        if event.id in self.victims:
            return None
        text = f"{event.id} computes {chunk(event.tokens)} of what it still lacks."
        return Sentence(text, (event.id,))

    def _ending(self, event: Finish) -> Sentence:
        return Sentence(
            f"{event.id} finishes ({event.reason}, {event.status}) and its blocks go back to the "
            "free queue.",
            (event.id,),
        )

    def _growth(self, event: Allocate) -> Sentence | None:
        if event.id in self.admitted:
            return None
        count = len(event.blocks)
        what = f"block {event.blocks[0]}" if count == 1 else f"{n(count)} blocks"
        if event.free == 0:
            tail = ", the last free one." if count == 1 else ", the last free ones."
        else:
            tail = f"; {n(event.free)} {are(event.free)} left free."
        return Sentence(f"{event.id} takes {what}{tail}", (event.id,))

    def _eviction(self, event: Evict) -> Sentence:
        owners = next(self.erased)
        what = " and ".join(
            f"{n(count)} cached {'block' if count == 1 else 'blocks'} of {owner}'s"
            for owner, count in owners.items()
        )
        return Sentence(
            f"{event.by} takes over {what}: that content can no longer be found.",
            (event.by, *owners),
        )

    def _preemption(self, event: Preempt) -> Sentence:
        denial = event.denial
        usable = self.config["num_gpu_blocks"] - 1
        freed = event.free_after - event.free_before
        who = "itself, being" if event.id == denial.id else f"{event.id},"
        rule = (
            "the last admitted"
            if self.config["policy"] == "fcfs"
            else "the largest (priority, arrival_time) running"
        )
        text = (
            f"{denial.id} needs {blocks(denial.need)} and {n(denial.free)} {are(denial.free)} "
            f"free, so it fails and preempts {who} {rule}: {blocks(freed)} freed, "
            f"{n(event.tokens_lost)} computed tokens lost, preemption number "
            f"{event.preemptions} of {event.id}; usage "
            f"{share(usable - event.free_before, usable)} before, "
            f"{share(usable - event.free_after, usable)} after."
        )
        if event.refunded:
            text += f" The budget gets back the {tokens(event.refunded)} scheduled for it."
        if event.id == denial.id:
            text += " The running requests behind it get nothing in this step."
        return Sentence(text, tuple(dict.fromkeys((denial.id, event.id))))

    def _idle(self, event: Idle) -> Sentence:
        itself = any(e.id == e.denial.id for e in self.record.of(Preempt))
        reason = (
            "a request ahead preempted itself, which ends the pass"
            if itself
            else "the token budget is spent, or the length limit is reached"
        )
        verb = "computes" if len(event.ids) == 1 else "compute"
        return Sentence(f"{listed(event.ids)} {verb} nothing: {reason}.", event.ids)

    def _admission(self, event: Admit) -> Sentence:
        verb = "resumes" if isinstance(event, Resume) else "is admitted"
        taken = self.taken.get(event.id)
        text = (
            f"{event.id} {verb} with {n(event.computed)} hit tokens{whose(event)} "
            f"and {chunk(event.tokens)}"
        )
        if taken is not None:
            found = f" beside the {n(len(taken.hits))} found" if taken.hits else ""
            text += f"; it takes {blocks(len(taken.blocks))}{found}, {n(taken.free)} left free"
        return Sentence(text + ".", (event.id,))


def why(denial: Denial, config: dict[str, Any]) -> str:
    """The binding test of a denial in words, both sides of its inequality in numbers."""
    if denial.test == TOKEN:
        return (
            f"it needs {tokens(denial.need)} of the step's budget and {n(denial.free)} "
            f"{are(denial.free)} left, the token test."
        )
    if denial.test == SLOT:
        return f"all {n(denial.free)} slots (max_num_seqs) are taken, the slot test."
    if denial.test == POLICY:
        return f"this step preempted {n(denial.need)}, and a step that preempts admits nobody."
    text = _blocks_denied(denial)
    usable = config["num_gpu_blocks"] - 1
    if denial.need + denial.cached > usable:
        text += (
            f" The whole pool has {n(usable)}: {denial.id} can never be admitted, and everybody "
            "behind it waits with it."
        )
    return text


def _blocks_denied(denial: Denial) -> str:
    subject = "whole sequence" if denial.test == WHOLE_SEQUENCE else "next chunk"
    text = f"{denial.id} needs {blocks(denial.need + denial.cached)} for its {subject}"
    text += f", with {n(denial.cached)} cached and {n(denial.free)} free"
    if denial.test == WATERMARK:
        text += f", and the watermark keeps {n(denial.headroom)} back"
    text += f": {n(denial.asked)} > {n(denial.limit)}, the {denial.test} test."
    if denial.cached:
        text += (
            " Cached blocks nobody holds lie in the free queue, so they count as demand; "
            f"{n(denial.need)} more {are(denial.need)} new."
        )
    return text


def n(value: int) -> str:
    """A count: digits alone below 10,000, with separators from there on."""
    return str(value) if -10_000 < value < 10_000 else f"{value:,}"


def tokens(count: int) -> str:
    """A token count with its noun."""
    return "1 token" if count == 1 else f"{n(count)} tokens"


def chunk(count: int) -> str:
    """``a 33-token chunk``, with the article the number wants."""
    number = n(count)
    article = "an" if number[0] == "8" or number.split(",")[0] in ("11", "18") else "a"
    return f"{article} {number}-token chunk"


def are(count: int) -> str:
    """The verb a count wants."""
    return "is" if count == 1 else "are"


def blocks(count: int) -> str:
    """A block count with its noun."""
    return "1 block" if count == 1 else f"{n(count)} blocks"


def share(part: int, whole: int) -> str:
    """A part of a whole in per cent."""
    return f"{100 * part / whole:.1f} %"


def listed(ids: Iterable[str], most: int = 8) -> str:
    """Ids as a list in words, the middle left out when it is long."""
    names = list(ids)
    if len(names) > most:
        return f"{', '.join(names[: most - 1])} and {n(len(names) - most + 1)} others"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def whose(event: Admit) -> str:
    """Whose blocks the hits were: only worth saying when they were somebody's."""
    if event.own_hits and event.shared_hits:
        return f" ({n(event.own_hits)} its own, {n(event.shared_hits)} shared)"
    if event.own_hits:
        return " (its own)"
    return " (shared)" if event.shared_hits else ""
