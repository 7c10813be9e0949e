"""A hardware profile: what is known about one device, and how it is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvsched.costs.transfer import Smooth, Table
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
    """How a measurement was made. ``date`` is ISO 8601, ``method`` says what was timed and how."""

    driver: str
    torch: str
    date: str
    method: str


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
    """Prefill times of whole prompts: (tokens, milliseconds), shortest first."""

    what: str
    model: str
    points: tuple[tuple[int, Quantity], ...]

    def seconds(self, tokens: int) -> float:
        """The time stated for a prompt of exactly this length; InputError if there is none."""
        for length, ms in self.points:
            if length == tokens:
                return ms.value / 1000
        have = ", ".join(str(length) for length, _ in self.points)
        raise InputError("tokens", f"{self.what} has no prompt of {tokens}", f"it has {have}")


@dataclass(frozen=True, slots=True)
class DecodePoint:
    """One decode step: ``batch`` requests that attend to ``context`` tokens each."""

    what: str
    model: str
    batch: int
    context: int
    ms: Quantity


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

    def __str__(self) -> str:
        return f"{self.name} ({self.device}, {self.kind})"

    def copy(self, route: str, direction: str) -> CopyTable:
        """The copies by this route in this direction; InputError lists those there are."""
        for table in self.copies:
            if (table.route, table.direction) == (route, direction):
                return table
        have = ", ".join(f"{table.route} {table.direction}" for table in self.copies) or "none"
        raise InputError(
            f"profile {self.name}", f"no copies {route} {direction}", f"it has: {have}"
        )
