"""Empty the book's execution cache when what the notebooks run on has changed.

The cache knows the notebooks' own cells only. A page would keep yesterday's numbers after a change
in the package, so the cache carries a key over everything else a cell can read, and goes when the
key differs.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path

INPUTS = ("src", "tests/golden", "labs/data", "requirements.txt")
CACHE = "_build/.jupyter_cache"
KEY = "_build/.jupyter_cache.key"


def key(root: Path) -> str:
    """A digest of the interpreter's version and of every input's name and bytes."""
    digest = hashlib.sha256(sys.version.encode())
    for top in INPUTS:
        path = root / top
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file() and file.suffix != ".pyc":
                digest.update(f"\n{file.relative_to(root).as_posix()}\n".encode())
                digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def refresh(root: Path) -> bool:
    """Delete the cache unless its key is the present one; True if it was kept."""
    stamp, present = root / KEY, key(root)
    if stamp.is_file() and stamp.read_text() == present:
        return True
    stamp.unlink(missing_ok=True)
    shutil.rmtree(root / CACHE, ignore_errors=True)
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(present)
    return False


if __name__ == "__main__":
    kept = refresh(Path.cwd())
    sys.stdout.write("kept: no input has changed\n" if kept else "emptied: every notebook runs\n")
