"""Why a step went as it did, in sentences read off the log.

One event, one sentence. The numbers are the log's own; nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kvsched.conform.recording import Recording
from kvsched.conform.replay import replay
from kvsched.errors import InputError
from kvsched.explain.sglang import explain as explain_sglang
from kvsched.explain.telling import Sentence, Telling
from kvsched.log import Arrive, Log
from kvsched.reader import of_engine
from kvsched.sglang.steps import rebuild as rebuild_sglang
from kvsched.steps import StepRecord, rebuild

__all__ = ["Sentence", "explain", "explain_case", "explain_log", "explain_step"]


def explain_case(recording: Recording, step: int, request: str | None = None) -> list[str]:
    """Replay a recording of vLLM and explain one step of it, for one request or for all."""
    return explain_log(replay(recording).log, step, request)


def explain_log(log: Log, step: int, request: str | None = None) -> list[str]:
    """Explain one step of a run, for one request or for all.

    Raises InputError if the run has no such step or request.
    """
    known = [entry.event.id for entry in log.entries if isinstance(entry.event, Arrive)]
    if request is not None and request not in known:
        raise InputError(f"--request {request}", "no such request", f"known: {', '.join(known)}")
    if not 0 <= step < len(log.times):
        raise InputError(
            f"--step {step}", "no such step", f"give a step from 0 to {len(log.times) - 1}"
        )
    sentences = explain_step(log, step)
    if request is not None:
        sentences = [s for s in sentences if request in s.ids]
        if not sentences:
            return [f"Nothing happens to {request} in step {step}."]
    return [sentence.text for sentence in sentences]


def explain_step(log: Log, step: int) -> list[Sentence]:
    """The sentences of one step, in the order in which things happened."""
    steps, tell = of_engine(log, _ENGINES)
    for record in steps(log):
        if record.step == step:
            return tell(record, log.config)
    raise InputError(f"step {step}", "no such step", f"give a step below {len(log.times)}")


def explain(record: StepRecord, config: dict[str, Any]) -> list[Sentence]:
    """The sentences of a rebuilt step of vLLM's."""
    told = Telling(record, config).all()
    return told or [Sentence("Nothing happens: no request is live.", ())]


_Rebuild = Callable[[Log], Iterator[Any]]
_Tell = Callable[[Any, dict[str, Any]], list[Sentence]]
_ENGINES: dict[str, tuple[_Rebuild, _Tell]] = {
    "vllm": (rebuild, explain),
    "sglang": (rebuild_sglang, explain_sglang),
}
