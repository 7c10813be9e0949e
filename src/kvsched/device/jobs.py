"""What is measured, as a list of jobs in order: ceilings, prefill, suffix, decode, copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from random import Random

from kvsched.costs import carried
from kvsched.costs.compute import prefill_flops
from kvsched.costs.units import GB, MS, TERA, binary
from kvsched.device.backend import Backend, Layers, Shape, Work
from kvsched.device.scale import Scale
from kvsched.device.timing import captured, side_by_side

MODEL = carried.MODEL
SHARES = {"ceilings": 0.1, "prefill": 0.45, "suffix": 0.55, "decode": 0.65, "copies": 1.0}
"""By when each group must have ended, as a share of the time budget."""
WAYS = ("d2h", "h2d")
BALANCE = 100
"""FLOP that a byte read counts for, when a pass's time is foretold."""


@dataclass(frozen=True)
class Job:
    """One thing to time. ``key``: what it is called in the partial file; its first word, the group.

    ``effort``: FLOP or bytes of one run, by which its time is foretold. ``memory``: bytes it takes.
    ``make`` prepares it; ``value`` turns a run's seconds into the file's number, in ``unit``.
    ``half``: the same with less memory, if there is such. ``optional``: some devices cannot.
    """

    key: str
    effort: float
    memory: int
    make: Callable[[], Work]
    value: Callable[[float], float]
    unit: str
    half: Callable[[], Job] | None = None
    optional: bool = False

    @property
    def group(self) -> str:
        return self.key.split()[0]

    @property
    def family(self) -> str:
        """Jobs whose time is foretold from one another's: all passes, or a route's one way."""
        if self.group == "copies":
            return " ".join(self.key.split()[:3])
        return self.key if self.group == "ceilings" else "passes"


class Jobs:
    """The jobs of one scale on one device."""

    def __init__(self, backend: Backend, scale: Scale) -> None:
        self.backend = backend
        self.scale = scale

    def all(self) -> list[Job]:
        """In the order in which they run."""
        return [
            self._matmul(self.scale.matmul),
            self._duplicate(self.scale.duplicate),
            *self._passes(),
            *self._copies(),
        ]

    def _matmul(self, side: int) -> Job:
        return Job(
            "ceilings matmul_tflop_s",
            2.0 * side**3,
            3 * side * side * self.backend.element,
            partial(self.backend.matmul, side),
            lambda seconds: 2 * side**3 / seconds / TERA,
            "TFLOP/s",
            partial(self._matmul, side // 2) if side > 256 else None,
        )

    def _duplicate(self, size: int) -> Job:
        return Job(
            "ceilings copy_gb_s",
            2.0 * size,
            2 * size,
            partial(self.backend.duplicate, size),
            lambda seconds: 2 * size / seconds / GB,
            "GB/s",
            partial(self._duplicate, size // 2) if size > 2**20 else None,
        )

    # -- the model ------------------------------------------------------------------------------

    @cached_property
    def _layers(self) -> Layers:
        return self.backend.layers(MODEL, self.scale.part, self.scale.distinct)

    def forget(self) -> None:
        """Let go of the layers: what follows does not need them."""
        self.__dict__.pop("_layers", None)

    def _passes(self) -> Iterator[Job]:
        for tokens in self.scale.prompts:
            yield self._pass(f"prefill {tokens}", Shape(1, tokens, 0))
        prompt, prefixes = self.scale.suffix
        for cached in prefixes:
            yield self._pass(f"suffix {prompt} {cached}", Shape(1, prompt - cached, cached))
        for batch, context in self.scale.steps:
            yield self._pass(f"decode {batch} {context}", Shape(batch, 1, context - 1))

    def _pass(self, key: str, shape: Shape) -> Job:
        part = self.scale.part
        length = shape.tokens + shape.cached
        flops = shape.batch * prefill_flops(MODEL, length, shape.cached)
        read = MODEL.weight_bytes + shape.batch * length * MODEL.kv_bytes_per_token
        return Job(
            key,
            part.share(MODEL.name) * (flops + BALANCE * read),
            self._pass_bytes(shape),
            lambda: self._layers.forward(shape, part.layers),
            lambda seconds: seconds / MS,
            "ms",
        )

    def _pass_bytes(self, shape: Shape) -> int:
        """Weights, KV, and the widest activations, thrice: gate and up, their product, a spare."""
        ranks, element = self.scale.part.ranks, self.backend.element
        layer = MODEL.prompt_params // MODEL.num_hidden_layers // ranks
        length = shape.tokens + shape.cached
        kv = 2 * shape.batch * length * MODEL.kv_width // ranks
        width = 2 * MODEL.intermediate_size // ranks + 4 * MODEL.hidden_size
        wide = 3 * shape.batch * shape.tokens * width
        return element * (self.scale.distinct * (layer + kv) + wide)

    # -- copies ---------------------------------------------------------------------------------

    def _copies(self) -> Iterator[Job]:
        scale, streams = self.scale, self.backend.streams
        routes: list[tuple[str, tuple[int, ...], tuple[str, ...]]] = [
            ("loop", scale.fragments, WAYS),
            ("gather", scale.few[:3], WAYS),
        ]
        if streams:
            routes += [
                ("graph", scale.fragments, WAYS),
                ("graph", scale.few, ("both",)),
                ("pageable", scale.few, WAYS),
            ]
        for route, fragments, directions in routes:
            for fragment in fragments[::-1]:
                for direction in directions:
                    yield self._copy(route, direction, fragment, scale.transfer)

    def _copy(self, route: str, direction: str, fragment: int, transfer: int) -> Job:
        """Pieces of one size: those of the device at random places, those of the host in order."""
        count = min(transfer // fragment, self.scale.pieces)
        size = count * fragment
        moved = size * (2 if direction == "both" else 1)
        return Job(
            f"copies {route} {direction} {fragment}",
            count * _EFFORT[route] + moved,
            2 * moved if route == "gather" else moved,
            partial(self._copier, route, direction, fragment, count),
            lambda seconds: moved / seconds / GB,
            "GB/s",
            self._halved(route, direction, fragment, transfer),
            optional=route == "graph",
        )

    def _halved(
        self, route: str, direction: str, fragment: int, transfer: int
    ) -> Callable[[], Job] | None:
        if transfer // 2 < fragment:
            return None
        return partial(self._copy, route, direction, fragment, transfer // 2)

    def _copier(self, route: str, direction: str, fragment: int, count: int) -> Work:
        if direction == "both":
            works = [self._one_way(route, way, fragment, count) for way in WAYS]
            return captured(self.backend, side_by_side(self.backend, *works))
        work = self._one_way(route, direction, fragment, count)
        return captured(self.backend, work) if route == "graph" else work

    def _one_way(self, route: str, way: str, fragment: int, count: int) -> Work:
        backend, size = self.backend, fragment * count
        pool, host = backend.pool(size), backend.host(size, pinned=route != "pageable")
        places = list(range(count))
        Random(0).shuffle(places)
        if route == "gather":
            stage = backend.pool(size)
            if way == "d2h":
                return backend.gather(host, pool, places, stage)
            return backend.scatter(pool, host, places, stage)
        if way == "d2h":
            return backend.copies(host, pool, list(enumerate(places)))
        return backend.copies(pool, host, [(place, i) for i, place in enumerate(places)])


_EFFORT = {"loop": 200_000, "graph": 100_000, "pageable": 200_000, "gather": 10_000}
"""Bytes a piece counts for beyond its own, when a copy's time is foretold."""


def told(job: Job) -> str:
    """The job as a row of the command's table names it."""
    group, *rest = job.key.split()
    if group != "copies":
        return f"{group} {' of '.join(rest[::-1]) if group == 'suffix' else ' × '.join(rest)}"
    return f"{rest[0]} {rest[1]} {binary(int(rest[2]), 0)}"
