"""Views by name: parameters are checked, replies are JSON, every view keeps its contract."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from typing import Any
from xml.etree import ElementTree

import pytest

from kvsched.errors import InputError
from kvsched.views import VIEWS, find, reply
from kvsched.views.params import Choice, Number, Param, Switch, Text
from kvsched.views.view import Data

EACH_VIEW = pytest.mark.parametrize("name", VIEWS)
SLOW = {"feedback", "starvation", "storm", "watermark"}
"""Each takes seconds; the browser tests run them, their extremes too, in both Pythons."""


@functools.cache
def default(name: str) -> Data:
    """The view at its defaults; some take a second."""
    return find(name)()


@EACH_VIEW
def test_a_view_is_called_what_the_registry_calls_it(name: str) -> None:
    assert find(name).name == name


@EACH_VIEW
def test_the_dict_says_what_the_picture_shows(name: str) -> None:
    data = default(name)
    for key in ("sentence", "caption", "alt"):
        assert data[key].endswith("."), key


@pytest.mark.parametrize("name", sorted(set(VIEWS) - SLOW))
def test_every_sample_survives_json(name: str) -> None:
    for params in find(name).samples():
        answer = reply(name, params, {})
        assert json.loads(json.dumps(answer, allow_nan=False)) == answer


@EACH_VIEW
def test_the_figure_is_well_formed_and_named(name: str) -> None:
    view, data = find(name), default(name)
    figure = view.draw(data, view.selected({}))
    root = ElementTree.fromstring(figure)
    assert root.get("role") == "img"
    assert root.get("aria-label") == data["alt"]
    again = data if name in SLOW else view()
    assert figure == view.draw(again, view.selected({}))


@EACH_VIEW
def test_no_line_of_text_is_cut_off_below(name: str) -> None:
    """A static reader shows what lies in the view box and no more."""
    view = find(name)
    root = ElementTree.fromstring(view.draw(default(name), view.selected({})))
    height = float(root.attrib["viewBox"].split()[3])
    for each in root.iter("{http://www.w3.org/2000/svg}text"):
        assert float(each.attrib["y"]) <= height - 2, each.text


@EACH_VIEW
def test_the_figure_needs_no_style_sheet(name: str) -> None:
    view = find(name)
    figure = view.draw(default(name), view.selected({}))
    assert "style=" not in figure
    assert figure.count("var(--kv-") == figure.count(",#")


@EACH_VIEW
def test_every_row_of_the_table_has_every_column(name: str) -> None:
    view = find(name)
    table = view.table(default(name))
    assert {len(row) for row in table.rows} == {len(table.head)}


def test_an_unknown_view_names_those_there_are() -> None:
    with pytest.raises(InputError, match=r"view 'nope': no such view; known: .*storm, tour"):
        find("nope")


def test_a_reply_carries_the_message_of_a_bad_parameter() -> None:
    assert reply("tour", {"blocks": 3}, {}) == {
        "error": "view tour: blocks: 3 is out of range; give a number from 12 to 48"
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"blocks": "20"}, "'20' is no number"),
        ({"blocks": True}, "True is no number"),
        ({"blocks": 20.5}, "20.5 is not whole"),
        ({"blocks": float("nan")}, "nan is out of range"),
        ({"blocks": float("inf")}, "inf is out of range"),
        ({"policy": "lifo"}, "'lifo' is no choice; choose fcfs, priority"),
        ({"policy": ["fcfs"]}, "is no choice"),
        ({"caching": 1}, "1 is no switch"),
        ({"pool": 1}, "no parameter 'pool'; known: blocks, requests, policy, caching"),
    ],
)
def test_a_bad_parameter_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message.replace("[", r"\[")):
        find("tour")(**given)


def test_a_whole_float_counts_as_an_int() -> None:
    assert find("tour").checked({"blocks": 20.0})["blocks"] == 20
    assert isinstance(find("tour").checked({"blocks": 20.0})["blocks"], int)


def test_a_parameter_with_a_fractional_step_is_a_float() -> None:
    load = Number("load", "load", 0.5, 0.0, 1.0, step=0.1)
    assert load.kind == "float"
    assert isinstance(load.check(1), float)


@pytest.mark.parametrize(
    "param",
    [
        Number("n", "n", 1, 0, 2),
        Choice("c", "c", "a", ("a", "b")),
        Switch("s", "s", default=True),
        Text("t", "t", "1", 3, int, ("1", "22")),
    ],
)
def test_a_control_says_its_name_label_and_kind(param: Param) -> None:
    control = param.control()
    assert {"name", "label", "kind"} <= control.keys()
    assert all(param.check(value) == value for value in param.extremes)


def test_only_what_a_view_has_can_be_selected() -> None:
    assert find("tour").selected({"step": 3}) == {"step": 3}
    with pytest.raises(InputError, match="nothing to select 'row'"):
        find("tour").selected({"row": 3})


def test_replies_do_not_depend_on_hash_order() -> None:
    names = [name for name in VIEWS if name not in SLOW]
    code = "from kvsched.views import line\nfor name in NAMES: print(line(name, {}))"
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", f"NAMES = {names}\n{code}"],
        env={"PYTHONHASHSEED": "1", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        check=True,
    )
    replies = [json.loads(told) for told in done.stdout.decode().splitlines()]
    assert [told["view"] for told in replies] == names
    assert [told["data"] for told in replies] == [default(name) for name in names]
