"""A file that appears whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from kvsched.errors import InputError


@contextmanager
def whole(path: Path, option: str = "") -> Iterator[IO[str]]:
    """A stream of UTF-8 text; ``path`` has all of it once the block has ended without an error.

    Until then the text is in a file of its own beside it. A link stays one: what it leads to is
    replaced. What is no file, as a pipe or /dev/null, is written straight into.

    Raises InputError, which begins with ``option``, if the place cannot be written.
    """
    try:
        if path.exists() and not path.is_file():
            with path.open("w", encoding="utf-8", newline="\n") as stream:
                yield stream
            return
        target = Path(os.path.realpath(path))
        part = target.with_name(f".kvsched-{os.getpid()}.part")
        try:
            with part.open("w", encoding="utf-8", newline="\n") as stream:
                yield stream
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        name = str(path) if str(path).isprintable() else ascii(str(path))
        problem = f"cannot be written ({error.strerror})"
        raise InputError(f"{option} {name}".strip(), problem, "check the path") from None
