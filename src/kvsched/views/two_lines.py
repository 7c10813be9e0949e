"""Two retraction lines of a log: how many decode steps lie between them, and what a step took."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from kvsched.errors import InputError
from kvsched.sglang import Config
from kvsched.sglang.ratio import NewTokenRatio
from kvsched.sglang.retraction_lines import Between, Retraction, between
from kvsched.views.params import Number
from kvsched.views.two_lines_figure import bounds, draw, table
from kvsched.views.view import Data, View

ASSIGNED, FOUND, APART = 0.1919, 0.1207, 6
"""From sglang issue 4184."""
CONSERVATIVENESS = (0.3, 0.5, 0.7, 1.0, 2.0)
_START = datetime.fromisoformat("2000-01-01")


def compute(assigned: float, found: float, apart: int) -> Data:
    """The two lines as printed by servers of several conservativeness."""
    points = [_point(value, assigned, found, apart) for value in CONSERVATIVENESS]
    default = points[CONSERVATIVENESS.index(1.0)]
    shown = f"{assigned:.4f}, then {found:.4f} found {apart} s later"
    return {
        "assigned": assigned,
        "found": found,
        "picks": [f"{value:g}" for value in CONSERVATIVENESS],
        "points": points,
        "says": [point["says"] for point in points],
        "sentence": f"{shown}: at the default conservativeness {default['short']}.",
        "caption": (
            "Above: how the ratio falls from the value that the first line assigned, a dot where "
            "it is what the second line found. Below: the time of a decode step, between two "
            "bounds because log times are cut to the second; prefills in between are included."
        ),
        "alt": (
            f"Five lines from {assigned:.4f}, falling at the slope of each conservativeness, "
            f"{found:.4f} where one may have come to it, and the bounds of a decode step below: at "
            f"1, {default['short']}."
        ),
    }


def _point(value: float, assigned: float, found: float, apart: int) -> dict[str, Any]:
    """One conservativeness; ``steps`` and ``ms`` are None where it cannot have been this one."""
    ratio = NewTokenRatio(Config(1, schedule_conservativeness=value))
    point: dict[str, Any] = {"value": value, "min": ratio.min, "decay": ratio.decay}
    second = Retraction(_START + timedelta(seconds=apart), found, None)
    try:
        seen = between(Retraction(_START, 1.0, assigned), second, value)
    except InputError as error:
        short = "it cannot be"
        said = f"At conservativeness {value:g} it cannot be: {error.problem}."
        return point | {"steps": None, "ms": None, "short": short, "says": said}
    low, high = (1000 * bound for bound in seen.step_seconds)
    short = f"{bounds(low, high)} ms a{' decode' if low else ''} step"
    said = (
        f"At conservativeness {value:g} a decode subtracts {ratio.decay:.7f}. {_count(seen)} in "
        f"{_time(seen)}: {short}, prefills in between included."
    )
    most = seen.steps[1]
    point["steps"] = [seen.steps[0], most]
    return point | {"ms": [round(low, 1), round(high, 1)], "short": short, "says": said}


def _count(seen: Between) -> str:
    low, high = seen.decays
    if high is None:
        least = f"{_times(low, 'decay')}, so {_times(low + 1, 'decode step')}"
        return f"The ratio stands on its floor: at least {least}"
    if low == high:
        return f"{_times(low, 'decay')}, so {_times(low + 1, 'decode step')}"
    return f"{low} to {high} decays, so {low + 1} to {high + 1} decode steps"


def _times(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _time(seen: Between) -> str:
    low, high = seen.seconds
    return f"more than {low} and less than {high} s" if low else f"less than {high} s"


VIEW = View(
    name="two_lines",
    renderer="picks",
    label="Decode step time from two log lines",
    compute=compute,
    draw=draw,
    table=table,
    params=(
        Number("assigned", "first line assigns", ASSIGNED, 0.05, 1.0, 0.0001),
        Number("found", "second line finds", FOUND, 0.01, 1.0, 0.0001),
        Number("apart", "seconds apart", APART, 0, 60, 1, "s"),
    ),
    selection={"pick": 3},
)
