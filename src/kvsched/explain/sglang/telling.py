"""One event, one sentence, in the order in which things happened."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kvsched.explain.sglang.admitting import Admitting
from kvsched.explain.sglang.refusals import why
from kvsched.explain.sglang.retracting import Retracting
from kvsched.explain.sglang.words import first, pages, verb, who, whom
from kvsched.explain.telling import Sentence
from kvsched.explain.words import n, tokens
from kvsched.log import Abort, Arrive, Cache, Evict, Finish, Free, Phase
from kvsched.sglang import Config
from kvsched.sglang.core import ABORT
from kvsched.sglang.events import (
    Adopt,
    Drop,
    Full,
    Grow,
    Landed,
    Merge,
    Ratio,
    Retract,
    Ride,
    Sorted,
)
from kvsched.sglang.retract import OUT_OF_MEMORY
from kvsched.sglang.scheduler import TIMEOUT
from kvsched.sglang.steps import Iteration


def explain(it: Iteration, config: dict[str, Any]) -> list[Sentence]:
    """The sentences of a rebuilt iteration."""
    told = Telling(it, Config(**config)).all()
    return told or [Sentence("Nothing happens: no request is live.", ())]


class Telling:
    """Turns the events of one iteration into sentences."""

    def __init__(self, it: Iteration, config: Config) -> None:
        self.it = it
        self.config = config
        self.ratio = it.ratio_before
        self.admitting = Admitting(it, config)
        self.finished = {event.id for event in it.finished}
        self.erased = dict(zip(it.of(Evict), it.erased, strict=True))
        self.tellers: dict[type, Callable[[Any], str | None]] = {
            **self.admitting.tellers,
            **Retracting(it, config).tellers,
            Arrive: self._arrival,
            Abort: self._abort,
            Finish: self._ending,
            Sorted: self._sorted,
            Merge: lambda e: f"{whom(e.ids)}, whose prefill is done, {_join(e.ids)} the batch.",
            Drop: lambda e: f"{whom(e.ids)} had ended and {_leave(e.ids)} the batch.",
            Ride: lambda e: (
                f"{whom(e.ids)} {verb(e.ids, 'computes its', 'compute their')} next token within "
                "this prefill pass."
            ),
            Grow: self._growth,
            Evict: self._eviction,
            Adopt: lambda e: (
                f"The tree had {pages(len(e.pages))} of what {who(e.id)} computed already: they "
                "replace its own, which come free."
            ),
            Cache: self._cached,
            Full: self._full,
            Ratio: self._ratio,
            Landed: self._landed,
        }

    def all(self) -> list[Sentence]:
        """The sentences of the iteration, in the order in which things happened."""
        decided = self._of(Phase.ARRIVALS, Phase.SCHEDULE)
        after = self._of(Phase.MID, Phase.UPDATE)
        return [*decided, *self._decodes(), *self._denied(), *after]

    def _of(self, *phases: Phase) -> list[Sentence]:
        sentences = []
        for entry in self.it.entries:
            tell = self.tellers.get(type(entry.event))
            text = tell(entry.event) if tell is not None and entry.phase in phases else None
            if text is not None:
                sentences.append(Sentence(first(text), self._about(entry.event)))
        return sentences

    def _about(self, event: Any) -> tuple[str, ...]:
        """The requests a sentence about this event is about."""
        if isinstance(event, Evict):
            return (event.by, *self.erased[event])
        if isinstance(event, Landed):
            return tuple(self.it.dropped)
        named: list[str] = []
        for name in ("id", "ids", "victims", "kept", "aborted"):
            value = getattr(event, name, None)
            named += [value] if isinstance(value, str) else value or ()
        denial = getattr(event, "denial", None)
        return tuple(dict.fromkeys([*named, denial.id] if denial is not None else named))

    # -- who computes -----------------------------------------------------------------------

    def _decodes(self) -> list[Sentence]:
        """Who decodes; or, where a prefill pass has come between, who waits for it."""
        ids = tuple(request_id for request_id, _, _ in self.it.rows)
        if self.it.kind == "decode":
            text = f"{whom(ids)} {verb(ids, 'computes', 'each compute')} 1 token."
            return [Sentence(first(text), ids)]
        held = tuple(self.it.running)
        if not ids or not held:
            return []
        text = f"{whom(held)} {verb(held, 'computes', 'compute')} nothing: a pass that admits "
        return [Sentence(first(f"{text}decodes nobody."), held)]

    def _denied(self) -> list[Sentence]:
        """Why the head stays in the queue, if that was not told where it was tried."""
        denial = self.it.denial
        if denial is None or denial.id in self.admitting.refused:
            return []
        text = f"{who(denial.id)} stays in the queue: {why(denial, self.config)}"
        return [Sentence(first(text), (denial.id,))]

    # -- coming and going -------------------------------------------------------------------

    def _arrival(self, event: Arrive) -> str:
        return (
            f"{who(event.id)} arrives with a prompt of {tokens(event.num_prompt_tokens)} and may "
            f"generate {n(event.max_tokens)}; it joins the end of the queue."
        )

    def _abort(self, event: Abort) -> str:
        name = who(event.id)
        if event.status is None:
            return f"An abort of {name} has no effect: it is unknown or has finished."
        when = {"WAITING": "at once", "RETRACTED": "at once", "CHUNKING": "before the next pass"}
        end = when.get(event.status, "with its next token")
        return f"{name} is aborted; it was {event.status} and ends {end}."

    def _ending(self, event: Finish) -> str:
        name = who(event.id)
        if event.reason == OUT_OF_MEMORY:
            return (
                f"{name} is the last one left and its next token does not fit: it is aborted "
                f"(“{event.reason}”), where vLLM would not schedule it."
            )
        if event.reason == TIMEOUT:
            limit = self.config.req_waiting_timeout
            return f"{name} has waited longer than {limit:g} and is turned away."
        kept = self._counted(Cache, event.id, "blocks")
        back = self._counted(Free, event.id, "back")
        how = f"finishes ({event.reason}, {event.status})"
        return (
            f"{name} {'ends, as its client asked' if event.status == ABORT else how}: the tree "
            f"keeps {pages(kept)} of its own, {pages(back)} {'comes' if back == 1 else 'come'} "
            "free."
        )

    def _counted(self, kind: type[Any], request_id: str, field: str) -> int:
        events = [e for e in self.it.of(kind) if e.id == request_id]
        return sum(len(getattr(event, field)) for event in events)

    # -- the queue, the flag, the ratio -----------------------------------------------------

    def _sorted(self, event: Sorted) -> str:
        policy = self.config.schedule_policy
        first_by = "priority, then " if self.config.enable_priority_scheduling else ""
        return f"The queue is put in order ({first_by}{policy}): {whom(event.ids)}."

    def _full(self, event: Full) -> str:
        if event.full:
            return "batch_is_full is set: nobody new is tried until a request leaves the batch."
        return "batch_is_full is cleared: the next pass may try the queue again."

    def _ratio(self, event: Ratio) -> str | None:
        before, self.ratio = self.ratio, event.value
        if event.value in [retraction.ratio for retraction in self.it.of(Retract)]:
            return None  # told with the retraction
        change = f"{before:.4f} -> {event.value:.4f}"
        if self.it.kind == "idle":
            return f"Nobody is here, so new_token_ratio starts afresh: {change}."
        return f"The memory check holds, so new_token_ratio decays: {change}."

    # -- pages ------------------------------------------------------------------------------

    def _growth(self, event: Grow) -> str:
        each = verb(event.ids, "takes a new page", "take a new page each")
        return f"{whom(event.ids)} {each}; {n(event.free)} left free."

    def _eviction(self, event: Evict) -> str:
        owned = " and ".join(
            f"{pages(count)} of {who(owner)}'s" for owner, count in self.erased[event].items()
        )
        return f"For {who(event.by)} the tree gives up {owned}: they can no longer be found."

    def _cached(self, event: Cache) -> str | None:
        if event.id in self.finished:
            return None
        return f"The tree takes over {pages(len(event.blocks))} of {who(event.id)}'s."

    def _landed(self, event: Landed) -> str | None:
        if not self.it.dropped:
            return None
        text = f"The pass of step {n(event.step)} comes back; the token of {whom(self.it.dropped)}"
        return f"{text} is dropped, as it was thrown out while the pass ran."


def _join(ids: Iterable[str]) -> str:
    return verb(ids, "joins", "join")


def _leave(ids: Iterable[str]) -> str:
    return verb(ids, "leaves", "leave")
