"""One wrong rule at a time: is it noticed?

    make mutants
    python tests/sglang/mutants.py [--only WORD]

Each mutant (``mutants.tsv``) is a copy of the package with one constant or comparison changed. The
tests of this folder run against it, the quick ones first, and stop at the first failure. Listed in
the end are the survivors: rules that no test shows; there are none now. Takes some minutes on one
core; not in ``make test``.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
QUICK = ("test_unpinned", "test_contract", "test_cases", "test_victims", "test_conform")
PATIENCE = 600
MEMORY = 4 * 2**30
SLOW = ("test_machine", "test_state")


class Mutant(NamedTuple):
    """``old`` occurs once in the file and becomes ``new``."""

    file: str
    old: str
    new: str


def listed() -> list[Mutant]:
    r"""The mutants of ``mutants.tsv``: file, old and new, with ``\n`` for a line's end."""
    lines = (HERE / "mutants.tsv").read_text().splitlines()
    cells = (line.replace("\\n", "\n").split("\t") for line in lines if not line.startswith("#"))
    return [Mutant(f"{file}.py", old, new) for file, old, new in cells]


def _limit() -> None:
    """A wrong rule may loop for ever, and a log that grows for ever takes all memory."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def noticed(mutant: Mutant, folder: Path) -> str | None:
    """The first test that fails, or None."""
    source = folder / "kvsched" / "sglang" / mutant.file
    text = source.read_text()
    if text.count(mutant.old) != 1:
        raise SystemExit(f"{mutant.file}: {mutant.old!r} occurs {text.count(mutant.old)} times")
    source.write_text(text.replace(mutant.old, mutant.new))
    try:
        for names in (QUICK, SLOW):
            files = [str(HERE / f"{name}.py") for name in names]
            command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *files]
            environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
            try:
                ran = subprocess.run(
                    command,
                    env=environment,
                    cwd=ROOT,
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=PATIENCE,
                    preexec_fn=_limit,
                )
            except subprocess.TimeoutExpired:
                return f"no end within {PATIENCE} s"
            if ran.returncode != 0:
                lines = ran.stdout.splitlines()
                return next((line for line in lines if line.startswith(("FAILED", "ERROR"))), "?")
    finally:
        source.write_text(text)
    return None


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="mutants whose file or text holds this word")
    only = options.parse_args().only
    chosen = [mutant for mutant in listed() if only in " ".join(mutant)]
    survivors = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(ROOT / "src" / "kvsched", folder / "kvsched")
        for number, mutant in enumerate(chosen, 1):
            test = noticed(mutant, folder)
            said = test.partition(" - ")[0] if test else "SURVIVES"
            line = f"{number}/{len(chosen)} {mutant.file}: {mutant.old.strip()!r}: {said}\n"
            sys.stdout.write(line)
            sys.stdout.flush()
            if test is None:
                survivors.append(mutant)
    sys.stdout.write(f"{len(chosen) - len(survivors)} of {len(chosen)} noticed\n")
    for mutant in survivors:
        sys.stdout.write(f"survives: {mutant.file}: {mutant.old!r} -> {mutant.new!r}\n")
    return bool(survivors)


if __name__ == "__main__":
    raise SystemExit(main())
