"""A hardware profile: what is known about one device, and how it is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvsched.costs.compute import PrefillLaw, prefill_flops
from kvsched.costs.shapes import LLAMA_3_8B, MODELS
from kvsched.costs.transfer import Link, Smooth, Table
from kvsched.costs.units import GB, US
from kvsched.errors import InputError


@dataclass(frozen=True, slots=True)
class Source:
    """Where a published number can be read. ``note``: what to say wherever it is shown."""

    title: str
    url: str
    note: str = ""

    def __str__(self) -> str:
        note = f"; {self.note}" if self.note else ""
        return f"{self.title}, {self.url}{note}"


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number above 0 and its origin: exactly one of ``source``, ``samples`` and ``fit``.

    ``samples``: the raw measurements whose median it is. ``fit``: which numbers of the same file it
    was fitted to, and how.
    """

    value: float
    source: Source | None = None
    samples: tuple[float, ...] = ()
    fit: str = ""


@dataclass(frozen=True, slots=True)
class Provenance:
    """How a measurement was made. ``date`` is ISO 8601, ``method`` says what was timed and how.

    ``backend``: ``cuda``, or ``cpu``, whose numbers are no GPU's. ``dtype``: the elements' type.
    ``notes``: what was made smaller or left out, and why.
    """

    backend: str
    dtype: str
    driver: str
    torch: str
    date: str
    method: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """What was timed of a model: some of its layers, each as one of ``ranks`` computes it.

    ``ranks``: a tensor-parallel layer is cut into so many equal parts.
    """

    layers: int
    ranks: int

    def share(self, model: str) -> float:
        """The part of the model's prompt FLOP that this is."""
        return self.layers / self.ranks / MODELS[model].num_hidden_layers


@dataclass(frozen=True, slots=True)
class StepTable:
    """The coefficients of a step's time for ``model`` in bf16, as ``CostClock`` adds them up.

    ``base_ns``: any step. ``prefill_ns_per_token``: each prompt token computed.
    ``attention_ns_per_token2``: S tokens prefilled from nothing cost S² of these.
    ``decode_ns_per_context_token``: each token a decoding request attends to.
    """

    model: str
    base_ns: Quantity
    prefill_ns_per_token: Quantity
    attention_ns_per_token2: Quantity
    decode_ns_per_context_token: Quantity


@dataclass(frozen=True, slots=True)
class PrefillTable:
    """Prefill times of whole prompts: (tokens, milliseconds), shortest first.

    ``part``: what of the model the milliseconds are of; all of it where none is given.
    """

    what: str
    model: str
    points: tuple[tuple[int, Quantity], ...]
    part: Part | None = None

    @property
    def share(self) -> float:
        """The part of the model that was timed, at most 1."""
        return 1.0 if self.part is None else self.part.share(self.model)

    def whole(self, ms: Quantity) -> float:
        """Seconds of the whole model, if its layers are alike."""
        return ms.value / 1000 / self.share

    def seconds(self, tokens: int) -> float:
        """The time stated for a prompt of exactly this length; InputError if there is none."""
        for length, ms in self.points:
            if length == tokens:
                return self.whole(ms)
        have = ", ".join(str(length) for length, _ in self.points)
        raise InputError("tokens", f"{self.what} has no prompt of {tokens}", f"it has {have}")


@dataclass(frozen=True, slots=True)
class SuffixTable:
    """A prompt of ``tokens`` of which a prefix is cached: (cached tokens, milliseconds)."""

    what: str
    model: str
    tokens: int
    points: tuple[tuple[int, Quantity], ...]
    part: Part | None = None

    def seconds(self) -> list[tuple[int, float]]:
        """(cached, seconds of the whole model)."""
        share = 1.0 if self.part is None else self.part.share(self.model)
        return [(cached, ms.value / 1000 / share) for cached, ms in self.points]


@dataclass(frozen=True, slots=True)
class DecodePoint:
    """One decode step: ``batch`` requests that attend to ``context`` tokens each."""

    what: str
    model: str
    batch: int
    context: int
    ms: Quantity
    part: Part | None = None


@dataclass(frozen=True, slots=True)
class Cold:
    """The time of a prefill from nothing, and how it follows from a profile."""

    seconds: float
    how: str


@dataclass(frozen=True, slots=True)
class CopyTable:
    """Copies of many equal fragments: (bytes, GB/s), smallest first, and an overlay.

    ``route``: what moves the bytes (``dma``, ``kernel``, …). ``direction``: ``d2h``, ``h2d``, or
    ``both`` at once. ``latency_us``, ``rate_gb_s``: a smooth law beside the points.
    """

    route: str
    direction: str
    points: tuple[tuple[int, Quantity], ...]
    latency_us: Quantity | None = None
    rate_gb_s: Quantity | None = None

    @property
    def link(self) -> Table:
        """The points, interpolated."""
        return Table(tuple((size, rate.value * GB) for size, rate in self.points))

    @property
    def smooth(self) -> Smooth:
        """The smooth law; InputError if the table has none."""
        if self.latency_us is None or self.rate_gb_s is None:
            name = f"{self.route} {self.direction}"
            raise InputError("copies", f"{name} has no smooth law", "use its points")
        return Smooth(self.rate_gb_s.value * GB, self.latency_us.value * US)


@dataclass(frozen=True, slots=True)
class Profile:
    """One device. ``kind``: ``measured``, ``published`` or ``datasheet``.

    ``peaks``: what the maker states. ``ceilings``: what a large multiply or copy achieved.
    """

    name: str
    kind: str
    device: str
    provenance: Provenance | None
    peaks: Mapping[str, Quantity]
    ceilings: Mapping[str, Quantity]
    step: StepTable | None
    prefill: tuple[PrefillTable, ...]
    decode: tuple[DecodePoint, ...]
    copies: tuple[CopyTable, ...]
    suffix: tuple[SuffixTable, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} ({self.device}, {self.kind})"

    @property
    def how(self) -> str:
        """Where the numbers come from, in words; a CPU's are called so."""
        if self.provenance is None:
            return f"{self.kind}, not measured here"
        if self.provenance.backend == "cpu":
            return f"measured on a CPU, no GPU, {self.provenance.date}"
        return f"measured {self.provenance.date}"

    @property
    def origin(self) -> str:
        """What every figure's title says: the device, and where its numbers come from."""
        return f"{self.device}: {self.how}"

    def cold(self, tokens: int) -> Cold:
        """A prefill of this many tokens of Llama-3-8B, by the first table of that model.

        Stated where the table has the length; between two lengths the time per token is taken to
        be linear; outside them the nearest length's FLOP/s hold. InputError: there is no table.
        """
        table = next((each for each in self.prefill if each.model == LLAMA_3_8B.name), None)
        if table is None:
            fix = "use a profile that has some"
            raise InputError(f"profile {self.name}", "no prefill times of Llama-3-8B", fix)
        points = [(length, table.whole(ms)) for length, ms in table.points]
        if tokens in dict(points):
            return Cold(dict(points)[tokens], self.kind)
        below = [point for point in points if point[0] < tokens]
        above = [point for point in points if point[0] > tokens]
        if below and above:
            seconds = PrefillLaw.through(below[-1], above[0]).seconds(tokens)
            between = f"{below[-1][0]:,} and {above[0][0]:,} tokens"
            return Cold(seconds, f"interpolated between {between}")
        length, seconds = (below or above)[-1 if below else 0]
        ratio = prefill_flops(LLAMA_3_8B, tokens) / prefill_flops(LLAMA_3_8B, length)
        return Cold(seconds * ratio, f"extrapolated: the FLOP/s of {length:,} tokens")

    def ways(self, *, smooth: bool = False) -> tuple[Link, Link]:
        """The copy routes out of the device and back, DMA-bound if there are such.

        ``smooth``: their smooth laws, where they have some. InputError: no route has both ways.
        """
        out, back = (
            table.smooth if smooth and table.latency_us is not None else table.link
            for table in self.way_tables()
        )
        return out, back

    def way_tables(self) -> tuple[CopyTable, CopyTable]:
        """The tables behind ``ways``."""
        for route in ("dma", "graph", "loop"):
            tables = {each.direction: each for each in self.copies if each.route == route}
            if {"d2h", "h2d"} <= tables.keys():
                return tables["d2h"], tables["h2d"]
        fix = "use a profile that has some"
        raise InputError(f"profile {self.name}", "no copies both ways", fix)

    def copy(self, route: str, direction: str) -> CopyTable:
        """The copies by this route in this direction; InputError lists those there are."""
        for table in self.copies:
            if (table.route, table.direction) == (route, direction):
                return table
        have = ", ".join(f"{table.route} {table.direction}" for table in self.copies) or "none"
        raise InputError(
            f"profile {self.name}", f"no copies {route} {direction}", f"it has: {have}"
        )
