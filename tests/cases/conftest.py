"""Runs of cases at full size, once a session."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any, NamedTuple, TypeVar

import pytest

from kvsched import courses
from kvsched.metrics import Metrics, measure
from kvsched.views import storm, watermark_report
from kvsched.whatif import TaxRunning
from kvsched.workload import SECOND

SEEDS = range(5)
Run = TypeVar("Run")


def spread(
    simulate: Callable[[Any, int], Run], settings: Iterable[Any]
) -> dict[tuple[Any, int], Run]:
    """The run of each setting with each seed."""
    return {key: simulate(*key) for key in product(settings, SEEDS)}


class Sweep(NamedTuple):
    """Case 1 at one watermark; ``busy``: output tokens a second while every client waits for one.

    From the first arrival to the step in which the last request is first scheduled.
    """

    metrics: Metrics
    busy: float


def sweep(watermark: float, seed: int) -> Sweep:
    """Case 1's run."""
    log = watermark_report.simulate(watermark, seed)
    found = courses.read(log)
    last = max(course.admitted[0] for course in found)
    runs = (run for course in found for run in course.runs)
    tokens = sum(max(0, min(end, last) - start + 1) for start, end in runs)
    return Sweep(measure(log), tokens * SECOND / log.ends[last])


def taxed(watermark: float, seed: int) -> Metrics:
    """Case 1's run under the policy of case 3."""
    return watermark_report.sweep(watermark, seed, TaxRunning)


def corner(cell: storm.Cell, seed: int) -> Metrics:
    """The storm at 2.0 requests a second in one cell."""
    log, _ = storm.simulate(cell, 2.0, seed)
    return measure(log)


@pytest.fixture(scope="session")
def sweeps() -> dict[tuple[float, int], Sweep]:
    """Case 1 by watermark and seed."""
    return spread(sweep, watermark_report.WATERMARKS)


@pytest.fixture(scope="session")
def taxed_sweeps() -> dict[tuple[float, int], Metrics]:
    """Case 1 under the policy of case 3, at one watermark."""
    return spread(taxed, [0.02])


@pytest.fixture(scope="session")
def corners() -> dict[tuple[storm.Cell, int], Metrics]:
    """The storm by cell and seed."""
    return spread(corner, storm.CELLS)
