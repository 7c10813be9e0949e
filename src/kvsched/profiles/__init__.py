"""Hardware profiles: those of the package, the reader's own, and any file that keeps the schema.

``load("h100-sxm")`` reads a packaged one, ``load("mine")`` the reader's own ``mine.json``, and
``load("some/where.json")`` a file. See ``schema.py``.

The reader's own lie in the folder that the environment variable KVSCHED_PROFILES names (empty: no
folder), else in ``profiles`` beside or above the working folder, where ``kvsched calibrate`` puts
them. They appear wherever a profile is chosen by name.
"""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

from kvsched.costs import fields
from kvsched.errors import InputError
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
from kvsched.profiles.schema import build

__all__ = [
    "FOLDER",
    "CopyTable",
    "DecodePoint",
    "Part",
    "PrefillTable",
    "Profile",
    "Provenance",
    "Quantity",
    "Source",
    "StepTable",
    "SuffixTable",
    "load",
    "names",
    "own",
    "packaged",
]

_FOLDER = resources.files(__name__)


FOLDER, VARIABLE = "profiles", "KVSCHED_PROFILES"


def names() -> list[str]:
    """The names of the packaged profiles, then those of the reader's own, each in order."""
    return [*packaged(), *(name for name in own() if name not in packaged())]


def packaged() -> list[str]:
    """The names of the packaged profiles, in order."""
    files = (entry.name for entry in _FOLDER.iterdir())
    return sorted(name.removesuffix(".json") for name in files if name.endswith(".json"))


def own() -> dict[str, Path]:
    """The reader's own profiles: files by name, unread."""
    folder = os.environ.get(VARIABLE)
    places = [Path(FOLDER), Path("..") / FOLDER] if folder is None else [Path(folder)]
    if folder == "":
        return {}
    found = next((place for place in places if place.is_dir()), None)
    files = sorted(found.glob("*.json")) if found is not None else []
    return {file.stem: file for file in files}


def load(name_or_path: str | Path) -> Profile:
    """A packaged profile or one's own by name, or one from a ``.json`` file.

    Raises InputError: no such profile or file, two of one name, or a field that breaks the schema.
    """
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or text.endswith(".json"):
        return build(fields.read(Path(name_or_path)))
    file = own().get(text)
    if text in packaged():
        if file is not None:
            raise InputError(str(file), f"{text} is a packaged profile", "rename the file")
        data = _FOLDER.joinpath(f"{text}.json").read_bytes()
        return build(fields.parse(data, f"{text}.json"))
    if file is not None:
        return build(fields.read(file))
    known = ", ".join(names())
    raise InputError("profile", f"unknown profile {text!a}", f"use {known}, or a .json file")
