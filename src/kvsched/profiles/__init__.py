"""Hardware profiles: those of the package, and any file that keeps the schema.

``load("h100-sxm")`` reads a packaged one, ``load("mine.json")`` a file. See ``schema.py``.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from kvsched.costs import fields
from kvsched.errors import InputError
from kvsched.profiles.profile import (
    CopyTable,
    DecodePoint,
    PrefillTable,
    Profile,
    Provenance,
    Quantity,
    Source,
    StepTable,
)
from kvsched.profiles.schema import build

__all__ = [
    "CopyTable",
    "DecodePoint",
    "PrefillTable",
    "Profile",
    "Provenance",
    "Quantity",
    "Source",
    "StepTable",
    "load",
    "names",
]

_FOLDER = resources.files(__name__)


def names() -> list[str]:
    """The names of the packaged profiles, in order."""
    files = (entry.name for entry in _FOLDER.iterdir())
    return sorted(name.removesuffix(".json") for name in files if name.endswith(".json"))


def load(name_or_path: str | Path) -> Profile:
    """A packaged profile by its name, or one from a ``.json`` file.

    Raises InputError: no such profile or file, or a field that breaks the schema.
    """
    text = str(name_or_path)
    if isinstance(name_or_path, str) and text in names():
        data = _FOLDER.joinpath(f"{text}.json").read_bytes()
        return build(fields.parse(data, f"{text}.json"))
    if not text.endswith(".json"):
        known = ", ".join(names())
        raise InputError("profile", f"unknown profile {text!a}", f"use {known}, or a .json file")
    return build(fields.read(Path(name_or_path)))
