"""Running the jobs within a budget of time and memory, and going on where one was interrupted.

After each job all that was measured is in ``<out>.partial``, written whole. The profile itself is
written once, at the end; until then ``out`` is what it was before.
"""

from __future__ import annotations

import json
import re
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvsched import __version__
from kvsched.costs import fields
from kvsched.costs.units import GiB, binary
from kvsched.device.assemble import assemble
from kvsched.device.backend import Backend
from kvsched.device.jobs import SHARES, Job, Jobs, told
from kvsched.device.scale import SCALES
from kvsched.device.timing import REPEATS, WARM_UP, sample
from kvsched.errors import InputError
from kvsched.profiles import FOLDER, Profile, packaged
from kvsched.profiles.schema import SLUG, build
from kvsched.whole import whole

SPARE = 0.9
"""The share of free memory that is used at most."""
IDENTITY = ("kind", "device", "driver", "torch", "dtype")
HEADER = "kvsched-calibration-1"


class Session:
    """One calibration. ``run`` measures, a row a job; ``finish`` writes the profile.

    A row's spread is the middle half's width over the median.

    ``seconds`` and ``memory`` (bytes): the budgets; None takes the scale's, and what is free.

    Raises InputError: ``out`` cannot be a profile's place.
    """

    def __init__(
        self,
        backend: Backend,
        scale: str,
        out: Path,
        seconds: float | None = None,
        memory: int | None = None,
    ) -> None:
        self.backend = backend
        self.scale = SCALES[backend.kind, scale]
        self.name = _name(out)
        _make_folder(out.parent)
        self.out, self.partial = out, out.with_name(f"{out.name}.partial")
        self.seconds = self.scale.seconds if seconds is None else seconds
        self.memory = memory
        self.jobs = Jobs(backend, self.scale)
        self.todo = self.jobs.all()
        self.rates: dict[str, float] = {}
        self.settings = {
            "kvsched": __version__,
            "scale": scale,
            **{name: getattr(backend, name) for name in IDENTITY},
        }
        self.samples: dict[str, list[float]] = {}
        self.notes: dict[str, str] = {}
        self.resumed = self._resume()
        self._keep()

    def run(self) -> Iterator[dict[str, Any]]:
        """Measure what is not yet measured; a row for each job, also for one that is left out."""
        began = time.monotonic()
        for job in self.todo:
            if job.group == "copies":
                self.jobs.forget()
            if job.key not in self.samples:
                self._measure(job, began + self.seconds * SHARES[job.group])
                self._keep()
            yield self._row(job)

    def finish(self, date: str) -> Profile:
        """Write the profile, whole or not at all, and forget the partial file.

        Raises InputError: too little was measured to make a profile, or it cannot be written.
        """
        text = _text(assemble(self.name, self.backend, self.scale, date, self.samples, self.notes))
        profile = build(fields.parse(text.encode(), str(self.out)))
        write(self.out, f"{text}\n")
        self.partial.unlink(missing_ok=True)
        return profile

    # -- one job --------------------------------------------------------------------------------

    def _measure(self, job: Job, deadline: float) -> None:
        """Time one job, smaller if memory asks for it, or note why it was left out."""
        self.notes.pop(job.key, None)
        rate = self.rates.get(job.family)  # the first of a family runs in any case
        foretold = 0.0 if rate is None else (WARM_UP + REPEATS) * job.effort / rate
        if rate is not None and foretold > deadline - time.monotonic():
            self._leave_out(job, f"about {foretold:.2g} s, more than the time left for it")
            return
        now: Job | None = job
        try:
            while now is not None and (short := self._try(job, now)):
                self.backend.release()
                now = now.half() if now.half is not None else None
                done = "left out" if now is None else "made smaller"
                self.notes[job.key] = f"{told(job)}: {done}, it needs {short}"
        except RuntimeError as error:
            if not job.optional:
                raise
            self._leave_out(job, f"what this device refuses ({_line(error)})")

    def _try(self, job: Job, now: Job) -> str:
        """Sample ``now``, which is the job or a smaller one in its place; what it lacked, if so."""
        room = self._room()
        if now.memory > room:
            return f"{binary(now.memory)} of memory, {binary(room)} may be used"
        try:
            self._take(job, now)
        except Exception as error:
            if not self.backend.is_full(error):
                raise
            return f"{binary(now.memory)} of memory, which ran out"
        return ""

    def _take(self, job: Job, now: Job) -> None:
        """Sample, and learn how fast such jobs go."""
        began = time.monotonic()
        seconds = sample(self.backend, now.make(), WARM_UP, REPEATS)
        self.samples[job.key] = [_digits(now.value(each)) for each in seconds]
        took = max(time.monotonic() - began, 1e-9)
        self.rates[job.family] = (WARM_UP + REPEATS) * now.effort / took

    def _leave_out(self, job: Job, needs: str) -> None:
        self.notes[job.key] = f"{told(job)}: left out, it needs {needs}"

    def _room(self) -> int:
        free = int(SPARE * self.backend.room())
        return free if self.memory is None else min(free, self.memory)

    def _row(self, job: Job) -> dict[str, Any]:
        samples = self.samples.get(job.key)
        if samples is None:
            return {"what": told(job), "median": "–", "unit": job.unit, "spread": "–"}
        median = statistics.median(samples)
        low, _, high = statistics.quantiles(samples, n=4)
        return {
            "what": told(job),
            "median": f"{median:.4g}",
            "unit": job.unit,
            "spread": f"{(high - low) / median:.0%}",
        }

    # -- the partial file -----------------------------------------------------------------------

    def _keep(self) -> None:
        state = {
            "header": HEADER,
            "settings": self.settings,
            "samples": self.samples,
            "notes": self.notes,
        }
        write(self.partial, json.dumps(state, ensure_ascii=False))

    def _resume(self) -> int:
        """Take over what an interrupted run of the same settings measured; how many jobs."""
        if not self.partial.exists():
            return 0
        state = fields.read(self.partial)
        if state.get("header") != HEADER or state.get("settings") != self.settings:
            found = "left by a run on another device, or of another scale or version"
            raise InputError(str(self.partial), found, "remove it, or name another --out")
        samples = state.child("samples")
        for job in self.todo:
            if samples.has(job.key):
                self.samples[job.key] = list(samples.numbers(job.key))
        notes = state.child("notes")
        self.notes = {key: notes.text(key) for key in notes if key in self.samples}
        return len(self.samples)


def write(path: Path, text: str) -> None:
    """Write the file, whole or not at all. InputError if the place cannot be written."""
    with whole(path) as stream:
        stream.write(text)


def place_of(device: str) -> Path:
    """Where the profile of this device goes unless told otherwise: where chapters look for it."""
    words = re.sub(r"[^a-z0-9.]+", "-", device.lower()).strip("-.") or "device"
    return Path(FOLDER) / f"{words}.json"


def _make_folder(folder: Path) -> None:
    """Make the folder of profiles if it is not there; any other is the caller's to make."""
    if folder.is_dir():
        return
    place = f"--out in {str(folder)!a}"
    if folder.name != FOLDER:
        raise InputError(place, "there is no such folder", "make it, or name another")
    try:
        folder.mkdir()
    except OSError as error:
        reason = f"cannot be made a folder ({error.strerror})"
        raise InputError(place, reason, "name another --out") from None


def gibibytes(number: float | None) -> int | None:
    """A budget in GiB as bytes."""
    return None if number is None else int(number * GiB)


def _name(out: Path) -> str:
    """The profile's name: the file's, which must be one."""
    place = f"--out {str(out)!a}"
    if out.suffix != ".json" or not SLUG.fullmatch(out.stem):
        raise InputError(place, "no profile's name", "give NAME.json of letters, digits, - and .")
    if out.stem in packaged():
        raise InputError(place, "a packaged profile has this name", "choose another")
    return out.stem


def _text(file: dict[str, Any]) -> str:
    """The file as a person reads it: a line a field, a list of numbers on one line."""
    lines = json.dumps(file, ensure_ascii=False, indent=1)
    return re.sub(
        r"\[[\s\d.,e+-]+\]", lambda found: "[" + " ".join(found[0][1:-1].split()) + "]", lines
    )


def _digits(value: float) -> float:
    """Six significant digits: more than any clock here resolves."""
    return float(f"{value:.6g}")


def _line(error: Exception) -> str:
    """An error's first line, printable."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return "".join(c for c in lines[0] if c.isprintable())[:160]
