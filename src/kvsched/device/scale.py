"""How much is measured: by device, and by how long one wants to wait."""

from __future__ import annotations

from dataclasses import dataclass

from kvsched.costs.units import GiB, KiB, MiB
from kvsched.profiles import Part


@dataclass(frozen=True, slots=True)
class Scale:
    """The sizes of one calibration; all of Llama-3-8B.

    ``matmul``: side of the square matrices. ``duplicate``: bytes of the copy on the device.
    ``part``: what of the model a pass computes, over ``distinct`` layers. ``prompts``: lengths.
    ``suffix``: a prompt, and how much of it is cached. ``steps``: decode steps (batch, context),
    the first for a step's base, the last two for the slope. ``transfer``: bytes of a copy case, in
    pieces of each of ``fragments`` and no more than ``pieces`` of them; ``few``: the fragments of
    the dearer routes. ``seconds``: the time budget.
    """

    matmul: int
    duplicate: int
    part: Part
    distinct: int
    prompts: tuple[int, ...]
    suffix: tuple[int, tuple[int, ...]]
    steps: tuple[tuple[int, int], ...]
    fragments: tuple[int, ...]
    few: tuple[int, ...]
    transfer: int
    seconds: float
    pieces: int = 32_768


def _kib(*sizes: int) -> tuple[int, ...]:
    return tuple(size * KiB for size in sizes)


SCALES = {
    ("cuda", "quick"): Scale(
        matmul=8192,
        duplicate=GiB,
        part=Part(32, 1),
        distinct=4,
        prompts=(512, 1024, 2048, 4096, 8192, 16_384),
        suffix=(8192, (4096, 6144, 7168, 7680, 8064)),
        steps=((1, 128), (64, 512), (64, 4096)),
        fragments=(*_kib(4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 16_384), GiB),
        few=(*_kib(32, 64, 2048), GiB),
        transfer=GiB,
        seconds=300,
    ),
    ("cuda", "full"): Scale(
        matmul=16_384,
        duplicate=4 * GiB,
        part=Part(32, 1),
        distinct=4,
        prompts=tuple(512 << i for i in range(9)),
        suffix=(16_384, (4096, 8192, 12_288, 14_336, 15_360, 15_872, 16_256)),
        steps=((1, 128), (1, 8192), (16, 4096), (256, 1024), (64, 512), (64, 4096)),
        fragments=(*_kib(4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 16_384), GiB),
        few=(*_kib(32, 64, 256, 2048, 16_384), GiB),
        transfer=GiB,
        seconds=1800,
    ),
    ("cpu", "quick"): Scale(
        matmul=1536,
        duplicate=64 * MiB,
        part=Part(1, 8),
        distinct=2,
        prompts=(16, 32, 64, 128, 256),
        suffix=(256, (64, 128, 192, 224)),
        steps=((1, 16), (8, 16), (8, 256)),
        fragments=_kib(4, 32, 64, 512, 2048, 16_384),
        few=_kib(32, 64, 2048),
        transfer=16 * MiB,
        seconds=30,
    ),
    ("cpu", "taste"): Scale(
        matmul=768,
        duplicate=8 * MiB,
        part=Part(1, 8),
        distinct=1,
        prompts=(16, 32, 64),
        suffix=(64, (32, 48)),
        steps=((1, 16), (4, 16), (4, 64)),
        fragments=_kib(32, 256, 2048),
        few=_kib(32, 256, 2048),
        transfer=2 * MiB,
        seconds=1,
    ),
    ("cpu", "full"): Scale(
        matmul=4096,
        duplicate=GiB,
        part=Part(2, 1),
        distinct=2,
        prompts=(32, 64, 128, 256, 512, 1024, 2048),
        suffix=(1024, (256, 512, 768, 896, 960)),
        steps=((1, 64), (8, 64), (8, 1024)),
        fragments=(*_kib(4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 16_384), 256 * MiB),
        few=_kib(32, 64, 256, 2048),
        transfer=256 * MiB,
        seconds=600,
    ),
}
"""By kind of device and scale. ``taste`` is the lab's: it shows the file's form, in a second."""
