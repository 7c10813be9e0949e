"""Formulas as MathML, written at build time: they need no script, no web font and no network."""

from __future__ import annotations

import re
from html import unescape

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.locale import __
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)

# A comma between groups of digits: the converter makes it an operator, with space after it.
_GROUPED = re.compile(r"(?<=<mn>)([\d,]+)</mn><mrow><mo>&#x0002C;</mo></mrow><mn>(?=\d)")
# What the converter leaves as text when it does not know a command or an environment.
_LEFTOVER = re.compile(r"\\\w*|>&<")


def mathml(latex: str, display: str) -> str:
    """The formula as one `<math>` element; raises ValueError for LaTeX it cannot read."""
    if re.search(r"\\begin\{(align|gather|multline|eqnarray)\*?\}", latex):
        raise ValueError(f"use aligned inside $$…$$, with one label, in {latex!r}")
    element = convert(latex.replace("{aligned}", "{split}"), display=display)
    element = _GROUPED.sub(r"\1,", element)
    leftover = _LEFTOVER.search(unescape(element))
    if leftover:
        raise ValueError(f"{leftover[0]!r} is not understood in {latex!r}")
    return element


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    """Write a formula in a line."""
    self.body.append(_checked(node, "inline"))
    raise nodes.SkipNode


def visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on its own line, with its number and a link to it."""
    # Where it does not fit it scrolls; a tab stop lets the keyboard do so.
    self.body.append(self.starttag(node, "div", CLASS="math", tabindex="0"))
    self.body.append(_checked(node, "block"))
    if node["number"]:
        number = get_node_equation_number(self, node)
        self.body.append(f'<span class="eqno">({number})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append("</div>\n")
    raise nodes.SkipNode


def _checked(node: nodes.Element, display: str) -> str:
    try:
        return mathml(node.astext(), display)
    except Exception as error:  # the converter has many kinds of its own
        logger.warning(__("formula: %s"), error, location=node)
        return ""
