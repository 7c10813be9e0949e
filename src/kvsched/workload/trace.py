"""Trace files: the one JSONL schema for replays, traffic and labs, read strictly, line by line.

Schema ``kvsched-trace-1``. The first line is the header::

    {"schema": "kvsched-trace-1", "unit": "tick"}

``unit`` is tick or ns; an optional ``events`` says how many lines follow. Then one object a line,
in order of time ``t``, at one time in the order of the file::

    {"type": "arrive", "t": 0, "id": "a", "prompt": 12, "output": 3}
    {"type": "cancel", "t": 5, "id": "a"}

``prompt`` is a count; or runs of token ids, [[first, count], ...]; or {"block_ids": [...],
"block_tokens": 512, "tokens": 1000}. ``output`` is the number of tokens the model will give,
which only the executor may know. An arrival may have ``max_tokens`` (what the client allows, at
least ``output``), ``priority`` (small is urgent) and ``deadline`` (a time).
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kvsched.errors import InputError
from kvsched.request import EOS, Request, Stop
from kvsched.shape import show
from kvsched.strict_json import parse
from kvsched.workload.limits import EXACT, Limit
from kvsched.workload.script import Arrival, Cancel
from kvsched.workload.trace_fields import EVENT, HEADER, SCHEMA, prompt_runs

LONGEST_LINE = 2**20
"""Bytes; a prompt of a million tokens fits, written as block ids or runs."""
LONGEST_CONTEXT = 2**31 - 1
FIRST_LINE = f'{{"schema": "{SCHEMA}", "unit": "tick"}}'


class Line(NamedTuple):
    """An event; of an arrival also its true output length, which only the executor may know."""

    event: Arrival | Cancel
    output: int = 0


def line(value: dict[str, Any], number: int, law: Limit = EXACT) -> Line:
    """The line of a checked object; ``number`` counts the arrivals before it.

    Raises InputError naming the field for lengths that do not go together.
    """
    if value["type"] == "cancel":
        return Line(Cancel(value["t"], value["id"]))
    runs = prompt_runs(value["prompt"], number)
    prompt, output = sum(count for _, count in runs), value["output"]
    cap = value.get("max_tokens", law.max_tokens(output, LONGEST_CONTEXT))
    if cap < output:
        fix = "write at least output; the model's answer is cut there anyway"
        raise InputError(".max_tokens", f"{cap} is below output {output}", fix)
    if prompt + cap > LONGEST_CONTEXT:
        found = f"{prompt} tokens, with {cap} to come"
        raise InputError(".prompt", found, f"keep both together to {LONGEST_CONTEXT}")
    request = Request(
        value["id"],
        runs,
        cap,
        arrival_time=value["t"],
        priority=value.get("priority", 0),
        stop=Stop(eos_token_id=EOS) if output < cap else None,
        deadline=value.get("deadline"),
    )
    return Line(Arrival(value["t"], request), output)


class Trace:
    """A trace file; iterating reads it from its beginning and keeps no more than ids.

    ``unit`` is that of its times. ``law`` makes ``max_tokens`` for arrivals that give none.
    ``sort``: the lines may stand in any order; they are put in order of time, in memory.

    Raises InputError naming file, line and field: here for the header, else when a line is
    reached. Read it all with ``count`` before acting on any of it.
    """

    def __init__(self, path: str | Path, law: Limit = EXACT, sort: bool = False) -> None:
        self.path = Path(path)
        self.law = law
        self.sort = sort
        header = next(self._objects())
        self.unit: str = header["unit"]
        self.events: int | None = header.get("events")

    def count(self) -> int:
        """Read every line; how many events there are."""
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Line]:
        if self.sort:
            return iter(sorted(self._events(), key=lambda line: line.event.at))
        return self._events()

    def _events(self) -> Iterator[Line]:
        objects = self._objects()
        next(objects)
        ids: dict[str, int] = {}
        before = 0
        number = 1
        for number, value in enumerate(objects, 2):
            with _Place(self.path, number):
                if value["t"] < before and not self.sort:
                    found = f"{value['t']} comes after {before}"
                    raise InputError(".t", found, "put the lines in order of t, or give --sort")
                before = value["t"]
                if value["type"] == "arrive":
                    first = ids.setdefault(value["id"], number)
                    if first != number:
                        found = f"{show(value['id'])} arrived on line {first} already"
                        raise InputError(".id", found, "give every request its own id")
                event = line(value, len(ids) - 1, self.law)
            yield event
        if self.events is not None and self.events != number - 1:
            with _Place(self.path, 1):
                found = f"{self.events}, and {number - 1} lines follow"
                raise InputError(".events", found, "copy the whole trace, or correct the number")

    def _objects(self) -> Iterator[dict[str, Any]]:
        """The header and every line after it, each checked by itself."""
        try:
            if not stat.S_ISREG(self.path.stat().st_mode):
                raise InputError(_shown(self.path), "not a regular file", "give a .jsonl file")
            with self.path.open("rb") as stream:
                number = 0
                while text := stream.readline(LONGEST_LINE + 1):
                    number += 1
                    with _Place(self.path, number):
                        value = _object(text)
                        if number == 1 and "schema" not in value:
                            raise InputError("", "no header", f"begin the file with {FIRST_LINE}")
                        (HEADER if number == 1 else EVENT)(value)
                    yield value
        except OSError as error:
            problem = f"cannot be read ({error.strerror})"
            raise InputError(_shown(self.path), problem, "check the path") from None
        if not number:
            raise InputError(_shown(self.path), "empty", f"begin it with {FIRST_LINE}")


class _Place:
    """Says in which file and line an error arose."""

    def __init__(self, path: Path, number: int) -> None:
        self.where = f"{_shown(path)}: line {number}"

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, InputError):
            field = error.place.removeprefix(".")
            place = f"{self.where}: {field}" if field else self.where
            raise InputError(place, error.problem, error.fix) from None


def _shown(path: Path) -> str:
    text = str(path)
    return text if text.isprintable() else ascii(text)


def _object(line: bytes) -> dict[str, Any]:
    if len(line) > LONGEST_LINE:
        raise InputError("", f"longer than {LONGEST_LINE} bytes", "write one object a line")
    if line.startswith(b"\xef\xbb\xbf"):
        raise InputError("", "a byte-order mark", "save the file as UTF-8 without one")
    if line.startswith(b"\x1f\x8b"):
        raise InputError("", "gzip data", "unpack the file first")
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        found = f"not UTF-8 text (0x{line[error.start]:02x} at byte {error.start})"
        raise InputError("", found, "write JSON lines as UTF-8") from None
    if not text.strip():
        raise InputError("", "an empty line", "remove it")
    try:
        value = parse(text)
    except InputError as error:
        fix = "write one JSON object a line" if error.place else error.fix  # where: not JSON at all
        raise InputError("", error.problem, fix) from None
    if not isinstance(value, dict):
        raise InputError("", f"found {show(value)}", "write one JSON object a line")
    return value
