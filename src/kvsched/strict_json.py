"""JSON text read strictly: what is unclear is refused."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from kvsched.errors import InputError

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse(text: str) -> Any:
    """The JSON value of a text.

    Refused: numbers JSON has no word for, a key given twice in one object, text that could not be
    written back as UTF-8.
    """
    try:
        value = json.loads(
            text, object_pairs_hook=_once, parse_float=_finite, parse_constant=_no_constant
        )
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except InputError:
        raise
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise InputError(where, f"not JSON ({error.msg})", "copy or record it again") from None
    except RecursionError:
        raise InputError("", "nested too deeply", "write it with fewer levels") from None
    except UnicodeEncodeError as error:
        found = f"half a surrogate pair ({error.object[error.start]!a})"
        raise InputError("", found, "write whole characters") from None
    except ValueError:
        found = "an integer of thousands of digits"
        raise InputError("", found, "write a smaller number") from None
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The pairs of one object as a dict, if no key comes twice."""
    value = dict(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                found = f"key {json.dumps(key)} twice in one object"
                raise InputError("", found, "keep one of them")
            seen.add(key)
    return value


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        found = f"number {text[:40]} is beyond a 64-bit float"
        raise InputError("", found, "write a smaller number")
    return number


def _no_constant(text: str) -> NoReturn:
    raise InputError("", f"{text} is not a JSON number", "write a finite number")
