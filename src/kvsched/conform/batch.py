"""Many recordings checked on several cores, answered in the order asked."""

from __future__ import annotations

import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING

from kvsched.conform import document, reserve, sglang
from kvsched.conform.compare import CaseResult, check
from kvsched.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_WORTH_A_PROCESS = 8
"""Recordings for which starting a process pays."""


def check_all(paths: Sequence[Path], jobs: int | None = None) -> Iterator[list[CaseResult] | str]:
    """The verdicts on each path's cases, in order; a string says why a file cannot be used.

    ``jobs``: processes to use; None is as many as there are cores, if there are enough files.
    """
    if jobs is None:
        jobs = min(os.cpu_count() or 1, 1 + len(paths) // _WORTH_A_PROCESS)
    if jobs == 1 or len(paths) < 2:
        yield from map(_verdict, paths)
        return
    # A spawned process starts alike on every system, whatever threads run here.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(
        min(jobs, len(paths)), context, initializer=_leave_ctrl_c_to_the_first
    )
    try:
        # map starts the processes; Ctrl-C is held back from each until it ignores it.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        verdicts = pool.map(_verdict, paths)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        yield from verdicts
    except BrokenProcessPool:
        raise InputError("--jobs", "a process was killed", "use --jobs 1") from None
    finally:
        pool.shutdown(cancel_futures=True)


def _verdict(path: Path) -> list[CaseResult] | str:
    """SGLang's files are plain JSON and hold many cases; each of the others' holds one."""
    try:
        if path.suffix == ".json":
            content = document.read(path)
            if sglang.recognises(content):
                return list(sglang.compare_content(path, content))
            if reserve.recognises(content):
                return [reserve.compare_content(path, content)]
        return [check(path)]
    except InputError as error:
        return str(error)


def _leave_ctrl_c_to_the_first() -> None:
    """Ctrl-C reaches every process of the terminal; the first ends the others, and speaks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
