"""How a time is taken: the same order of calls on every device."""

from __future__ import annotations

from kvsched.device.backend import Backend, Work

WARM_UP, REPEATS = 3, 10
"""Runs that are not timed, and runs that are."""


def sample(backend: Backend, work: Work, warm_up: int, repeats: int) -> list[float]:
    """Seconds of each of ``repeats`` runs, after ``warm_up`` runs that are not timed.

    The device is empty when the first timed run is put on it. Nothing waits between timed
    runs, so it is never idle for want of a launch. All is read after one last wait.
    """
    for _ in range(warm_up):
        work()
    backend.synchronize()
    timers = [backend.timer() for _ in range(repeats)]
    for timer in timers:
        timer.start()
        work()
        timer.stop()
    backend.synchronize()
    return [timer.seconds() for timer in timers]


def side_by_side(backend: Backend, *works: Work) -> Work:
    """All at once, each on a stream of its own, and the default order waits for the last."""
    streams = [backend.stream() for _ in works]

    def run() -> None:
        for stream in streams:
            stream.fork()
        for stream, work in zip(streams, works, strict=True):
            stream.put(work)
        for stream in streams:
            stream.join()

    return run


def captured(backend: Backend, work: Work) -> Work:
    """The work as one launch: what remains is the device's own time, not the caller's.

    It runs once before, for what a first run sets up must not be captured.
    """
    work()
    backend.synchronize()
    return backend.graph(work)
