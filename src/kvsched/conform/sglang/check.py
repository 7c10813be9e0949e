"""Every case of a file against the twin, with the first field that differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kvsched.conform import document
from kvsched.conform.compare import CaseResult, Divergence
from kvsched.conform.sglang import admission, constants, formats, loop, memory, parts
from kvsched.conform.sglang.result import Pair, difference, short
from kvsched.errors import InputError
from kvsched.sglang.pages import PoolExhausted

Case = dict[str, Any]
Verdict = tuple[int, Divergence | None]


class Kind(NamedTuple):
    """Cases of one sort: the field that lists them, and how one is checked."""

    name: str
    field: str
    check: Callable[[Case], Verdict]


def compare_file(path: str | Path) -> Iterator[CaseResult]:
    """The verdict on each case of a file, in order.

    Raises InputError naming file, field and value for anything out of the format.
    """
    path = Path(path)
    yield from compare_content(path, document.read(path))


def compare_content(path: Path, content: Any) -> Iterator[CaseResult]:
    """The verdict on each case of what was read from ``path``."""
    try:
        kind = formats.check(content)
        for sort in KINDS[kind]:
            yield from _compare_all(sort, content, path)
    except InputError as error:
        field = error.place.removeprefix(".") or "file"
        raise InputError(f"{document.place(path)}: {field}", error.problem, error.fix) from None


def recognises(content: Any) -> bool:
    """Does this look like a recording of SGLang, of whatever kind?"""
    return formats.kind_of(content) is not None


def _compare_all(sort: Kind, content: Case, path: Path) -> Iterator[CaseResult]:
    head = constants.differ(content) if sort.name in ("start", "sequence", "estimate") else None
    for position, case in enumerate(content[sort.field]):
        try:
            steps, divergence = (0, head) if head is not None else sort.check(case)
        except InputError as error:
            raise error.inside(f"{sort.field}[{position}]") from None
        label = " ".join(str(case[key]) for key in ("kind", "tag", "mode", "seed") if case.get(key))
        name = f"{sort.name}[{position}] {label}".rstrip()
        yield CaseResult(name, "sglang", content["version"], str(path), steps, divergence)


def _by_pairs(pairs: Callable[[Case], Iterable[Pair]]) -> Callable[[Case], Verdict]:
    """The check of a case whose steps are yielded as (expected, got)."""

    def check(case: Case) -> Verdict:
        steps = 0
        try:
            for expected, got in pairs(case):
                found = difference(expected, got)
                if found is not None:
                    return steps, Divergence(steps, *found, f"  case: {short(case)}")
                steps += 1
        except PoolExhausted as error:
            return steps, Divergence(steps, "pool", None, str(error), f"  case: {short(case)}")
        return steps, None

    return check


def _loop(run: Case) -> Verdict:
    try:
        return loop.compare(run)
    except PoolExhausted as error:
        return 0, Divergence(None, "pool", None, str(error), "  the twin's run broke off")


KINDS: dict[str, tuple[Kind, ...]] = {
    "ratio": (
        Kind("start", "init", _by_pairs(parts.ratio_start)),
        Kind("sequence", "seqs", _by_pairs(parts.ratio_sequence)),
        Kind("estimate", "estimate", _by_pairs(parts.ratio_estimate)),
    ),
    "retract": (
        Kind("order", "orders", _by_pairs(memory.retract_order)),
        Kind("retract", "loops", _by_pairs(memory.retract_loop)),
    ),
    "policy": (Kind("policy", "cases", _by_pairs(parts.policy)),),
    "adder": (Kind("adder", "cases", _by_pairs(admission.adder)),),
    "preempt": (Kind("preempt", "cases", _by_pairs(memory.preempt)),),
    "timeout": (Kind("timeout", "cases", _by_pairs(parts.timeout)),),
    "loop": (Kind("loop", "runs", _loop),),
}
