"""A fake device, and a scale whose copies are small."""

from __future__ import annotations

import dataclasses

import pytest

from kvsched.costs.units import KiB, MiB
from kvsched.device.fake import Fake
from kvsched.device.scale import SCALES


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    """A CUDA-like device whose quick scale moves 16 MiB a copy."""
    fragments = (4 * KiB, 32 * KiB, 64 * KiB, 2 * MiB, 16 * MiB)
    small = dataclasses.replace(
        SCALES["cuda", "quick"],
        fragments=fragments,
        few=(32 * KiB, 64 * KiB, 2 * MiB, 16 * MiB),
        transfer=16 * MiB,
    )
    monkeypatch.setitem(SCALES, ("cuda", "quick"), small)
    return Fake()
