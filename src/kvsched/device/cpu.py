"""The CPU as a device: no streams, no graphs, no page-locked memory, all of it done at once."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from kvsched.device.backend import Buffer, Stream, Work
from kvsched.device.kernels import Kernels
from kvsched.errors import InputError


class Cpu(Kernels):
    """Work is done when a call returns, so a timer reads a clock."""

    kind, where, streams = "cpu", "cpu", False
    type: Any = torch.float32
    dtype, element = "float32", 4
    driver = "none (CPU)"

    def __init__(self) -> None:
        self.torch = str(torch.__version__)
        threads = torch.get_num_threads()
        self.device = f"{cpu_name()}, {threads} thread{'' if threads == 1 else 's'}"

    def synchronize(self) -> None:
        """Nothing is under way."""

    def timer(self) -> Clock:
        return Clock()

    def stream(self) -> Stream:
        raise InputError("stream", "a CPU has none", "ask only where streams is true")

    def graph(self, work: Work) -> Work:
        raise InputError("graph", "a CPU captures none", "ask only where streams is true")

    def room(self) -> int:
        return available()

    def release(self) -> None:
        """What is let go is the system's again."""

    def is_full(self, error: Exception) -> bool:
        return isinstance(error, MemoryError) or "allocate memory" in str(error)

    def host(self, size: int, *, pinned: bool) -> Buffer:
        return torch.zeros(size, dtype=torch.uint8)


class Clock:
    """The system's monotonic clock."""

    def __init__(self) -> None:
        self.marks: list[int] = []

    def start(self) -> None:
        self.marks.append(time.perf_counter_ns())

    stop = start

    def seconds(self) -> float:
        return max(1, self.marks[1] - self.marks[0]) / 1e9


def cpu_name() -> str:
    """The processor as the system calls it."""
    if sys.platform == "darwin":
        asked = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
        name = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    else:
        name = _field(Path("/proc/cpuinfo"), "model name")
    return f"CPU {name.strip() or platform.processor() or platform.machine() or 'unknown'}"


def available() -> int:
    """Bytes of memory that can be had; half of all where the system does not say."""
    told = _field(Path("/proc/meminfo"), "MemAvailable")
    if told:
        return int(told.split()[0]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _field(path: Path, name: str) -> str:
    """The first ``name: value`` of a file of such lines; empty if there is none."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    found = (line.partition(":")[2] for line in lines if line.partition(":")[0].strip() == name)
    return next(found, "").strip()
