"""SVG as text, the few elements that the figures need. Equal input gives equal bytes.

A figure names its colours as the palette's custom properties with the light value to fall back
on, so it is readable where no style sheet of ours is.
"""

from __future__ import annotations

from html import escape

from kvsched.palette import INKS, PHASES

_LIGHT = {phase.slug: phase.ink.light for phase in PHASES} | {
    name: ink.light for name, ink in INKS.items()
}


def ink(name: str) -> str:
    """A colour of the palette, by its slug."""
    return f"var(--kv-{name},{_LIGHT[name]})"


def num(value: float) -> str:
    """A coordinate: at most one decimal, no trailing zero."""
    return f"{value:.1f}".removesuffix(".0")


def element(tag: str, *children: str, **attributes: str | float) -> str:
    """One element; the attributes ``class_`` and ``data_x`` become ``class`` and ``data-x``."""
    spelt = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for name, value in attributes.items()
    )
    return f"<{tag}{spelt}>{''.join(children)}</{tag}>" if children else f"<{tag}{spelt}/>"


def text(content: str, x: float, y: float, **attributes: str | float) -> str:
    """A line of text at a baseline."""
    return element("text", escape(content, quote=False), x=x, y=y, **attributes)


def picture(width: float, height: float, alt: str, *children: str, **attributes: str) -> str:
    """The whole figure, with its alt text as accessible name."""
    return element(
        "svg",
        *children,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {num(width)} {num(height)}",
        role="img",
        aria_label=alt,
        **attributes,
    )


def _value(value: str | float) -> str:
    return escape(value) if isinstance(value, str) else num(value)
