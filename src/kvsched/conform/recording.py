"""A recording of a real engine: where it lies, what is in it, and whether it can be used."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvsched.conform import document
from kvsched.conform.formats import FORMATS
from kvsched.errors import InputError
from kvsched.shape import an_object, show

if TYPE_CHECKING:
    from collections.abc import Iterable

SUFFIXES = (".json.gz", ".json")
GOLDEN = Path("tests", "golden")
"""Where a case given by its bare name is looked up, below the current directory."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One case: what was asked of the engine, and what it did in every step.

    ``requests``, ``config``, ``facts``, ``summary`` and ``trace`` are as in the file, in the
    format's own words. ``events`` is the same for both formats: each has ``step``, ``op`` and
    ``when``, and a first-format abort is ``{step, op: "abort", id, when: "pre"}``.
    """

    path: Path
    format: str
    engine: str
    version: str
    name: str
    category: str
    note: str
    config: dict[str, Any]
    requests: list[dict[str, Any]]
    events: list[dict[str, Any]]
    facts: dict[str, Any]
    max_idle: int
    max_steps: int
    summary: dict[str, Any]
    trace: list[dict[str, Any]]


def load(path: str | Path) -> Recording:
    """The recording in a ``.json.gz`` or ``.json`` file.

    Raises InputError naming file, field and value, for anything out of the format except the
    values in ``config``, which the engine's Config judges.
    """
    path = Path(path)
    content = document.read(path)
    try:
        return _recording(path, content)
    except InputError as error:
        raise document.in_file(path, error) from None


def find(paths: Iterable[str | Path]) -> list[Path]:
    """The files named, and all recordings below the folders named, each once.

    Order: as named, sorted within a folder. A folder's ``index.json`` is left out. Whatever
    cannot be expanded stays in the list, so that ``load`` says what is wrong with it.
    """
    found: dict[Path, Path] = {}
    for path in map(Path, paths):
        for file in _below(path) if path.is_dir() else [path]:
            found.setdefault(file.absolute(), file)
    return list(found.values())


def resolve(case: str) -> Path:
    """The recording meant by a path, or by a bare case name below ``tests/golden``."""
    if case.endswith(".jsonl"):
        fix = "give a recording, or use kvsched replay with --explain"
        raise InputError(show(case), "a trace by its name, no recording", fix)
    if os.sep in case or case.endswith(SUFFIXES):
        return Path(case)
    if not GOLDEN.is_dir():
        problem = f"names a case of {GOLDEN}, and that folder is not here"
        fix = "run it in the root of a clone of the project, or give a recording's path"
        raise InputError(show(case), problem, fix)
    known: dict[str, list[Path]] = {}
    for path in find([GOLDEN]):
        known.setdefault(_stem(path), []).append(path)
    matches = known.get(case, [])
    if len(matches) == 1:
        return matches[0]
    if matches:
        fix = f"give one of the paths {', '.join(map(str, matches))}"
        raise InputError(show(case), f"the name of {len(matches)} cases", fix)
    near = difflib.get_close_matches(case, known, 3)
    fix = f"near it: {', '.join(near)}" if near else "give a case's name or a recording's path"
    raise InputError(show(case), f"no case of this name in {GOLDEN}", fix)


def _below(folder: Path) -> list[Path]:
    """The recordings below a folder, sorted; what cannot be listed stands for itself."""
    files: list[Path] = []
    unlisted: list[Path] = []
    walk = os.walk(folder, onerror=lambda error: unlisted.append(Path(error.filename)))
    for parent, _, names in walk:
        files += [
            Path(parent, name)
            for name in names
            if name.endswith(SUFFIXES) and name not in ("index.json", "index.json.gz")
        ]
    return sorted(files + unlisted) or [folder]


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".json")


def _recording(path: Path, content: Any) -> Recording:
    """Check the content against its format and give it one form for all formats."""
    an_object(content)
    name = content.get("format")
    if not isinstance(name, str) or name not in FORMATS:
        known = " or ".join(map(show, FORMATS))
        found = f"found {show(name)}" if "format" in content else "no such field"
        raise InputError(".format", found, f"give a recording in {known}")
    FORMATS[name](content)
    requests: list[dict[str, Any]] = content["requests"]
    known_ids = _distinct(requests)
    events = _events(content)
    for position, event in enumerate(events):
        if event["op"] in ("chunk", "close") and event["id"] not in known_ids:
            found = f"found {show(event['id'])}, the id of no request"
            raise InputError(f".events[{position}].id", found, "write the id of a session")
    return Recording(
        path=path,
        format=name,
        engine="vllm",
        version=content["vllm"],
        name=content["name"],
        category=content["category"],
        note=content["note"],
        config=content["config"],
        requests=requests,
        events=events,
        facts=content.get("facts", {}),
        max_idle=content["max_idle"],
        max_steps=content["max_steps"],
        summary=content["summary"],
        trace=content["trace"],
    )


def _distinct(requests: list[dict[str, Any]]) -> set[str]:
    """The requests' ids, if no two are the same."""
    first: dict[str, int] = {}
    for position, request in enumerate(requests):
        before = first.setdefault(request["id"], position)
        if before != position:
            found = f"found {show(request['id'])}, the id of requests[{before}]"
            raise InputError(f".requests[{position}].id", found, "give every request its own id")
    return set(first)


def _events(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Both formats' events in one form."""
    if "aborts" in content:
        return [{**abort, "op": "abort", "when": "pre"} for abort in content["aborts"]]
    return [{**event, "when": event.get("when", "pre")} for event in content["events"]]
