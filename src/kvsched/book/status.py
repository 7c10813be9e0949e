"""What this build of the book was made with: versions, device, commit and date."""

from __future__ import annotations

import datetime as dt
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = (
    "kvsched",
    "torch",
    "numpy",
    "pandas",
    "matplotlib",
    "jupyter-book",
    "sphinx",
    "myst-nb",
)


def rows(root: Path) -> list[tuple[str, str]]:
    """Name and value of everything that can change what the pages say."""
    return [
        ("built", _date()),
        ("commit", _commit(root)),
        ("Python", f"{platform.python_implementation()} {platform.python_version()}"),
        ("system", f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPU cores"),
        ("GPU", _gpu()),
        *((name, _version(name)) for name in PACKAGES),
    ]


def markdown(root: Path) -> str:
    """The rows as one Markdown table."""
    body = "".join(f"| {name} | {value} |\n" for name, value in rows(root))
    return f"| what | this build |\n|---|---|\n{body}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _date() -> str:
    """Now, or the moment that SOURCE_DATE_EPOCH fixes for a reproducible build."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    now = dt.datetime.fromtimestamp(float(epoch), dt.UTC) if epoch else dt.datetime.now(dt.UTC)
    return now.strftime("%Y-%m-%d %H:%M UTC")


def _commit(root: Path) -> str:
    commit = _output(["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"])
    if not commit:
        return "not under version control"
    changed = _output(["git", "-C", str(root), "status", "--porcelain"])
    return f"{commit}, with uncommitted changes" if changed else commit


def _gpu() -> str:
    found = _output(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"])
    if not found:
        return "none: what needs one shows a stored measurement and says so"
    return "; ".join(line.replace(", ", ", driver ") for line in found.splitlines())


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
