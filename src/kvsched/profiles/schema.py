"""The profile file, version 1: one JSON object, UTF-8. Fields that may be left out are marked ?.

::

    schema      1
    name        letters, digits, "-" and "."; a packaged file is called <name>.json
    kind        "measured" | "published" | "datasheet"
    device      the device's own name for itself
    provenance? {backend, dtype, driver, torch, date, method, notes?: [text]}: required if measured,
                 absent otherwise                              backend: cuda | cpu
    sources?    {key: {title, url, note?}}
    peaks?      {bf16_tflop_s?, memory_gb_s?, link_gb_s?}      dense; link: one direction, raw
    ceilings?   {matmul_tflop_s?, copy_gb_s?}                  a large multiply; a large copy on the
                                                               device, bytes read plus written
    step?       {model, base_ns, prefill_ns_per_token, attention_ns_per_token2,
                 decode_ns_per_context_token}                  model: one of kvsched.costs.MODELS
    prefill?    [{what, model, part?, points: [{tokens, ms}]}]
    suffix?     [{what, model, part?, tokens, points: [{cached, ms}]}]
    decode?     [{what, model, part?, batch, context, ms}]
    copies?     [{route, direction, points: [{fragment_bytes, gb_s}],
                 smooth?: {latency_us, rate_gb_s}}]            direction: d2h | h2d | both

``part`` is {layers, ranks}: the times are of so many layers, each as one of so many tensor-parallel
ranks computes it, and are stored as timed; absent, they are of the whole model. A measurement
(``part`` present) names one of kvsched.costs.MODELS.

Units are in the names: ns, µs, ms; GB/s = 10**9 bytes per second; TFLOP/s = 10**12 per second.
Every number that is no integer key (tokens, cached, batch, context, fragment_bytes, and those of
``part``) is a quantity, an object with ``value`` and exactly one origin:

- ``source``, a key of ``sources``: all of a published or datasheet profile, and ``peaks`` always;
- ``samples``, at least 10 raw values whose median is ``value``: all of a measured profile;
- ``fit``, a sentence on what it was fitted to: may stand instead in ``smooth``, and in ``step``
  if measured.

A datasheet states peaks and nothing else. Points ascend. Unknown fields are refused.
"""

from __future__ import annotations

import datetime
import math
import re
import statistics
from typing import TYPE_CHECKING

from kvsched.costs.shapes import MODELS
from kvsched.profiles.profile import (
    CopyTable,
    DecodePoint,
    Part,
    PrefillTable,
    Profile,
    Provenance,
    Quantity,
    Source,
    StepTable,
    SuffixTable,
)

if TYPE_CHECKING:
    from kvsched.costs.fields import Fields

VERSION = 1
KINDS = ("measured", "published", "datasheet")
DIRECTIONS = ("d2h", "h2d", "both")
BACKENDS = ("cuda", "cpu")
MIN_SAMPLES = 10
PEAKS = ("bf16_tflop_s", "memory_gb_s", "link_gb_s")
CEILINGS = ("matmul_tflop_s", "copy_gb_s")
STEP = (
    "base_ns",
    "prefill_ns_per_token",
    "attention_ns_per_token2",
    "decode_ns_per_context_token",
)

SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")
_MEASUREMENTS = ("ceilings", "step", "prefill", "suffix", "decode", "copies")


def build(file: Fields) -> Profile:
    """The profile in a JSON object; InputError names the first field that breaks the schema."""
    file.only("schema", "name", "kind", "device", "provenance", "sources", "peaks", *_MEASUREMENTS)
    if file.integer("schema") != VERSION:
        found = f"found version {file.get('schema')}"
        raise file.refuse("schema", found, f"this reads version {VERSION}")
    name = file.text("name")
    if not SLUG.fullmatch(name):
        raise file.refuse("name", f"found {name!a}", "use letters, digits, - and .")
    kind = _one_of(file, "kind", KINDS)
    quantities = _Quantities(file, kind)
    return Profile(
        name=name,
        kind=kind,
        device=file.text("device"),
        provenance=_provenance(file, kind),
        peaks=quantities.group("peaks", PEAKS),
        ceilings=quantities.group("ceilings", CEILINGS),
        step=quantities.step(),
        prefill=tuple(map(quantities.prefill, file.children("prefill"))),
        decode=tuple(map(quantities.decode, file.children("decode"))),
        copies=tuple(map(quantities.copies, file.children("copies"))),
        suffix=tuple(map(quantities.suffix, file.children("suffix"))),
    )


class _Quantities:
    """Reads quantities by the rules of one profile's kind."""

    def __init__(self, file: Fields, kind: str) -> None:
        self.file = file
        self.measured = kind == "measured"
        self.sources = _sources(file)
        if kind == "datasheet":
            for name in _MEASUREMENTS:
                if file.has(name):
                    found = f"a datasheet does not state {name}"
                    raise file.refuse(name, found, "remove it, or make the kind published")

    def group(self, name: str, names: tuple[str, ...]) -> dict[str, Quantity]:
        """An object of quantities, each of which may be left out."""
        if not self.file.has(name):
            return {}
        fields = self.file.child(name)
        fields.only(*names)
        stated = name == "peaks"
        return {key: self.one(fields, key, stated=stated) for key in names if fields.has(key)}

    def step(self) -> StepTable | None:
        if not self.file.has("step"):
            return None
        fields = self.file.child("step")
        fields.only("model", *STEP)
        return StepTable(
            _one_of(fields, "model", tuple(MODELS)),
            *(self.one(fields, name, fitted=self.measured) for name in STEP),
        )

    def prefill(self, fields: Fields) -> PrefillTable:
        fields.only("what", "model", "part", "points")
        points = self.points(fields, "tokens", "ms")
        part = _part(fields)
        return PrefillTable(fields.text("what"), fields.text("model"), points, part)

    def suffix(self, fields: Fields) -> SuffixTable:
        fields.only("what", "model", "part", "tokens", "points")
        tokens = fields.integer("tokens")
        points = self.points(fields, "cached", "ms")
        if points[-1][0] >= tokens:
            found = f"{points[-1][0]} cached of {tokens} tokens"
            raise fields.refuse("points", found, "leave at least one token to compute")
        part = _part(fields)
        return SuffixTable(fields.text("what"), fields.text("model"), tokens, points, part)

    def decode(self, fields: Fields) -> DecodePoint:
        fields.only("what", "model", "part", "batch", "context", "ms")
        part = _part(fields)
        return DecodePoint(
            fields.text("what"),
            fields.text("model"),
            fields.integer("batch"),
            fields.integer("context"),
            self.one(fields, "ms"),
            part,
        )

    def copies(self, fields: Fields) -> CopyTable:
        fields.only("route", "direction", "points", "smooth")
        smooth = []
        if fields.has("smooth"):
            law = fields.child("smooth")
            law.only("latency_us", "rate_gb_s")
            smooth = [self.one(law, name, fitted=True) for name in ("latency_us", "rate_gb_s")]
        return CopyTable(
            fields.text("route"),
            _one_of(fields, "direction", DIRECTIONS),
            self.points(fields, "fragment_bytes", "gb_s"),
            *smooth,
        )

    def points(self, fields: Fields, x: str, y: str) -> tuple[tuple[int, Quantity], ...]:
        """A list of points whose integer ``x`` ascends."""
        points: list[tuple[int, Quantity]] = []
        for point in fields.children("points"):
            point.only(x, y)
            at = point.integer(x)
            if points and at <= points[-1][0]:
                raise point.refuse(x, f"{at} after {points[-1][0]}", "sort the points, each once")
            points.append((at, self.one(point, y)))
        if not points:
            raise fields.refuse("points", "none", "give at least one")
        return tuple(points)

    def one(
        self, parent: Fields, name: str, *, stated: bool = False, fitted: bool = False
    ) -> Quantity:
        """A quantity. ``stated``: by the maker, in any kind. ``fitted``: a fit will do."""
        fields = parent.child(name)
        fields.only("value", "source", "samples", "fit")
        value = fields.number("value")
        own = "samples" if self.measured and not stated else "source"
        allowed = (own, "fit") if fitted else (own,)
        given = [origin for origin in ("source", "samples", "fit") if fields.has(origin)]
        if len(given) != 1 or given[0] not in allowed:
            found = " and ".join(given) or "no origin"
            raise fields.refuse("", f"found {found}", f"give {' or '.join(allowed)} with the value")
        if given == ["fit"]:
            return Quantity(value, fit=fields.text("fit"))
        if given == ["samples"]:
            return Quantity(value, samples=_samples(fields, value))
        key = fields.text("source")
        if key not in self.sources:
            known = ", ".join(self.sources) or "none yet"
            raise fields.refuse("source", f"unknown source {key!a}", f"in sources: {known}")
        return Quantity(value, source=self.sources[key])


def _samples(fields: Fields, value: float) -> tuple[float, ...]:
    """The raw values; a value that is not their median was not measured."""
    samples = fields.numbers("samples")
    if len(samples) < MIN_SAMPLES:
        raise fields.refuse("samples", f"only {len(samples)}", f"give {MIN_SAMPLES} or more")
    median = statistics.median(samples)
    if not math.isclose(value, median, rel_tol=1e-9):
        raise fields.refuse("value", f"{value} is not the samples' median {median}", "write that")
    return samples


def _part(fields: Fields) -> Part | None:
    """Layers and ranks that the model has, if only a part of it was timed."""
    if not fields.has("part"):
        return None
    part = fields.child("part")
    part.only("layers", "ranks")
    model = MODELS[_one_of(fields, "model", tuple(MODELS))]
    layers, ranks = part.integer("layers"), part.integer("ranks")
    if layers > model.num_hidden_layers:
        raise part.refuse("layers", f"{layers}", f"{model.name} has {model.num_hidden_layers}")
    if model.num_key_value_heads % ranks:
        found = f"{ranks} does not divide {model.num_key_value_heads} KV heads"
        raise part.refuse("ranks", found, "write a divisor")
    return Part(layers, ranks)


def _sources(file: Fields) -> dict[str, Source]:
    if not file.has("sources"):
        return {}
    sources = file.child("sources")
    return {key: _source(sources.child(key)) for key in sources}


def _source(fields: Fields) -> Source:
    fields.only("title", "url", "note")
    url = fields.text("url")
    if not url.startswith(("https://", "http://")):
        raise fields.refuse("url", f"found {url!a}", "write an http(s) address")
    note = fields.text("note") if fields.has("note") else ""
    return Source(fields.text("title"), url, note)


def _provenance(file: Fields, kind: str) -> Provenance | None:
    if kind != "measured":
        if file.has("provenance"):
            found = f"a {kind} profile was not measured"
            raise file.refuse("provenance", found, "remove it, or make the kind measured")
        return None
    fields = file.child("provenance")
    names = ("dtype", "driver", "torch", "date", "method")
    fields.only("backend", *names, "notes")
    backend = _one_of(fields, "backend", BACKENDS)
    dtype, driver, torch, date, method = (fields.text(name) for name in names)
    said = fields.texts("notes") if fields.has("notes") else ()
    provenance = Provenance(backend, dtype, driver, torch, date, method, said)
    try:
        datetime.date.fromisoformat(provenance.date)
    except ValueError:
        found = f"found {provenance.date!a}"
        raise fields.refuse("date", found, "write an ISO date: 2026-01-31") from None
    return provenance


def _one_of(fields: Fields, name: str, choices: tuple[str, ...]) -> str:
    text = fields.text(name)
    if text not in choices:
        raise fields.refuse(name, f"found {text!a}", f"write {' or '.join(choices)}")
    return text
