"""The first difference between what was recorded and what the twin did."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Pair = tuple[Mapping[str, Any], Mapping[str, Any]]
"""What was recorded and what the twin did in one step, field by field."""


def taken(case: Mapping[str, Any], got: Mapping[str, Any]) -> Pair:
    """The case's own fields beside those of ``got``."""
    return {name: case[name] for name in got}, got


def difference(expected: Mapping[str, Any], got: Mapping[str, Any]) -> tuple[str, Any, Any] | None:
    """The first field that differs, in the order of ``got``; floats must be equal."""
    for name, value in got.items():
        if not same(expected.get(name), value):
            return name, expected.get(name), value
    return None


def same(a: Any, b: Any) -> bool:
    """Equal in value; a bool equals no number."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)


def short(value: Any, limit: int = 400) -> str:
    """The value on one line, cut where it is long."""
    text = json.dumps(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"
