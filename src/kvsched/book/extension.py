"""The Sphinx extension of the book: house style, formulas, and the pages made from the code."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from myst_nb.core import render  # type: ignore[import-untyped]
from myst_nb.core.utils import coalesce_streams  # type: ignore[import-untyped]
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from kvsched import __version__, palette
from kvsched.book import fidelity, mathml, status, streams

STATIC = Path(__file__).parent / "static"
PER_CENT = re.compile(r"(?<=\d) %")


# Collecting the tests takes seconds, and a page has a table an engine.
_rules = functools.cache(fidelity.collect)


class FidelityTable(SphinxDirective):
    """`{fidelity-table} ENGINE`: the engine's rules that tests show, read from their markers."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Collect the tests and draw one row a rule."""
        self.env.note_reread()
        rules = [rule for rule in _rules(Path(self.env.srcdir)) if rule.engine == self.arguments[0]]
        found = self.parse_text_to_nodes(f"{len(rules)} rules.\n\n{fidelity.markdown(rules)}")
        for table in found[-1].findall(nodes.table):
            table["classes"].append("fidelity")
        return found


class StatusTable(SphinxDirective):
    """`{status-table}`: what this build was made with."""

    def run(self) -> list[nodes.Node]:
        """Ask the machine and draw one row a fact."""
        self.env.note_reread()
        return self.parse_text_to_nodes(status.markdown(Path(self.env.srcdir)))


def add_static(app: Sphinx) -> None:
    """Add our static files and the palette made from `kvsched.palette`.

    This late, because Jupyter Book puts every script it finds in a static folder of the
    configuration on every page.
    """
    made = Path(app.doctreedir).parent / "kvsched-static"
    made.mkdir(parents=True, exist_ok=True)
    (made / "palette.css").write_text(palette.css(), encoding="utf-8")
    app.config.html_static_path += [str(STATIC), str(made)]


def keep_units(_: Sphinx, doctree: nodes.document) -> None:
    """Keep a per cent sign on the line of its number."""
    for text in list(doctree.findall(nodes.Text)):
        kept = PER_CENT.sub("\N{NO-BREAK SPACE}%", text)
        if kept != text and not isinstance(text.parent, nodes.FixedTextElement | nodes.literal):
            text.parent.replace(text, nodes.Text(kept))


def drop_scripts(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    """Leave out sphinx-thebe, which asks a CDN for a kernel that no page here uses."""

    def wanted(script: Any) -> bool:
        attributes = getattr(script, "attributes", {})
        name = str(getattr(script, "filename", "") or "")
        return "THEBE_JS_URL" not in (attributes.get("body") or "") and "thebe" not in name

    for kind in ("script_files", "css_files"):
        context[kind][:] = [file for file in context[kind] if wanted(file)]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register everything with Sphinx."""
    render.coalesce_streams = streams.joined_first(coalesce_streams)
    app.add_directive("fidelity-table", FidelityTable)
    app.add_directive("status-table", StatusTable)
    app.add_html_math_renderer("mathml", (mathml.visit_inline, None), (mathml.visit_block, None))
    app.add_css_file("palette.css")
    app.add_css_file("house.css")
    app.connect("builder-inited", add_static)
    app.connect("doctree-read", keep_units)
    app.connect("html-page-context", drop_scripts, priority=900)
    app.setup_extension("kvsched.book.live")
    return {"version": __version__, "parallel_read_safe": True, "parallel_write_safe": True}
