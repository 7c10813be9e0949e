"""Token sequences as the radix tree compares them: runs of consecutive ids, cut and matched.

Runs are maximal (no run continues the one before), so equal runs mean equal tokens.
"""

from __future__ import annotations

from kvsched.request import Runs


def length(runs: Runs) -> int:
    """How many tokens."""
    return sum(count for _, count in runs)


def cut(runs: Runs, start: int, stop: int) -> Runs:
    """The tokens ``start`` to ``stop - 1``."""
    out = []
    at = 0
    for first, count in runs:
        if at >= stop:
            break
        low, high = max(start - at, 0), min(stop - at, count)
        if low < high:
            out.append((first + low, high - low))
        at += count
    return tuple(out)


def drop(runs: Runs, start: int) -> Runs:
    """The tokens from ``start`` on."""
    for position, (first, count) in enumerate(runs):
        if start < count:
            return ((first + start, count - start), *runs[position + 1 :])
        start -= count
    return ()


def shared(a: Runs, b: Runs) -> int:
    """How many tokens the two begin with alike."""
    same = 0
    for (first, count), (other, number) in zip(a, b, strict=False):
        if first != other:
            return same
        if count != number:
            return same + min(count, number)
        same += count
    return same
