"""Runs of cases at full size, over both cores, once a session."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import Any

import pytest

from kvsched.metrics import Metrics, measure
from kvsched.views import storm, watermark_report
from kvsched.whatif import TaxRunning

SEEDS = range(5)
Runs = dict[tuple[Any, int], Metrics]


def spread(simulate: Callable[[Any, int], Metrics], settings: Iterable[Any]) -> Runs:
    """The run of each setting with each seed."""
    keys = list(product(settings, SEEDS))
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        return dict(zip(keys, pool.map(simulate, *zip(*keys, strict=True)), strict=True))


def taxed(watermark: float, seed: int) -> Metrics:
    """Case 1's run under the policy of case 3."""
    return watermark_report.sweep(watermark, seed, TaxRunning)


def corner(cell: storm.Cell, seed: int) -> Metrics:
    """The storm at 2.0 requests a second in one cell."""
    log, _ = storm.simulate(cell, 2.0, seed)
    return measure(log)


@pytest.fixture(scope="session")
def sweeps() -> Runs:
    """Case 1 by watermark and seed."""
    return spread(watermark_report.sweep, watermark_report.WATERMARKS)


@pytest.fixture(scope="session")
def taxed_sweeps() -> Runs:
    """Case 1 under the policy of case 3, at one watermark."""
    return spread(taxed, [0.02])


@pytest.fixture(scope="session")
def corners() -> Runs:
    """The storm by cell and seed."""
    return spread(corner, storm.CELLS)
