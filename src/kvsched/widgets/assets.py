"""The front end as files: one module for kernels, one classic script and a worker for pages.

The parts in ``front/`` are ES modules that Node can import one by one. A page opened from a file
may not load modules, and a kernel takes exactly one, so the parts are put into one scope: a part
may import from its neighbours, one import a line, and export by the word before a declaration.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from kvsched import palette

FRONT = Path(__file__).parent / "front"
SHARED = ("dom", "asking", "controls", "stepper", "states", "tour", "frame")
"""The parts that run in every home, each after those it imports."""
PAGE = ("predict", "address", "runtime", "page")
"""The parts that run on a static page only."""

SCRIPT, STYLE, WORKER = "kvsched-widgets.js", "kvsched-widgets.css", "kvsched-worker.mjs"

_IMPORT = re.compile(r"^import .*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=\w)", re.MULTILINE)


def module() -> str:
    """The module that a kernel's front end loads."""
    return f"{_scope(SHARED)}export default {{ render }};\n"


def script() -> str:
    """The classic script that a page loads, also from a file."""
    return f"(() => {{\n{_scope(SHARED + PAGE)}start();\n}})();\n"


def worker() -> str:
    """The module worker in which a page runs Python."""
    return _read("worker.mjs")


def style() -> str:
    """The style sheet of a page, which has the palette already."""
    return _read("widgets.css")


def kernel_style() -> str:
    """The style sheet in a kernel's front end, palette included, for JupyterLab's themes too."""
    dark = 'body[data-jp-theme-light="false"] .kv-w, html[theme="dark"] .kv-w, .vscode-dark .kv-w'
    card = ".kv-w { background: var(--kv-paper); padding: 14px 20px; }\n"
    return palette.properties(light=".kv-w", dark=dark) + style() + card


def _scope(parts: tuple[str, ...]) -> str:
    return "".join(_EXPORT.sub("", _IMPORT.sub("", _read(f"{part}.mjs"))) for part in parts)


@cache
def _read(name: str) -> str:
    return (FRONT / name).read_text(encoding="utf-8")
