"""The front end as files: one module for kernels, one classic script and a worker for pages.

The parts in ``front/`` are ES modules that Node can import one by one. A page opened from a file
may not load modules, and a kernel takes exactly one, so each part becomes a function that answers
with what it exports: a part may import by name from other parts, one import a line, and export by
the word before a declaration.
"""

from __future__ import annotations

import posixpath
import re
from functools import cache
from pathlib import Path

from kvsched import palette

FRONT = Path(__file__).parent / "front"
PLAYER = (
    "decode", "queues", "board", "sglang", "steps", "run", "pen", "labels", "lanes", "scrub",
    "blocks", "map", "freequeue", "chips", "tests", "transport", "sentence", "poolwords", "legend",
    "player", "players",
)  # fmt: skip
SHARED = (
    "dom", "asking", "controls", "stepper", "states", "tour", "picks", "lifecycle",
    *(f"player/{part}" for part in PLAYER), "admission", "frame",
)  # fmt: skip
"""The parts of a widget, in every home, each after those it imports."""
PREDICTION = ("dom", "predict")
"""The parts of a prediction, in a kernel's front end."""
PAGE = ("predict", "address", "runtime", "page")
"""The parts that run on a static page only."""

SCRIPT, STYLE, WORKER = "kvsched-widgets.js", "kvsched-widgets.css", "kvsched-worker.mjs"

_IMPORT = re.compile(r'^import (\{.*\}) from "(.*)\.mjs";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:function|class|const) (\w+))", re.MULTILINE)


def module() -> str:
    """The module that a kernel's front end loads for a widget."""
    return _module(SHARED)


def prediction() -> str:
    """The module that a kernel's front end loads for a prediction."""
    return _module(PREDICTION)


def script() -> str:
    """The classic script that a page loads, also from a file."""
    return f"(() => {{\n{_parts(SHARED + PAGE)}parts['page'].start();\n}})();\n"


def worker() -> str:
    """The module worker in which a page runs Python."""
    return _read("worker.mjs")


def style() -> str:
    """The style sheet of a page, which has the palette already."""
    return _read("widgets.css") + _read("player/player.css")


def kernel_style() -> str:
    """The style sheet in a kernel's front end, palette included, for JupyterLab's themes too."""
    light = ":is(.kv-w, .kv-predict)"
    themes = ('body[data-jp-theme-light="false"]', 'html[theme="dark"]', ".vscode-dark")
    dark = ", ".join(f"{theme} {light}" for theme in themes)
    card = f"{light} {{ background: var(--kv-paper); padding: 14px 20px; }}\n"
    return palette.properties(light=light, dark=dark) + style() + card


def _module(names: tuple[str, ...]) -> str:
    """Parts of which the last renders."""
    return f"{_parts(names)}export default {{ render: parts['{names[-1]}'].render }};\n"


def _parts(names: tuple[str, ...]) -> str:
    return "".join(["const parts = {};\n", *map(_part, names)])


def _part(name: str) -> str:
    """A module as a function that is called once; imports are looked up among the parts."""
    source = _read(f"{name}.mjs")
    exported = ", ".join(match[1] for match in _EXPORT.findall(source))
    body = _EXPORT.sub(r"\1", _IMPORT.sub(lambda found: _import(name, *found.groups()), source))
    return f"parts['{name}'] = (() => {{\n{body}return {{ {exported} }};\n}})();\n"


def _import(name: str, names: str, path: str) -> str:
    source = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
    return f"const {names} = parts['{source}'];"


@cache
def _read(name: str) -> str:
    return (FRONT / name).read_text(encoding="utf-8")
