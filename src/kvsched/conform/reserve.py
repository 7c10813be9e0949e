"""The worked traces of the reservation simulator: every record against the simulator's own."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path
from typing import Any

from kvsched import reserve
from kvsched.conform import document
from kvsched.conform.compare import CaseResult, Divergence
from kvsched.conform.sglang.result import difference, short
from kvsched.errors import InputError
from kvsched.replay import replay_reserve
from kvsched.reserve.records import Record, as_json
from kvsched.shape import an_object, array, integer, one_of, record, show, word
from kvsched.workload import Arrival
from kvsched.workload.trace import Line, line
from kvsched.workload.trace_fields import EVENT

Json = dict[str, Any]

FORMAT = "reserve-1"
_positive = integer(1)
CASE = record(
    {
        "format": one_of(FORMAT),
        "name": word,
        "config": record(
            {
                "policy": one_of(*reserve.POLICIES),
                **dict.fromkeys(("block_size", "blocks", "max_tokens"), _positive),
                **dict.fromkeys(("max_rows", "chunk"), _positive),
                "release_delay": integer(),
            }
        ),
        "trace": array(EVENT),
        "records": array(an_object),
    }
)


def recognises(content: Any) -> bool:
    """Does this look like a worked trace?"""
    return isinstance(content, dict) and content.get("format") == FORMAT


def recognised(path: Path) -> tuple[reserve.Config, list[Record]] | None:
    """Configuration and records of the worked trace in a file, None if it is none."""
    content = document.read(path) if path.suffix == ".json" else None
    if not recognises(content):
        return None
    config, lines = load(path, content)
    return config, records(config, lines)


def load(path: Path, content: Any) -> tuple[reserve.Config, list[Line]]:
    """Configuration and trace of what was read from ``path``, in order of time.

    Raises InputError naming file, field and value for anything out of the format.
    """
    try:
        CASE(content)
        return reserve.Config(**content["config"]), _lines(content["trace"])
    except InputError as error:
        raise document.in_file(path, error) from None


def compare_content(path: Path, content: Any) -> CaseResult:
    """The verdict on the case that was read from ``path``."""
    kept = records(*load(path, content))
    got = [as_json(record) for record in kept]
    steps, divergence = _compare(content["records"], got)
    name = content["name"]
    return CaseResult(name, reserve.ENGINE, reserve.VERSION, str(path), steps, divergence)


def records(config: reserve.Config, lines: Iterable[Line]) -> list[Record]:
    """What the simulator writes, all of it."""
    kept: list[Record] = []
    replay_reserve(iter(lines), config, write=kept.append)
    return kept


def _lines(trace: list[dict[str, Any]]) -> list[Line]:
    """A trace in file order, put in order of time."""
    lines = [line(event, number) for number, event in enumerate(trace)]
    seen: set[str] = set()
    for number, (event, _) in enumerate(lines):
        if isinstance(event, Arrival) and event.request.id in seen:
            found = f"{show(event.request.id)} arrived already"
            raise InputError(f".trace[{number}].id", found, "give every request its own id")
        if isinstance(event, Arrival):
            seen.add(event.request.id)
    return sorted(lines, key=lambda line: line.event.at)


def _compare(expected: list[Json], got: list[Json]) -> tuple[int, Divergence | None]:
    """How many records are equal, and the first field that is not."""
    nothing: Json = {}
    for number, (there, here) in enumerate(zip_longest(expected, got, fillvalue=nothing)):
        found = difference(there, here) or difference(here, there)
        if found is not None:
            context = f"  recorded: {short(there)}\n  twin:     {short(here)}"
            return number, Divergence(number, *found, context)
    return len(got), None
