"""Build JupyterLite into a built book, from files that are all here already."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from kvsched.book.lite import fetch, notebooks, python
from kvsched.errors import InputError

FOLDER = "lite"
FOLDERS = ("book", "labs")
FROM_FILE = """<script>
if (location.protocol === "file:") document.write("<p>This page was opened as a file, and from a "
  + "file JupyterLite cannot run. In the book’s folder run “python -m http.server”, then open "
  + "http://localhost:8000.</p>");
</script>
"""


def build(source: Path, html: Path) -> None:
    """Put JupyterLite with the notebooks of ``source`` into the book ``html``, anew."""
    if not (html / "index.html").is_file():
        raise InputError(str(html), "has no built book", "run: make book")
    fetch.found()
    target = html.resolve() / FOLDER
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        contents = work / "contents"
        contents.mkdir()
        notebooks.write([source / folder for folder in FOLDERS], contents)
        (work / "jupyter-lite.json").write_text(json.dumps(site()), encoding="utf-8")
        (work / "jupyter_lite_config.json").write_text(json.dumps(tool()), encoding="utf-8")
        _run(work, contents, target)
    _say_what_a_file_needs(target / "lab" / "index.html")
    python.ship(source, target / "python")


def site() -> dict[str, Any]:
    """JupyterLite's own settings: the page's Pyodide, our packages, and no index elsewhere."""
    kernel = {
        "pyodideUrl": "./../_static/pyodide/pyodide.mjs",
        "disablePyPIFallback": True,
        "loadPyodideOptions": {
            "lockFileURL": f"./python/{python.LOCK}",
            "packages": python.names(),
        },
    }
    data = {"litePluginSettings": {f"{python.KERNEL}:kernel": kernel}}
    return {"jupyter-lite-schema-version": 0, "jupyter-config-data": data}


def tool() -> dict[str, Any]:
    """The builder's settings: JupyterLab alone, with the widget managers of this environment."""
    return {
        "LiteBuildConfig": {"apps": ["lab"], "no_sourcemaps": True},
        "FederatedExtensionAddon": {"extra_labextensions_path": [str(fetch.EXTENSIONS)]},
    }


def _say_what_a_file_needs(page: Path) -> None:
    """Opened from a file the page would stay blank, for a browser loads no module there."""
    html = page.read_text(encoding="utf-8")
    page.write_text(html.replace("</head>", f"{FROM_FILE}</head>", 1), encoding="utf-8")


def _run(work: Path, contents: Path, target: Path) -> None:
    """Call the builder; its many lines are shown only if it fails."""
    command = [sys.executable, "-m", "jupyterlite_core", "build"]
    options = ["--lite-dir", str(work), "--contents", str(contents), "--output-dir", str(target)]
    done = subprocess.run(
        [*command, *options],
        cwd=work,
        env={**os.environ, "PYTHONPATH": str(fetch.TOOLS)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise InputError("jupyterlite", f"failed:\n{done.stdout}", "run: make distclean lite")
