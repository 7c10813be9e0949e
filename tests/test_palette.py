"""The palette keeps its phases apart for every eye, and its inks readable on their paper."""

from __future__ import annotations

import math
import re
from itertools import combinations

import pytest

from kvsched.palette import DECODE, INKS, PAPER, PHASES, PREFILL, SOFT, TEXT, Ink, css

Vector = tuple[float, float, float]
Matrix = tuple[Vector, Vector, Vector]

# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB.
VISION: dict[str, Matrix] = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
# Ottosson 2020: linear RGB to cone responses, then their cube roots to OKLab.
TO_LMS: Matrix = (
    (0.4122214708, 0.5363325363, 0.0514459929),
    (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
)
TO_LAB: Matrix = (
    (0.2104542553, 0.7936177850, -0.0040720468),
    (1.9779984951, -2.4285922050, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.8086757660),
)


def apply(matrix: Matrix, vector: Vector) -> Vector:
    x, y, z = (math.fsum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix)
    return x, y, z


def linear(colour: str) -> Vector:
    r, g, b = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    x, y, z = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (r, g, b))
    return x, y, z


def seen(colour: str, vision: str) -> Vector:
    """The colour in OKLab, as an eye of this kind sees it."""
    r, g, b = (min(1.0, max(0.0, c)) for c in apply(VISION[vision], linear(colour)))
    x, y, z = (c ** (1 / 3) for c in apply(TO_LMS, (r, g, b)))
    return apply(TO_LAB, (x, y, z))


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2."""
    low, high = sorted(apply(((0.2126, 0.7152, 0.0722),) * 3, linear(c))[0] for c in (one, other))
    return (high + 0.05) / (low + 0.05)


def shade(ink: Ink, theme: str) -> str:
    return ink.light if theme == "light" else ink.dark


THEMES = pytest.mark.parametrize("theme", ["light", "dark"])


@THEMES
@pytest.mark.parametrize("vision", VISION)
def test_any_two_phases_differ_by_ten_or_more(theme: str, vision: str) -> None:
    lab = {phase.name: seen(shade(phase.ink, theme), vision) for phase in PHASES}
    apart = {pair: 100 * math.dist(lab[pair[0]], lab[pair[1]]) for pair in combinations(lab, 2)}
    closest = min(apart, key=lambda pair: apart[pair])
    assert apart[closest] >= 10, f"{closest} differ by {apart[closest]:.1f}"


@THEMES
def test_every_phase_but_done_stands_out_from_the_paper(theme: str) -> None:
    paper = shade(PAPER, theme)
    for phase in PHASES:
        ink = INKS["done-ring"] if phase.name == "done" else phase.ink
        assert contrast(shade(ink, theme), paper) >= 3, phase.name


@THEMES
@pytest.mark.parametrize(
    ("ink", "ground"),
    [
        (TEXT, PAPER),
        (SOFT, PAPER),
        (TEXT, INKS["track"]),
        (SOFT, INKS["track"]),
        (INKS["prefill-text"], PAPER),
        (INKS["prefill-text"], INKS["track"]),
        (INKS["on-decode"], DECODE.ink),
        (INKS["on-prefill"], PREFILL.ink),
    ],
)
def test_text_is_readable_on_its_ground(theme: str, ink: Ink, ground: Ink) -> None:
    assert contrast(shade(ink, theme), shade(ground, theme)) >= 4.5


def test_css_has_every_colour_in_both_themes() -> None:
    light, dark = css().split("html[data-theme")
    names = re.findall(r"(--kv-[a-z-]+): #[0-9a-f]{6};", light)
    assert names == re.findall(r"(--kv-[a-z-]+): #[0-9a-f]{6};", dark)
    assert len(names) == len(set(names)) == len(PHASES) + len(INKS)
