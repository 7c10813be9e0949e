"""What the kernel in the browser loads: wheels, recordings, and the lock file that lists them.

Pyodide reads its packages from one lock file. Ours names every wheel with its digest, so that the
kernel has all of them when it starts: no notebook installs anything.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from packaging.utils import parse_wheel_filename

from kvsched.book import runtime
from kvsched.book.lite import fetch
from kvsched.widgets.shipping import MOMENT

KERNEL = "@jupyterlite/pyodide-kernel-extension"
OWN = ("ipykernel", "piplite", "pyodide_kernel")
"""The wheels that the kernel brings for itself."""
LOCK = "pyodide-lock.json"
DATA = "recordings"
"""The package that a notebook loads when it reads data, for Lite's own drive refuses `.json.gz`."""
DATA_FOLDERS = ("labs/data", "tests/golden")
WORKING = f"/lib/python3.14/site-packages/{DATA}/book"
"""Where the notebooks' relative paths lead to the data."""


def ship(source: Path, target: Path) -> None:
    """Write wheels, recordings and the lock file into the folder ``target``."""
    target.mkdir(parents=True)
    for wheel in wheels():
        shutil.copyfile(wheel, target / wheel.name)
    fetch.package(source, target)
    data = target / f"{DATA}.zip"
    archive(source, data)
    lock = locked(sorted(target.glob("*.whl")), data)
    (target / LOCK).write_text(json.dumps(lock), encoding="utf-8")


def wheels() -> list[Path]:
    """The fetched wheels and the kernel's own."""
    own = fetch.EXTENSIONS / KERNEL / "static" / "pypi"
    return [*fetch.WHEELS.glob("*.whl"), *(next(own.glob(f"{name}-*.whl")) for name in OWN)]


def names() -> list[str]:
    """The packages that the kernel loads at its start, this one with them."""
    return sorted([*(str(parse_wheel_filename(wheel.name)[0]) for wheel in wheels()), "kvsched"])


def archive(source: Path, target: Path) -> None:
    """The data folders as one zip, and beside them an empty folder to work in."""
    files = [path for top in DATA_FOLDERS for path in (source / top).rglob("*") if path.is_file()]
    with zipfile.ZipFile(target, "w") as bundle:
        bundle.writestr(zipfile.ZipInfo(f"{DATA}/book/", MOMENT), b"")
        for path in sorted(files):
            name = f"{DATA}/{path.relative_to(source).as_posix()}"
            bundle.writestr(zipfile.ZipInfo(name, MOMENT), path.read_bytes(), zipfile.ZIP_DEFLATED)


def locked(wheels: Iterable[Path], data: Path) -> dict[str, Any]:
    """Pyodide's lock with these packages and no other; each is loaded by name, so none depends."""
    info = json.loads((runtime.found() / LOCK).read_text(encoding="utf-8"))["info"]
    packages = [_entry(wheel, *map(str, parse_wheel_filename(wheel.name)[:2])) for wheel in wheels]
    packages.append(_entry(data, DATA, "0"))
    return {"info": info, "packages": {package["name"]: package for package in packages}}


def _entry(file: Path, name: str, version: str) -> dict[str, Any]:
    return {
        "name": name,
        "version": version,
        "file_name": file.name,
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "install_dir": "site",
        "package_type": "package",
        "imports": [],
        "depends": [],
        "unvendored_tests": False,
    }
