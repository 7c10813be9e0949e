"""The log of our replay of a case, by the case's name: one recording, or one run of a file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from kvsched.conform import document, sglang
from kvsched.conform.recording import load, resolve
from kvsched.conform.replay import replay
from kvsched.conform.sglang import formats
from kvsched.conform.sglang.replay import replay as replay_sglang
from kvsched.errors import InputError
from kvsched.log import Log

_ONE_OF_MANY = re.compile(r"(?P<file>.+)\[(?P<number>\d+)\]")


def log_of(case: str) -> Log:
    """The log of a case: a recording's path or bare name; of SGLang's files with a run's number.

    ``loop[3]`` is the run of that place in ``loop.json``. Raises InputError for what is no whole
    run of a scheduler.
    """
    match = _ONE_OF_MANY.fullmatch(case)
    path = resolve(match["file"] if match is not None else case)
    if path.suffix == ".json":
        content = document.read(path)
        if sglang.recognises(content):
            return _run(path, content, int(match["number"]) if match is not None else None)
    if match is not None:
        raise InputError(case, "a recording of vLLM is one case", f"give {match['file']}")
    return replay(load(path)).log


def _run(path: Path, content: dict[str, Any], number: int | None) -> Log:
    """Our replay of one run of a file of loops."""
    try:
        kind = formats.check(content)
    except InputError as error:
        raise document.in_file(path, error) from None
    if kind != "loop":
        problem = f"a file of {kind} cases, which drive one part of the scheduler and have no steps"
        raise InputError(document.place(path), problem, "give a run of loop.json, such as loop[0]")
    runs = content["runs"]
    name, last = path.name.removesuffix(".json"), len(runs) - 1
    if number is None or number > last:
        found = f"{len(runs)} runs" if number is None else f"no run {number}"
        fix = f"give one of {name}[0] to {name}[{last}]"
        raise InputError(document.place(path), found, fix)
    try:
        return replay_sglang(runs[number]).log
    except InputError as error:
        raise error.inside(f"{document.place(path)}: runs[{number}]") from None
