"""The widget: what it computes in a kernel, and what it leaves in the page."""

from __future__ import annotations

import functools
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from kvsched.errors import InputError
from kvsched.views import VIEWS, find, reply
from kvsched.widgets import widget
from kvsched.widgets.fallback import html
from kvsched.widgets.widget import Widget

EACH_VIEW = pytest.mark.parametrize("view", VIEWS)
SLOW = {"feedback", "starvation", "storm", "watermark"}
"""Their views take seconds; how a widget is written does not depend on the view."""
STORED_BYTES = 150_000


@functools.cache
def default(view: str) -> Widget:
    """The widget of a view at its defaults; some take a second."""
    return widget(view)


def page(live: Widget) -> str:
    data, _ = live._repr_mimebundle_()
    return str(data["text/html"])


def stored(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    state: dict[str, Any] = json.loads(found[1])
    return state


@pytest.mark.parametrize("view", sorted(set(VIEWS) - SLOW))
def test_equal_widgets_leave_equal_bytes(view: str) -> None:
    again = widget(view)
    assert page(default(view)) == page(again)
    assert repr(default(view)) == repr(again)


@EACH_VIEW
def test_a_page_stores_little(view: str) -> None:
    assert len(page(default(view)).encode()) < STORED_BYTES


@EACH_VIEW
def test_the_page_holds_the_state_the_figure_and_everything_as_text(view: str) -> None:
    text, found = page(default(view)), find(view)
    data = default(view).state["data"]
    assert stored(text)["data"] == data
    assert found.draw(data, found.selected({})) in text
    for part in (data["sentence"], data["caption"]):
        assert part.replace("&", "&amp;").replace("<", "&lt;") in text
    assert text.count("<tr>") == len(found.table(data).rows) + 1


@EACH_VIEW
def test_tags_close_in_order(view: str) -> None:
    class Check(HTMLParser):
        open: list[str] = []  # noqa: RUF012

        def handle_starttag(self, tag: str, attrs: Any) -> None:
            self.open.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert self.open.pop() == tag

    check = Check()
    check.feed(page(default(view)))
    assert check.open == []


def test_the_bundle_has_a_text_and_a_live_view() -> None:
    data, _ = widget("tour")._repr_mimebundle_()
    assert data["text/plain"].startswith("A small run: 4 requests share 24 blocks: ")
    assert "application/vnd.jupyter.widget-view+json" in data


def test_a_question_is_answered_under_its_number() -> None:
    live = widget("tour")
    live.ask = {"serial": "s1", "params": {"blocks": 20}, "selection": {"step": 2}}
    answer = reply("tour", {"blocks": 20}, {"step": 2})
    assert live.reply == {"serial": "s1", "params": {"blocks": 20}, **answer}
    live.ask = {"serial": "s2", "params": {"blocks": 1}, "selection": {}}
    assert live.reply["serial"] == "s2"
    assert "out of range" in live.reply["error"]


def test_parameters_and_selection_are_checked() -> None:
    with pytest.raises(InputError, match="no parameter 'pool'"):
        widget("tour", pool=3)
    with pytest.raises(InputError, match="nothing to select 'row'"):
        widget("tour", selection={"row": 1})


def test_a_name_is_its_place_in_the_address() -> None:
    assert 'id="widget-tour"' in page(default("tour"))
    assert 'id="widget-second"' in page(widget("tour", name="second"))
    assert stored(page(widget("tour", name="second")))["name"] == "second"


def test_nothing_in_the_state_can_end_its_script() -> None:
    found = find("tour")
    data = {**found(), "sentence": "</script><b>"}
    state = {"name": "x", "data": data}
    text = html(state, "", found.table(data))
    assert text.count("</script>") == 1
    assert stored(text)["data"]["sentence"] == "</script><b>"
