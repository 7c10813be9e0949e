"""`show(obj, engine=...)`: our own source in a cell's output, beside the engine's lines.

The text is stored in the notebook, so a strict comparison fails when the code and the chapter
drift apart. It carries no line numbers of ours: an edit elsewhere in the file changes nothing.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

from kvsched.errors import InputError
from kvsched.sources import Source, source


@dataclass(frozen=True, slots=True, repr=False)
class Listing:
    """Source text, what it is called, and the engine's lines that it mirrors."""

    title: str
    text: str
    sources: tuple[Source, ...]

    def __repr__(self) -> str:
        engine = [f"# {s.engine.name} {s.engine.version}: {s.place}" for s in self.sources]
        return "\n".join([f"# {self.title}", *engine, "", self.text])

    def _repr_markdown_(self) -> str:
        fence = "`" * (2 + max([1, *map(len, re.findall(r"`{2,}", self.text))]))
        links = [f"[{s.engine.name} {s.engine.version}, {s.place}]({s.url})" for s in self.sources]
        note = " · ".join([f"`{self.title}`", *links])
        return f"{fence}python\n{self.text}\n{fence}\n\n{note}\n"


def show(obj: object, engine: str | Sequence[str] = ()) -> Listing:
    """The source of a function, method, property, class or module, or of a named constant.

    A constant has no source of its own: name it, as in `show("kvsched.vllm.status.BLOCKED")`.
    `engine` names the lines that ours mirrors, as in `vllm/v1/core/sched/scheduler.py:644-660`.
    """
    places = [engine] if isinstance(engine, str) else engine
    title, text = _named(obj) if isinstance(obj, str) else _inspected(obj)
    return Listing(title, textwrap.dedent(text).strip("\n"), tuple(map(source, places)))


def _inspected(obj: object) -> tuple[str, str]:
    if isinstance(obj, property) and obj.fget is not None:
        obj = obj.fget
    if isinstance(obj, functools.cached_property):
        obj = obj.func
    if isinstance(obj, ModuleType):
        return obj.__name__, inspect.getsource(obj)
    module, name = getattr(obj, "__module__", None), getattr(obj, "__qualname__", None)
    if module is None or name is None:
        raise InputError(
            "show()",
            f"a {type(obj).__name__} has no source of its own",
            'name a constant as text: show("package.module.NAME")',
        )
    return f"{module}.{name}", inspect.getsource(obj)  # type: ignore[arg-type]


def _named(dotted: str) -> tuple[str, str]:
    """The assignment that binds a module's constant, with the docstring under it if it has one."""
    module_name, _, name = dotted.rpartition(".")
    try:
        text = inspect.getsource(importlib.import_module(module_name))
    except (ImportError, ValueError):
        raise InputError(
            "show()", f"no module {module_name!r}", "write package.module.NAME"
        ) from None
    body = ast.parse(text).body
    for index, node in enumerate(body):
        if name in _bound(node):
            last = body[index + 1] if _is_docstring(body[index + 1 : index + 2]) else node
            lines = text.splitlines()[node.lineno - 1 : last.end_lineno]
            return dotted, "\n".join(lines)
    raise InputError("show()", f"{module_name} binds no {name!r}", "name a constant at its top")


def _bound(node: ast.stmt) -> set[str]:
    targets: list[ast.expr] = []
    if isinstance(node, ast.AnnAssign):
        targets = [node.target]
    elif isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _is_docstring(nodes: list[ast.stmt]) -> bool:
    return bool(
        nodes
        and isinstance(nodes[0], ast.Expr)
        and isinstance(nodes[0].value, ast.Constant)
        and isinstance(nodes[0].value.value, str)
    )
