"""Runs of cases at full size, over both cores, once a session."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from itertools import product

import pytest

from kvsched.metrics import Metrics, measure
from kvsched.views import storm, watermark_report
from kvsched.whatif import TaxRunning

SEEDS = range(5)
TAXED = (0.02,)
Sweep = dict[tuple[float, int], Metrics]


def _pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))


def taxed(watermark: float, seed: int) -> Metrics:
    """Case 1's run under the policy of case 3."""
    return watermark_report.sweep(watermark, seed, TaxRunning)


def corner(cell: storm.Cell, seed: int) -> Metrics:
    """The storm at 2.0 requests a second in one cell."""
    log, _ = storm.simulate(cell, 2.0, seed)
    return measure(log)


@pytest.fixture(scope="session")
def sweeps() -> Sweep:
    """Case 1 by watermark and seed."""
    runs = list(product(watermark_report.WATERMARKS, SEEDS))
    with _pool() as pool:
        return dict(
            zip(runs, pool.map(watermark_report.sweep, *zip(*runs, strict=True)), strict=True)
        )


@pytest.fixture(scope="session")
def taxed_sweeps() -> Sweep:
    """Case 1 under the policy of case 3, by watermark and seed."""
    runs = list(product(TAXED, SEEDS))
    with _pool() as pool:
        return dict(zip(runs, pool.map(taxed, *zip(*runs, strict=True)), strict=True))


@pytest.fixture(scope="session")
def corners() -> dict[tuple[storm.Cell, int], Metrics]:
    """The storm by cell and seed."""
    runs = list(product(storm.CELLS, SEEDS[1:]))
    with _pool() as pool:
        return dict(zip(runs, pool.map(corner, *zip(*runs, strict=True)), strict=True))
