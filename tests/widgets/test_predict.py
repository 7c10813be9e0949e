"""The prediction: an answer behind a guess, as plain HTML."""

from __future__ import annotations

import pytest

from kvsched.errors import InputError
from kvsched.widgets import predict


def test_a_number_is_asked_for() -> None:
    question = predict("How many?", answer=4, unit="steps", reveal="Because.")
    text = question.html
    assert '<input type="number" step="any" required' in text
    assert 'data-answer="4" data-unit="steps"' in text
    assert "<b>4 steps.</b> Because.</p></details>" in text
    assert repr(question) == "Predict: How many?"
    assert text == predict("How many?", answer=4, unit="steps", reveal="Because.").html


def test_a_choice_is_asked_for() -> None:
    text = predict("Which?", answer="b", choices=("a", "b")).html
    assert text.count('type="radio"') == 2
    assert text.count('name="predict-Which?"') == 2
    assert 'data-kind="choice" data-answer="b"' in text


def test_what_is_typed_is_text() -> None:
    text = predict('<i>"', answer="<b>", choices=("<b>", "a&b")).html
    assert "<i>" not in text
    assert "&lt;b&gt;" in text
    assert "a&amp;b" in text


def test_an_answer_fits_its_question() -> None:
    with pytest.raises(InputError, match="'c' is no choice; one of a, b"):
        predict("Which?", answer="c", choices=("a", "b"))
    with pytest.raises(InputError, match="'4' is no number"):
        predict("How many?", answer="4")
    with pytest.raises(InputError, match="True is no number"):
        predict("How many?", answer=True)


def test_a_kernels_front_end_gets_the_pages_html_and_asks_nothing() -> None:
    question = predict("How many?", answer=4)
    bundle, _ = question._repr_mimebundle_()
    assert bundle["text/html"] == question.html
    assert bundle["text/plain"] == "Predict: How many?"
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert 'root.innerHTML = model.get("html")' in question._esm
    assert "save_changes" not in question._esm
