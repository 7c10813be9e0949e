"""The engines' source at the pinned tags: `PATH:LINE` or `PATH:FIRST-LAST` becomes a link."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kvsched.errors import InputError


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine at one tag; `prefix` is how paths in its repository begin."""

    name: str
    version: str
    repository: str
    prefix: str

    @property
    def blob(self) -> str:
        """The address under which the repository's files lie at the pinned tag."""
        return f"{self.repository}/blob/v{self.version}/"


ENGINES = (
    Engine("vLLM", "0.28.0", "https://github.com/vllm-project/vllm", "vllm/"),
    Engine("SGLang", "0.5.18", "https://github.com/sgl-project/sglang", "python/sglang/"),
)

_PLACE = re.compile(r"(?P<path>[\w./-]+\.\w+):(?P<first>[1-9]\d*)(?:-(?P<last>[1-9]\d*))?")


@dataclass(frozen=True, slots=True)
class Source:
    """Lines of an engine's file at its pinned tag."""

    engine: Engine
    path: str
    first: int
    last: int

    @property
    def place(self) -> str:
        """As it was written: `PATH:FIRST` or `PATH:FIRST-LAST`."""
        lines = f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"
        return f"{self.path}:{lines}"

    @property
    def url(self) -> str:
        """The address of exactly these lines."""
        lines = f"#L{self.first}" if self.first == self.last else f"#L{self.first}-L{self.last}"
        return f"{self.engine.blob}{self.path}{lines}"


def source(place: str) -> Source:
    """The lines that `place` names, in the engine whose prefix its path begins with."""
    match = _PLACE.fullmatch(place)
    if match is None:
        raise InputError(
            "engine source", f"{place!r} is no place", "write PATH:LINE or PATH:FIRST-LAST"
        )
    path, first = match["path"], int(match["first"])
    last = int(match["last"] or first)
    if last < first:
        raise InputError("engine source", f"{place!r} ends before it begins", "swap the two lines")
    for engine in ENGINES:
        if path.startswith(engine.prefix):
            return Source(engine, path, first, last)
    known = " or ".join(f"{engine.prefix} ({engine.name})" for engine in ENGINES)
    raise InputError(
        "engine source", f"{path!r} is in no known engine", f"begin the path with {known}"
    )
