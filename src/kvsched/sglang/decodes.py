"""Every decode pass of a run in the few numbers that an operator sees, and the lines of its log.

A small fold beside ``steps.py``, which rebuilds everything and costs as much as the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from kvsched.errors import InputError
from kvsched.log import Abort, Admit, Arrive, Entry, Finish, Level, Log
from kvsched.sglang.config import Config
from kvsched.sglang.events import Continued, Displace, Drop, Merge, Ratio, Requeue, Retract
from kvsched.sglang.ratio import NewTokenRatio


class DecodePass(NamedTuple):
    """``running`` requests decoded in ``step`` while ``waiting`` others waited.

    ``used``: tokens of the pool held after it, in a run without lag. ``ratio``:
    ``new_token_ratio`` from then on. ``retraction``: what the pass threw out first, ``found`` the
    ratio before that.
    """

    step: int
    running: int
    waiting: int
    used: int
    ratio: float
    found: float
    retraction: Retract | None


def decode_passes(log: Log) -> Iterator[DecodePass]:
    """The decode passes of a run of SGLang's scheduler, in order.

    Raises InputError for a log of milestones alone, which cannot tell them.
    """
    if log.level is not Level.EVENTS:
        raise InputError("log", "keeps milestones alone", "run with a log of Level.EVENTS")
    config = Config(**log.config)
    fold = _Fold(NewTokenRatio(config).current)
    for step, entries in groupby(log.entries, lambda entry: entry.step):
        found = fold.ratio
        prefills, retraction = fold.see(entries)
        if (fold.running and not prefills) or retraction:
            used = config.max_total_tokens - config.page_size * log.free_blocks[step]
            counts = len(fold.running), len(fold.waiting), used
            yield DecodePass(step, *counts, fold.ratio, found, retraction)


class _Fold:
    """Who waits and who runs. Who finishes runs until the next step drops it."""

    def __init__(self, ratio: float) -> None:
        self.ratio = ratio
        self.waiting: set[str] = set()
        self.running: set[str] = set()

    def see(self, entries: Iterable[Entry]) -> tuple[bool, Retract | None]:
        """Take in a step: did it prefill, and did it throw anybody out for memory?"""
        prefills = False
        retraction: Retract | None = None
        for entry in entries:
            event: Any = entry.event
            match event:
                case Arrive(id=name):
                    self.waiting.add(name)
                case Admit(id=name):
                    self.waiting.discard(name)
                    prefills = True
                case Continued():
                    prefills = True
                case Abort(id=name) | Finish(id=name):
                    self.waiting.discard(name)
                case Merge(ids=names):
                    self.running.update(names)
                case Drop(ids=names) | Displace(victims=names):
                    self.running.difference_update(names)
                case Retract(kept=names):
                    retraction = event
                    self.running = set(names)
                case Requeue(ids=names):
                    self.waiting.update(names)
                case Ratio(value):
                    self.ratio = value
        return prefills, retraction


def server_lines(log: Log, decode_log_interval: int = 40) -> Iterator[str]:
    """What a server would log of this run: each retraction, and every 40th decode pass.

    Times in nanoseconds become a time of day from midnight on, cut to the second. Left out are
    the prefill lines and the fields of the CUDA graph (SGLang 0.5.18 managers/scheduler.py:3537,
    the decode line as in the metrics reporter).
    """
    pool = log.config["max_total_tokens"]
    tokens, since = 0, 0
    for count, each in enumerate(decode_passes(log), 1):
        if each.retraction is not None:
            e = each.retraction
            yield (
                f"[{_time(log.times[each.step])}] KV cache pool is full. Retract requests. "
                f"#retracted_reqs: {len(e.victims)}, #new_tokens_gained: {e.gain}, "
                f"#new_token_ratio: {each.found:.4f} -> {e.ratio:.4f}"
            )
        tokens += each.running
        if count % decode_log_interval == 0:
            now = log.ends[each.step]
            yield (
                f"[{_time(now)}] Decode batch, #running-req: {each.running}, #token: {each.used}, "
                f"token usage: {each.used / pool:.2f}, gen throughput (token/s): "
                f"{tokens * 10**9 / (now - since):.2f}, #queue-req: {each.waiting}"
            )
            tokens, since = 0, now


def _time(ns: int) -> str:
    seconds = ns // 10**9
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
