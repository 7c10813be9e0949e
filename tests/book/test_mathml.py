"""Formulas become MathML, or the build says which one did not."""

from __future__ import annotations

import pytest

from kvsched.book.mathml import mathml


def test_inline_and_block() -> None:
    assert 'display="inline"' in mathml("a^2", "inline")
    assert 'display="block"' in mathml(r"\frac{a}{b}", "block")


def test_groups_of_digits_stay_one_number() -> None:
    assert "<mn>1,234,567</mn>" in mathml(r"1{,}234{,}567", "inline")


def test_aligned_rows() -> None:
    rows = mathml(r"\begin{aligned} a &= b \\ &\le c \end{aligned}", "block")
    assert rows.count("<mtr>") == 2


@pytest.mark.parametrize(
    "latex", [r"\nosuchmacro{x}", r"a & b", r"\begin{align} a &= b \end{align}", r"\texttt{a\_b}"]
)
def test_what_would_come_out_wrong_is_refused(latex: str) -> None:
    with pytest.raises(ValueError, match=r"in '"):
        mathml(latex, "block")
