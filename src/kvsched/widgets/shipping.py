"""What a page needs to run Python: Pyodide's files and the part of this package that views use.

The part is found, not listed: whatever the view modules import, in this package, with the data
files beside it. It must be the standard library and nothing else; `modules()` says so by name.
"""

from __future__ import annotations

import ast
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from kvsched.errors import InputError
from kvsched.views import VIEWS

PACKAGE = Path(__file__).parents[1]
ROOTS = ("kvsched.views", *VIEWS.values())
DATA = (".json", ".csv", ".txt")
PYODIDE = (
    "pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json"
)  # fmt: skip
MOMENT = (1980, 1, 1, 0, 0, 0)
"""The date of every file in the archive: equal sources give equal bytes."""


def modules() -> dict[str, Path]:
    """The files of all modules that the views import, by name; InputError for a foreign one."""
    found: dict[str, Path] = {}
    todo = list(ROOTS)
    while todo:
        name = todo.pop()
        path = _file(name)
        if name in found or path is None:
            continue
        found[name] = path
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        todo += [package] if package else []
        for imported in _imports(path):
            top = imported.partition(".")[0]
            if top == "kvsched":
                todo += [imported, imported.rpartition(".")[0]]
            elif top not in sys.stdlib_module_names:
                raise InputError(name, f"imports {top}", "views run in a browser: no third party")
    return dict(sorted(found.items()))


def archive(target: Path) -> None:
    """Write the modules and their data files as one zip, in the order of their names."""
    files = set(modules().values())
    folders = {path.parent for path in files} - {PACKAGE}
    files |= {path for folder in folders for path in folder.iterdir() if path.suffix in DATA}
    with zipfile.ZipFile(target, "w") as bundle:
        for path in sorted(files):
            name = path.relative_to(PACKAGE.parent).as_posix()
            entry = zipfile.ZipInfo(name, MOMENT)
            bundle.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED, 9)


def _file(name: str) -> Path | None:
    """The file of a module; None for a name in a module or outside the package."""
    top, *rest = name.split(".")
    if top != "kvsched":
        return None
    path = PACKAGE.joinpath(*rest)
    choices = (path / "__init__.py", path.with_suffix(".py"))
    return next((choice for choice in choices if choice.is_file()), None)


def _imports(path: Path) -> Iterator[str]:
    """Every name that the file imports, also inside functions; what only type checkers see too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
