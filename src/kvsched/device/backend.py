"""What a measurement asks of a device. Three keep this: CUDA, the CPU, and a fake that records.

All arithmetic, order and bookkeeping is above this line and runs with any of them; what differs
between devices is below it, a few lines each.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from kvsched.costs.model import Model
from kvsched.errors import InputError
from kvsched.profiles import Part

Work = Callable[[], object]
"""Puts work on the device and returns, perhaps before the device has done it."""
Buffer = Any
"""Bytes somewhere: a one-dimensional tensor of uint8, or what the fake has for it."""


class Timer(Protocol):
    """Two marks in the device's own order of work."""

    def start(self) -> None:
        """Mark here."""

    def stop(self) -> None:
        """Mark here."""

    def seconds(self) -> float:
        """Between the marks. Only after ``synchronize``: before, nothing need have happened."""


class Stream(Protocol):
    """An order of work beside the default one."""

    def fork(self) -> None:
        """Wait for what the default order has so far."""

    def put(self, work: Work) -> None:
        """Put work here."""

    def join(self) -> None:
        """Make the default order wait for this one."""


class Shape(NamedTuple):
    """A pass through layers: ``batch`` requests, each of ``tokens`` after ``cached``."""

    batch: int
    tokens: int
    cached: int


class Layers(Protocol):
    """Distinct layers with random weights, cycled so that no cache of the device holds them."""

    def forward(self, shape: Shape, layers: int) -> Work:
        """A pass through so many layers."""


class Backend(Protocol):
    """A device to measure. ``kind``: ``cuda`` or ``cpu``. ``streams``: can it copy beside itself?

    ``device``: the device's own name. ``dtype``: of weights and activations. What a method makes
    is freed when the caller lets go of it; ``release`` returns it to the system.
    """

    kind: str
    device: str
    driver: str
    torch: str
    dtype: str
    element: int
    streams: bool

    def synchronize(self) -> None:
        """Wait until all work is done."""

    def timer(self) -> Timer:
        """A fresh timer."""

    def stream(self) -> Stream:
        """A fresh stream; only where ``streams``."""

    def graph(self, work: Work) -> Work:
        """The work captured once, to be launched as one; only where ``streams``."""

    def room(self) -> int:
        """Bytes that can be had."""

    def release(self) -> None:
        """Give back what is not in use."""

    def is_full(self, error: Exception) -> bool:
        """Does this error say that memory ran out?"""

    def pool(self, size: int) -> Buffer:
        """So many bytes on the device."""

    def host(self, size: int, *, pinned: bool) -> Buffer:
        """So many bytes of the host, page-locked if asked and if the device knows of it."""

    def copies(self, target: Buffer, source: Buffer, pairs: Sequence[tuple[int, int]]) -> Work:
        """One call for each pair of pieces (to, from); both buffers cut into as many as pairs."""

    def gather(self, out: Buffer, pool: Buffer, order: Sequence[int], stage: Buffer) -> Work:
        """Pieces of the pool in this order into ``stage``, on the device; then one copy out."""

    def scatter(self, pool: Buffer, back: Buffer, order: Sequence[int], stage: Buffer) -> Work:
        """One copy into ``stage``; then its pieces to their places in the pool, on the device."""

    def duplicate(self, size: int) -> Work:
        """A copy of so many bytes from the device to itself."""

    def matmul(self, side: int) -> Work:
        """The product of two square matrices."""

    def layers(self, model: Model, part: Part, distinct: int) -> Layers:
        """So many distinct layers of the model, each as one of ``part.ranks`` computes it."""


def find(kind: str) -> Backend:
    """The backend of this kind, its torch imported.

    Raises InputError: torch is not installed, or sees no such device.
    """
    try:
        if kind == "cuda":
            from kvsched.device.cuda import Cuda  # noqa: PLC0415

            return Cuda()
        from kvsched.device.cpu import Cpu  # noqa: PLC0415

        return Cpu()
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        fix = "pip install torch, in the build for your device"
        raise InputError("kvsched calibrate", "torch is not installed", fix) from None


def has_cuda() -> bool:
    """Can there be a CUDA device? Asks neither torch nor the device, so it takes no time.

    The driver's library is there, and a torch that is not the CPU build.
    """
    try:
        ctypes.CDLL("libcuda.so.1")
        return "+cpu" not in importlib.metadata.version("torch")
    except (OSError, importlib.metadata.PackageNotFoundError):
        return False
