"""A step in at most three clauses, for the player: who went out, who came in, who is refused.

A clause may mark words: ``**D**`` is a request, ``!!8,192 tokens lost!!`` a loss.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kvsched.contract import RESERVED, SLOT, TOKEN, WATERMARK, WHOLE_SEQUENCE, Denial
from kvsched.explain.outside import OUTSIDE, stuck
from kvsched.log import (
    Abort,
    Admit,
    Allocate,
    Arrive,
    Chunk,
    Evict,
    Finish,
    Free,
    Phase,
    Preempt,
    Resume,
)
from kvsched.phases import ending
from kvsched.steps import StepRecord

MOST = 3
"""Clauses kept of a step."""


def plain(clause: str) -> str:
    """A clause without its marks."""
    return clause.replace("**", "").replace("!!", "")


class Short:
    """Tells one step after the other; what it says of a return needs what went before."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.usable: int = config["num_gpu_blocks"] - 1
        self.lost: dict[str, int] = {}
        self.ended: dict[str, int] = {}
        self.rank: dict[str, tuple[int, int]] = {}

    def tell(self, record: StepRecord) -> list[str]:
        """The clauses of the step that follows the one told last, the weightiest first."""
        self.rank |= {e.id: (e.priority, e.arrival_time) for e in record.of(Arrive)}
        clauses = [
            *self._preemptions(record),
            *self._returns(record),
            *self._admissions(record),
            *self._denial(record),
            *self._endings(record),
            *_outside(record),
            *_chunks(record),
        ]
        clauses = clauses or self._decodes(record)
        clauses += self._finishes(record)
        self.lost |= {e.id: e.tokens_lost for e in record.of(Preempt)}
        self.ended = _given_back(record)
        return clauses[:MOST] or ["Nothing is scheduled."]

    # -- out --------------------------------------------------------------------------------

    def _preemptions(self, record: StepRecord) -> list[str]:
        victims = record.of(Preempt)
        told = [self._preemption(event) for event in victims[:2]]
        if len(victims) > 2:
            lost = sum(event.tokens_lost for event in victims[2:])
            told.append(f"{number(len(victims) - 2)} more go out: !!{count(lost, 'token')} lost!!.")
        if victims and record.waiting and victims[0].denial is not None:
            told[-1] += " A step that preempts admits no one."
        return told

    def _preemption(self, event: Preempt) -> str:
        freed = event.free_after - event.free_before
        held = -(-(event.tokens_lost + event.refunded) // int(self.config["block_size"]))
        back = f"{count(freed, 'block')} given back."
        if freed < held:
            back = f"of its {count(held, 'block')} {number(freed)} come free, the rest are shared."
        loss = f"!!{count(event.tokens_lost, 'token')} lost!!, {back}"
        if event.denial is None:
            return f"The reset throws **{event.id}** out: {loss}"
        grower, free = event.denial.id, event.denial.free
        there = "none is free" if free == 0 else f"only {number(free)} {is_or_are(free)} free"
        want = f"**{grower}** needs {count(event.denial.need, 'more block')} and {there}. "
        if self.config["policy"] == "fcfs":
            rule = "was admitted last"
        else:
            rule = f"is the least urgent, {self._rank(event.id)}"
        if grower == event.id:
            return f"{want}It {rule} itself and is its own victim: {loss}"
        return f"{want}**{event.id}** {rule}, so **{event.id}** is thrown out: {loss}"

    def _rank(self, request_id: str) -> str:
        priority, arrival = self.rank[request_id]
        return f"priority {priority} and arrival {arrival}"

    # -- in ---------------------------------------------------------------------------------

    def _returns(self, record: StepRecord) -> list[str]:
        back = record.of(Resume)
        if not back:
            return []
        cause = ""
        if self.ended:
            blocks = count(sum(self.ended.values()), "block")
            cause = f"{names(self.ended)} finished and gave back {blocks}, so "
        lost = sum(self.lost.get(event.id, 0) for event in back)
        ids = names(event.id for event in back)
        text = f"{cause}{ids} {'fits' if len(back) == 1 else 'fit'} again. "
        return [text + _recovery(record, back, lost)]

    def _admissions(self, record: StepRecord) -> list[str]:
        new = [event for event in record.of(Admit) if not isinstance(event, Resume)]
        if not new:
            return []
        tokens = [event.tokens for event in new]
        one, same = len(new) == 1, len(set(tokens)) == 1
        each = "" if one else " each" if same else " together"
        text = f"{names(e.id for e in new)} {'is' if one else 'are'} admitted and "
        text += f"{'prefills' if one else 'prefill'} "
        text += f"{count(tokens[0] if same else sum(tokens), 'token')}{each}"
        if hits := sum(event.own_hits + event.shared_hits for event in new):
            text += f", after {count(hits, 'token')} found in the cache"
        if beside := sum(e.computed - e.own_hits - e.shared_hits for e in new):
            text += f", after {count(beside, 'token')} loaded or kept"
        stay = f"{number(record.free)} of {number(self.usable)} blocks stay" if record.free else ""
        return [f"{text}; {stay or 'no block stays'} free."]

    # -- refused ----------------------------------------------------------------------------

    def _denial(self, record: StepRecord) -> list[str]:
        denial = record.denial
        if denial is None or (not denial.of_allocator and denial.test not in (TOKEN, SLOT)):
            return []
        text = refusal(denial, self._part(denial, record))
        if denial.of_allocator and denial.need + denial.cached > self.usable:
            text += f" The whole pool has {number(self.usable)}: it can never come in."
        elif (end := stuck(record)) is not None:
            return [text, end]
        behind = len(record.waiting) + len(record.skipped) - 1
        if behind > 0:
            wait = "request waits" if behind == 1 else "requests wait"
            text += f" Behind it {number(behind)} more {wait}, untried."
        return [text]

    def _part(self, denial: Denial, record: StepRecord) -> str:
        """What of the request was too large: the watermark is added to both tests."""
        size, most = int(self.config["block_size"]), int(self.config["max_model_len"])
        whole = -(-min(record.live[denial.id].num_tokens, most) // size)
        gate = denial.test == WATERMARK and self.config["scheduler_reserve_full_isl"]
        if denial.test == WHOLE_SEQUENCE or (gate and denial.need == max(0, whole - denial.have)):
            return "whole sequence"
        return "next chunk"

    # -- the rest ---------------------------------------------------------------------------

    def _endings(self, record: StepRecord) -> list[str]:
        """Endings that nobody hoped for."""
        told = [f"**{e.id}** is aborted." for e in record.of(Abort) if e.status is not None]
        for event in record.of(Finish):
            if ending(event.status) != "done":
                told.append(f"**{event.id}** ends: {ending(event.status)} ({event.reason}).")
        return told

    def _decodes(self, record: StepRecord) -> list[str]:
        ids = list(record.scheduled)
        if not ids:
            return []
        text = f"{names(ids)} {'decodes' if len(ids) == 1 else 'each decode'} one token."
        takers = [e.id for e in record.of(Allocate, Phase.SCHEDULE)]
        if not takers:
            return [text + " No new block is needed."]
        text += f" {names(takers)} {'starts' if len(takers) == 1 else 'start'} a new block"
        erased = sum(len(event.blocks) for event in record.of(Evict))
        if not erased:
            return [text + "."]
        owners = dict.fromkeys(owner for counts in record.erased for owner in counts)
        return [f"{text}, erasing {count(erased, 'cached block')} of {names(owners)}."]

    def _finishes(self, record: StepRecord) -> list[str]:
        given = _given_back(record)
        if not given:
            return []
        last = (
            "has its last token and finishes"
            if len(given) == 1
            else "have their last tokens and finish"
        )
        blocks = sum(given.values())
        go = f"{count(blocks, 'block')} {'goes' if blocks == 1 else 'go'} back"
        return [f"{names(given)} {last}: {go} at the end of the step."]


def refusal(denial: Denial, part: str) -> str:
    """A denial in one clause, both sides of its inequality in it; ``part``: what was too large."""
    who, need, free = f"**{denial.id}**", denial.need, denial.free
    if denial.test == TOKEN:
        left = "none is left" if free <= 0 else f"{number(free)} {is_or_are(free)} left"
        return f"{who} waits: it needs {count(need, 'token')} of the step’s budget and {left}."
    if denial.test == SLOT:
        taken = "the one slot is" if free == 1 else f"all {number(free)} slots are"
        return f"{who} waits: {taken} taken."
    text = f"{who} stays out: its {part} takes {count(need + denial.cached, 'block')}"
    shared = denial.have - denial.cached
    if shared > 0:
        text += f" besides the {number(shared)} that it has or would share"
    if denial.cached:
        text += f", {number(need)} new and {number(denial.cached)} that it would find again in the "
        text += "free queue,"
    there = "none is free" if free == 0 else f"{number(free)} {is_or_are(free)} free"
    if denial.test == RESERVED:
        there += f", {number(denial.reserved)} of them kept for work in flight"
    if denial.test == WATERMARK:
        there += f", {number(denial.headroom)} of them kept back by the watermark"
    return f"{text} and {there}."


def _recovery(record: StepRecord, back: list[Resume], lost: int) -> str:
    """What those who return find, and what they compute: again, and for the first time."""
    found = sum(event.own_hits + event.shared_hits for event in back)
    beside = sum(event.computed for event in back) - found
    computes = sum(event.tokens for event in back)
    one = len(back) == 1
    again = lost - found - beside
    if beside:
        return f"{number(found)} tokens are found in the cache and {number(beside)} loaded."
    if found == 0:
        return f"Nothing of the {count(lost, 'lost token')} is left in the cache."
    if again == 0:
        return f"All {count(lost, 'lost token')} are still in the cache."
    whole = all(record.live[e.id].num_computed_tokens == record.live[e.id].num_tokens for e in back)
    text = f"{'It finds' if one else 'Together they find'} {number(found)} of "
    text += f"{'its' if one else 'their'} {count(lost, 'lost token')} still in the cache and "
    text += f"{'computes' if one else 'compute'} {number(computes)}"
    if whole and 0 < again < computes:
        text += f": {number(again)} again, {number(computes - again)} for the first time"
    return text + "."


def _outside(record: StepRecord) -> list[str]:
    """What happened outside the scheduler, in the words of the long form."""
    told = (OUTSIDE.get(type(entry.event), lambda e: None)(entry.event) for entry in record.entries)
    return [text for text in told if text is not None]


def _chunks(record: StepRecord) -> list[str]:
    told = []
    for event in record.of(Chunk):
        if event.id in record.scheduled:
            live = record.live[event.id]
            done = f"{number(live.num_computed_tokens)} of {number(live.num_tokens)}"
            told.append(f"**{event.id}** prefills {count(event.tokens, 'token')}, {done} done.")
    return told


def _given_back(record: StepRecord) -> dict[str, int]:
    """Blocks given back by each request that finished well in this step."""
    ids = [event.id for event in record.of(Finish) if ending(event.status) == "done"]
    given = dict.fromkeys(ids, 0)
    for event in record.of(Free, Phase.UPDATE):
        if event.id in given:
            given[event.id] += len(event.front) + len(event.back)
    return given


# -- words --------------------------------------------------------------------------------------


def number(value: int) -> str:
    """A count as the player writes it."""
    return f"{value:,}"


def count(value: int, noun: str) -> str:
    """A count with its noun."""
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def is_or_are(value: int) -> str:
    """The verb that a count wants."""
    return "is" if value == 1 else "are"


def names(ids: Iterable[str]) -> str:
    """Requests by name, or how many where they are more than four."""
    marked = [f"**{request_id}**" for request_id in dict.fromkeys(ids)]
    if len(marked) > 4:
        return f"{len(marked)} requests"
    return " and ".join([", ".join(marked[:-1]), marked[-1]]) if len(marked) > 1 else marked[0]
