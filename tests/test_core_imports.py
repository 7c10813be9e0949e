"""The core runs on a bare interpreter, and its arrows point down only."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kvsched

PACKAGE = Path(kvsched.__file__).parent

# From the top down; a room not named here belongs to the foundations below all of them.
LAYERS = (
    {"cli", "ui", "replaying", "bench", "book", "widgets", "plots"}
    | {"frames", "sweep", "record", "device"},
    {"views", "explain", "metrics", "courses", "enginetime", "ttft", "perfetto", "cases"}
    | {"conform", "replay", "compare", "logs", "diagnose", "size", "fleet"},
    {"engine"},
    {"vllm", "sglang", "reserve", "lifecycle", "whatif"},
    {"workload"},
    {"clock", "costs", "profiles"},
)
LEAVES = LAYERS[0] - {"bench"}
"""Where third-party libraries may live; ``bench`` does without."""

IMPORT_ALL = """
import importlib, json, sys
sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]:
    importlib.import_module(name)
ours = {"kvsched", "__main__", "__mp_main__"}
print(json.dumps(sorted({m.split(".")[0] for m in sys.modules} - sys.stdlib_module_names - ours)))
"""


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the package with its file."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        yield ".".join(part for part in parts if part != "__init__"), path


def room(module: str) -> str:
    """The part of the name below the package."""
    return module.split(".")[1] if "." in module else ""


def layer(module: str) -> int:
    """0 is the top."""
    return next((i for i, rooms in enumerate(LAYERS) if room(module) in rooms), len(LAYERS))


def imported(path: Path) -> Iterator[str]:
    """What of this package a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            if node.module == "kvsched":
                yield from (f"kvsched.{alias.name}" for alias in node.names)
            elif node.module is not None and node.module.startswith("kvsched."):
                yield node.module
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.split(".")[0] == "kvsched")


CORE = [name for name, _ in modules() if room(name) not in LEAVES]


def test_the_core_is_found() -> None:
    assert {"kvsched", "kvsched.log", "kvsched.vllm.scheduler", "kvsched.engine.loop"} <= set(CORE)
    assert "kvsched.cli" not in CORE


@pytest.mark.parametrize("order", [CORE, CORE[::-1]], ids=["forward", "backward"])
def test_the_core_imports_without_site_packages_and_loads_nothing_foreign(order: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", IMPORT_ALL, str(PACKAGE.parent), *order],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


@pytest.mark.parametrize(("module", "path"), list(modules()), ids=[name for name, _ in modules()])
def test_arrows_point_down(module: str, path: Path) -> None:
    upward = [name for name in imported(path) if layer(name) < layer(module)]
    assert upward == [], (
        f"{module} stands below these; move one, or give its room a place in LAYERS"
    )
