"""Fetch what builds JupyterLite and what its kernel loads, beside the virtual environment.

pip checks every file against the digest in the lock.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from kvsched.errors import InputError

LOCK = Path(__file__).parent / "lock"
HOME = Path(sys.prefix) / "lite"
TOOLS = HOME / "tools"
WHEELS = HOME / "wheels"
EXTENSIONS = TOOLS / "share" / "jupyter" / "labextensions"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
EXACT = ("--no-deps", "--only-binary=:all:", "--require-hashes")
BROWSER = ("--python-version=3.14", "--implementation=py", "--abi=none", "--platform=any")
"""Pure Python, for the version that Pyodide is."""


def fetch() -> None:
    """Put both parts in place, anew; InputError if pip cannot."""
    shutil.rmtree(HOME, ignore_errors=True)
    _pip("install", *EXACT, "--target", str(TOOLS), "--requirement", str(LOCK / "tools.txt"))
    pinned = ("--requirement", str(LOCK / "browser.txt"))
    _pip("download", *EXACT, *BROWSER, "--dest", str(WHEELS), *pinned)


def package(source: Path, target: Path) -> None:
    """Build the wheel of this package from its source tree."""
    _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(target), str(source))


def found() -> None:
    """InputError if a part is missing."""
    if not EXTENSIONS.is_dir() or not WHEELS.is_dir():
        raise InputError("JupyterLite", f"not in {HOME.name}/ of the environment", "run: make lite")


def _pip(*arguments: str) -> None:
    done = subprocess.run([*PIP, *arguments], check=False)
    if done.returncode != 0:
        fix = "see pip's message above; it needs the package index once"
        raise InputError(f"pip {arguments[0]}", "failed", fix)
