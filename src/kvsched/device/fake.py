"""A device that only records: it does no work, and its time follows a law given to it.

Tests use it to see in which order a measurement calls its device; a call out of order is an error
there and then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvsched.costs.compute import prefill_flops
from kvsched.costs.model import Model
from kvsched.device.backend import Buffer, Shape, Work
from kvsched.profiles import Part


class Fake:
    """A device of 500 TFLOP/s whose copies take 4 µs and a byte at 50 GB/s a piece.

    ``calls``: what was asked, in order. ``memory``: bytes it has. ``refuses``: does a graph raise?
    ``on_sample``: called when a run is timed, with how many were.
    """

    kind, streams = "cuda", True
    driver, torch, dtype, element = "1.0", "2.13.0", "bfloat16", 2
    flop_s, bytes_s, memory_s, latency = 500e12, 50e9, 2e12, 4e-6

    def __init__(
        self, device: str = "a fake device", memory: int = 80 * 2**30, refuses: bool = False
    ) -> None:
        self.device, self.memory, self.refuses = device, memory, refuses
        self.calls: list[str] = []
        self.now = 0.0
        self.done = 0.0
        self.timed = 0
        self.on_sample: Callable[[int], object] = lambda _: None

    # -- order ----------------------------------------------------------------------------------

    def synchronize(self) -> None:
        self.calls.append("synchronize")
        self.done = self.now

    def timer(self) -> FakeTimer:
        return FakeTimer(self)

    def stream(self) -> FakeStream:
        return FakeStream(self)

    def graph(self, work: Work) -> Work:
        self.calls.append("capture")
        if self.refuses:
            raise RuntimeError("operation not permitted\nwhen stream is capturing")
        if self.done < self.now:
            raise AssertionError("captured while work is under way")
        before, latency = self.now, self.latency
        self.latency = latency / 4  # the device's own time to start a piece
        work()
        took, self.now, self.latency = self.now - before, before, latency
        return self.takes("replay", took)

    def takes(self, name: str, seconds: float) -> Work:
        """Work that takes so long."""

        def run() -> None:
            self.calls.append(name)
            self.now += seconds

        return run

    # -- memory ---------------------------------------------------------------------------------

    def room(self) -> int:
        return self.memory

    def release(self) -> None:
        self.calls.append("release")

    def is_full(self, error: Exception) -> bool:
        return isinstance(error, MemoryError)

    def pool(self, size: int) -> Buffer:
        return size

    def host(self, size: int, *, pinned: bool) -> Buffer:
        self.calls.append("pinned" if pinned else "pageable")
        return size

    # -- work -----------------------------------------------------------------------------------

    def copies(self, target: Buffer, source: Buffer, pairs: Sequence[tuple[int, int]]) -> Work:
        if target != source or sorted(at for _, at in pairs) != list(range(len(pairs))):
            raise AssertionError("not every piece is copied once")

        def run() -> None:
            self.calls.append("copies")
            self.now += len(pairs) * self.latency + target / self.bytes_s

        return run

    def gather(self, out: Buffer, pool: Buffer, order: Sequence[int], stage: Buffer) -> Work:
        if not out == pool == stage or sorted(order) != list(range(len(order))):
            raise AssertionError("not every piece is copied once")
        seconds = self.latency + 2 * out / self.memory_s + out / self.bytes_s
        return self.takes("gather", seconds)

    def scatter(self, pool: Buffer, back: Buffer, order: Sequence[int], stage: Buffer) -> Work:
        return self.gather(back, pool, order, stage)

    def duplicate(self, size: int) -> Work:
        return self.takes("duplicate", 2 * size / self.memory_s)

    def matmul(self, side: int) -> Work:
        return self.takes("matmul", 2 * side**3 / self.flop_s)

    def layers(self, model: Model, part: Part, distinct: int) -> FakeLayers:
        self.calls.append(f"layers {distinct}")
        return FakeLayers(self, model, part)


class FakeTimer:
    """Reads the fake's time, and refuses to be read too soon."""

    def __init__(self, fake: Fake) -> None:
        self.fake, self.marks = fake, list[float]()

    def start(self) -> None:
        self.fake.calls.append("start")
        self.marks.append(self.fake.now)

    def stop(self) -> None:
        self.fake.calls.append("stop")
        self.marks.append(self.fake.now)

    def seconds(self) -> float:
        if self.fake.done < self.marks[1]:
            raise AssertionError("read before synchronize")
        self.fake.calls.append("read")
        self.fake.timed += 1
        self.fake.on_sample(self.fake.timed)
        return self.marks[1] - self.marks[0]


class FakeStream:
    """Work put here runs beside other streams': the default order waits for the longest."""

    def __init__(self, fake: Fake) -> None:
        self.fake, self.at = fake, 0.0

    def fork(self) -> None:
        self.fake.calls.append("fork")
        self.at = self.fake.now

    def put(self, work: Work) -> None:
        self.fake.calls.append("put")
        before = self.fake.now
        work()
        self.at += self.fake.now - before
        self.fake.now = before

    def join(self) -> None:
        self.fake.calls.append("join")
        self.fake.now = max(self.fake.now, self.at)


class FakeLayers:
    """Passes that take their FLOP, and for the KV read the memory's time."""

    def __init__(self, fake: Fake, model: Model, part: Part) -> None:
        self.fake, self.model, self.part = fake, model, part

    def forward(self, shape: Shape, layers: int) -> Work:
        length = shape.tokens + shape.cached
        flops = shape.batch * prefill_flops(self.model, length, shape.cached)
        read = shape.batch * length * self.model.kv_bytes_per_token
        read += self.model.prompt_params * self.model.dtype_bytes
        share = layers / self.part.ranks / self.model.num_hidden_layers
        seconds = flops / self.fake.flop_s + read / self.fake.memory_s
        return self.fake.takes("forward", share * seconds)
