"""Live widgets on the pages: their script and style where a page has one, and Python for all.

A page opened over HTTP runs the same views as a kernel does, in Pyodide, which the build copies
into the book: no request leaves its host.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from kvsched.book import runtime
from kvsched.book.lite import build
from kvsched.errors import InputError
from kvsched.widgets import assets, shipping

MARKS = ('class="kv-widget"', 'class="kv-predict"')


def add_front_end(app: Sphinx) -> None:
    """Write script, style and worker, this late for the reason that `add_static` gives."""
    made = Path(app.doctreedir).parent / "kvsched-widgets"
    made.mkdir(parents=True, exist_ok=True)
    for name, text in (
        (assets.SCRIPT, assets.script()),
        (assets.STYLE, assets.style()),
        (assets.WORKER, assets.worker()),
    ):
        (made / name).write_text(text, encoding="utf-8")
    app.config.html_static_path.append(str(made))


def add_to_page(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Load script and style where a page has a widget or a prediction; drop stored widget states.

    The states are for a kernel's front end, which no page has.
    """
    context["script_files"][:] = [
        file for file in context["script_files"] if "widget-state" not in _type(file)
    ]
    html = [node.astext() for node in doctree.findall(nodes.raw)] if doctree else []
    if any(mark in text for mark in MARKS for text in html):
        app.add_js_file(assets.SCRIPT, loading_method="defer")
        app.add_css_file(assets.STYLE)


def add_button(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """A button on every notebook's page that opens its copy in JupyterLite."""
    if context.get("page_source_suffix") == ".ipynb":
        lab = context["pathto"](f"{build.FOLDER}/lab/index.html", 1)
        button = {
            "type": "link",
            "url": f"{lab}?path={pagename}.ipynb",
            "text": "Run",
            "icon": "fas fa-play",
            "tooltip": "Run this notebook in your browser, in JupyterLite",
            "label": "lite-button",
        }
        context["header_buttons"].insert(0, button)


def _type(file: Any) -> str:
    return str(getattr(file, "attributes", {}).get("type", ""))


def add_python(app: Sphinx, failure: Exception | None) -> None:
    """Copy Pyodide and the package's part that views use into the built book."""
    if failure is not None or app.builder.format != "html":
        return
    try:
        files = runtime.found()
        static = Path(app.outdir) / "_static"
        target = static / "pyodide"
        target.mkdir(parents=True, exist_ok=True)
        for name in shipping.PYODIDE:
            shutil.copyfile(files / name, target / name)
        shipping.archive(static / "kvsched.zip")
    except InputError as error:
        raise ExtensionError(str(error)) from None


def setup(app: Sphinx) -> None:
    """Register with Sphinx."""
    app.connect("builder-inited", add_front_end)
    app.connect("html-page-context", add_to_page, priority=900)
    app.connect("html-page-context", add_button, priority=900)
    app.connect("build-finished", add_python)
