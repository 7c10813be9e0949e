"""The profile a chapter draws: this machine's if it has a CUDA device, else a stored one."""

from __future__ import annotations

import datetime
import tempfile
from pathlib import Path

from kvsched import profiles
from kvsched.device import backend
from kvsched.device.session import Session
from kvsched.profiles import Profile


def measured_or_stored(stored: str, seconds: float = 60) -> Profile:
    """Measure this machine's CUDA device for about so long; without one, load ``stored``.

    What came of it stands in ``Profile.origin``, which every figure has in its title. InputError:
    the profile cannot be read.
    """
    if not backend.has_cuda():
        return profiles.load(stored)
    with tempfile.TemporaryDirectory() as folder:
        session = Session(backend.find("cuda"), "quick", Path(folder) / "here.json", seconds)
        for _ in session.run():
            pass
        return session.finish(today())


def today() -> str:
    """The date, ISO 8601, UTC."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()
