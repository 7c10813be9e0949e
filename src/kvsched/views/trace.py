"""A run for the player: its log's events, written compactly, and what is told beside them.

Events are the log's own and already differences: a running request with one token left computes
it unless an ``idle`` event says otherwise. The player's script folds them as ``kvsched.board``
does. An event is ``[kind, field, …]``, its kind a place in ``kinds``, which names the fields.
Requests are places in ``ids``. Block ids are runs: first id, then how many, negative where they
descend. A step is three lists of events: up to ``schedule()``, between it and ``update()``, and
in ``update()``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kvsched.contract import POLICY, Denial
from kvsched.log import Arrive, Event, Log, Phase, Preempt
from kvsched.reader import of_engine, refuse_late_tokens
from kvsched.views.cells import SHOWN, Lane, Moment, extend
from kvsched.views.engines import ENGINES, Engine

_PART = {Phase.ARRIVALS: 0, Phase.SCHEDULE: 0, Phase.MID: 1, Phase.UPDATE: 2}
_BLOCKS = frozenset({"blocks", "hits", "front", "back", "invalid_blocks", "pages"})
_ONE_ID = frozenset({"id", "by"})
_IDS = frozenset({"ids", "recving", "sending", "victims", "kept", "aborted"})
_AFTERWARDS = 5
"""Steps kept after the last event of a run that stands still."""


def encode(log: Log, engine: Engine | None = None) -> dict[str, Any]:
    """The run as one JSON-able dict, read by the parts of ``engine``, by default its own.

    Raises InputError for a run whose tokens come late or several at once: the player's script
    does not fold those.
    """
    refuse_late_tokens(log)
    engine = engine if engine is not None else of_engine(log, ENGINES)
    told = _Telling(log, engine)
    for moment in _kept(engine.follow(log)):
        told.see(moment)
    numbers: dict[str, int] = {}
    events = _events(log, len(told.says), numbers, engine.kinds)
    return {
        "engine": log.engine,
        "config": engine.config(log.config),
        "ids": list(numbers),
        "kinds": [[kind.__name__.lower(), *kind._fields] for kind in engine.kinds],
        "events": events,
        "phases": list(SHOWN),
        "lanes": {request_id: lane.encoded() for request_id, lane in told.lanes.items()},
        "says": changes(told.says),
        "panels": changes(told.panels),
        "denied": told.denied,
        "stops": told.stops,
    }


class _Telling:
    """What is told beside the events, step by step.

    ``stops``: steps worth stopping at, which preempt or refuse another request or by another test
    than before. ``denied``: the runs of steps in which a denial stands, as first step and length.
    """

    def __init__(self, log: Log, engine: Engine) -> None:
        self.name, self.config = log.engine, log.config
        self.tell, self.panel = engine.short(log.config), engine.panel
        self.lanes: dict[str, Lane] = {}
        self.says: list[list[str]] = []
        self.panels: list[dict[str, Any]] = []
        self.stops: list[int] = []
        self.denied: list[int] = []
        self._standing: tuple[str, str] | None = None

    def see(self, moment: Moment) -> None:
        """Tell the next step."""
        extend(self.lanes, moment, self.name)
        self.says.append(self.tell(moment))
        self.panels.append(self.panel(moment, self.config))
        self._stop(moment)

    def _stop(self, moment: Moment) -> None:
        record, denial = moment.record, moment.record.denial
        preempts = bool(record.of(Preempt))
        stands = denial is not None and denial.test != POLICY
        key = (denial.id, denial.test) if denial is not None and stands else None
        if preempts or (key is not None and key != self._standing):
            self.stops.append(record.step)
        if not preempts:
            self._standing = key
        if key is not None:
            if self.denied and sum(self.denied[-2:]) == record.step:
                self.denied[-1] += 1
            else:
                self.denied += [record.step, 1]


def _kept(moments: Iterable[Moment]) -> Iterator[Moment]:
    """The steps to show: where a run stands still for good, it is cut soon after."""
    still: list[Moment] = []
    for moment in moments:
        still.append(moment)
        if moment.record.scheduled or moment.record.entries:
            yield from still
            still.clear()
    yield from still[:_AFTERWARDS]


def changes(values: Sequence[Any]) -> list[Any]:
    """The values, with None for each that equals the one before."""
    before = [None, *values]
    return [None if one == last else one for one, last in zip(values, before, strict=False)]


def runs(blocks: Iterable[int]) -> list[int]:
    """Block ids as runs: first id and length, the length negative where the ids descend."""
    found: list[int] = []
    for block in blocks:
        if found:
            first, length = found[-2], found[-1]
            ahead = block - first
            if ahead == length > 0 or (length == 1 and ahead == -1) or ahead == length < -1:
                found[-1] = length + 1 if ahead > 0 else -2 if length == 1 else length - 1
                continue
        found += [block, 1]
    return found


def _events(
    log: Log, steps: int, numbers: dict[str, int], kinds: Sequence[type[Any]]
) -> list[list[list[list[Any]]]]:
    place = {kind: number for number, kind in enumerate(kinds)}
    for entry in log.of(Arrive):
        numbers.setdefault(str(getattr(entry.event, "id", "")), len(numbers))
    parts: list[list[list[list[Any]]]] = [[[], [], []] for _ in range(steps)]
    for entry in log.entries:
        kind = place.get(type(entry.event))
        if entry.step < steps and kind is not None:
            parts[entry.step][_PART[entry.phase]].append([kind, *_event(entry.event, numbers)])
    for step in parts:
        while step and not step[-1]:
            step.pop()
    return parts


def _event(event: Event, numbers: dict[str, int]) -> list[Any]:
    return [_field(name, value, numbers) for name, value in event._asdict().items()]


def _field(name: str, value: Any, numbers: dict[str, int]) -> Any:
    if name in _BLOCKS:
        return runs(value)
    if name in _ONE_ID and value is not None:
        return numbers.setdefault(value, len(numbers))
    if name in _IDS:
        return [numbers.setdefault(each, len(numbers)) for each in value]
    if isinstance(value, Denial):
        return _denial(value, numbers)
    return value


def _denial(denial: Denial, numbers: dict[str, int]) -> Sequence[Any]:
    """Who, which test, then both sides in the order of their fields."""
    return [numbers.setdefault(denial.id, len(numbers)), *denial[1:]]
