"""A CUDA device. Only what differs from the CPU: events, streams, graphs, page-locked memory."""

from __future__ import annotations

import subprocess
from typing import Any

import torch
from torch.nn.attention.bias import causal_lower_right

from kvsched.device.backend import Buffer, Work
from kvsched.device.kernels import Kernels
from kvsched.errors import InputError


class Cuda(Kernels):
    """Work is put on the current device and done later; events stand in its order of work."""

    kind, where, streams = "cuda", "cuda", True
    type: Any = torch.bfloat16
    dtype, element = "bfloat16", 2

    def __init__(self) -> None:
        if not torch.cuda.is_available():
            fix = "use --device cpu, or install NVIDIA's driver and a torch built for CUDA"
            raise InputError("--device cuda", "torch sees no CUDA device", fix)
        self.torch = str(torch.__version__)
        self.device = torch.cuda.get_device_name()
        self.driver = driver()

    def synchronize(self) -> None:
        torch.cuda.synchronize()

    def timer(self) -> Events:
        return Events()

    def stream(self) -> Side:
        return Side()

    def graph(self, work: Work) -> Work:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        return _Replay(graph, work)

    def room(self) -> int:
        unused = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        return int(torch.cuda.mem_get_info()[0] + unused)

    def release(self) -> None:
        torch.cuda.empty_cache()

    def is_full(self, error: Exception) -> bool:
        return isinstance(error, torch.OutOfMemoryError) or "out of memory" in str(error)

    def mask(self, tokens: int, length: int) -> Any:
        return causal_lower_right(tokens, length)  # flash attention's own, where there is such

    def host(self, size: int, *, pinned: bool) -> Buffer:
        return torch.zeros(size, dtype=torch.uint8, pin_memory=pinned)


class _Replay:
    """A captured graph, and the work whose buffers it reads."""

    def __init__(self, graph: Any, work: Work) -> None:
        self.graph, self.work = graph, work

    def __call__(self) -> None:
        self.graph.replay()


class Events:
    """Two events of the device."""

    def __init__(self) -> None:
        self.first, self.last = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def start(self) -> None:
        self.first.record()

    def stop(self) -> None:
        self.last.record()

    def seconds(self) -> float:
        return float(self.first.elapsed_time(self.last)) / 1000


class Side:
    """A stream beside the current one."""

    def __init__(self) -> None:
        self.stream = torch.cuda.Stream()

    def fork(self) -> None:
        self.stream.wait_stream(torch.cuda.current_stream())

    def put(self, work: Work) -> None:
        with torch.cuda.stream(self.stream):
            work()

    def join(self) -> None:
        torch.cuda.current_stream().wait_stream(self.stream)


def driver() -> str:
    """The driver's version as nvidia-smi tells it."""
    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    try:
        told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        told = ""
    return told or f"unknown, for CUDA {torch.version.cuda}"
