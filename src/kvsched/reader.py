"""Which engine's part reads a log: the one place where that is decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from kvsched.errors import InputError
from kvsched.log import Log

T = TypeVar("T")


def of_engine(log: Log, parts: Mapping[str, T]) -> T:
    """The part for the engine that wrote ``log``.

    A log that names none holds common events alone, and is read as vLLM's. Raises InputError for
    an engine without a part.
    """
    engine = log.engine or "vllm"
    if engine not in parts:
        raise InputError("log", f"of engine {engine!r}", f"known here: {', '.join(parts)}")
    return parts[engine]


def refuse_late_tokens(log: Log) -> None:
    """Raise InputError for a vLLM run whose tokens come late or several at once.

    For a reading that knows only steps whose output is taken in at their own end.
    """
    late, several = log.config.get("async_scheduling"), log.config.get("num_speculative_tokens")
    if log.engine == "vllm" and (late or several):
        problem = "of a run that is asynchronous" if late else "of a run with drafts"
        raise InputError("log", problem, "this reading knows synchronous runs without drafts")
