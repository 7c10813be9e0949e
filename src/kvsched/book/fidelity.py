"""The fidelity table: every engine rule that a test shows, read from the tests' own markers.

`@pytest.mark.rule(engine, version, flag, default, source, ours)` marks a test. The sentence of
the row is the test's docstring, or its name. As a pytest plugin this module writes the rows of a
collected suite to a file; `collect()` runs that and reads them back. No test is executed.
"""

from __future__ import annotations

import json
import os
import pydoc
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kvsched.errors import InputError
from kvsched.sources import ENGINES, source

OPTION = "--rules-to"


@dataclass(frozen=True, slots=True)
class Rule:
    """One row: what the engine does, under which flag, where, and who shows it here."""

    engine: str
    version: str
    flag: str
    default: str
    source: tuple[str, ...]
    ours: str
    sentence: str
    test: str

    @classmethod
    def of(cls, marker: Any, sentence: str, test: str) -> Rule:
        """The row of one `rule` marker; raises InputError naming the test for a bad argument."""
        try:
            given = _arguments(*marker.args, **marker.kwargs)
        except TypeError as error:
            raise InputError(
                test, f"marker rule: {error}", "give engine, version, flag, default, source, ours"
            ) from None
        rule = cls(**given, sentence=sentence, test=test)
        try:
            rule._check()
        except InputError as error:
            raise error.inside(f"{test}: marker rule") from None
        return rule

    def _check(self) -> None:
        pinned = {engine.name: engine.version for engine in ENGINES}
        if pinned.get(self.engine) != self.version:
            known = " or ".join(f"{name} {version}" for name, version in pinned.items())
            raise InputError("version", f"{self.engine} {self.version} is not pinned", known)
        for place in map(source, self.source):
            if place.engine.name != self.engine:
                raise InputError("source", f"{place.place} is not {self.engine}'s", "name its own")
        if self.ours and pydoc.locate(self.ours) is None:
            raise InputError("ours", f"nothing is called {self.ours}", "name a class or method")


def _arguments(
    engine: str,
    version: str,
    flag: str,
    default: object,
    source: str | Sequence[str],
    ours: str = "",
) -> dict[str, Any]:
    places = (source,) if isinstance(source, str) else tuple(source)
    return {
        "engine": engine,
        "version": version,
        "flag": flag,
        "default": "" if default is None else str(default),
        "source": places,
        "ours": ours,
    }


def collect(root: Path) -> list[Rule]:
    """The rows of all tests under `root/tests`, one a test function, in the suite's order."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "rules.json"
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", __name__]
        done = subprocess.run(
            [*command, f"{OPTION}={target}", "tests"],
            cwd=root,
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # collecting needs none
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0 or not target.is_file():
            raise InputError("tests", f"not collected:\n{done.stdout}{done.stderr}", "run pytest")
        rows = json.loads(target.read_text(encoding="utf-8"))
    return [Rule(**{**row, "source": tuple(row["source"])}) for row in rows]


def markdown(rules: Sequence[Rule]) -> str:
    """The rows as one Markdown table; the test stands under the sentence that it shows."""
    if not rules:
        return "No test carries the marker yet.\n"
    head = "| the engine's rule, and our test of it | flag, default | the engine's lines | ours |\n"
    return head + "|---|---|---|---|\n" + "".join(_row(rule) for rule in rules)


def _row(rule: Rule) -> str:
    sentence = rule.sentence.replace("|", "\\|")
    test = f"`{rule.test.removeprefix('tests/')}`"
    flag = f"`{rule.flag}`" if rule.flag else "always"
    default = f"<br>`{rule.default}`" if rule.default else ""
    lines = "<br>".join(
        f"[{s.place.rpartition('/')[2]}]({s.url})" for s in map(source, rule.source)
    )
    ours = f"`{rule.ours.removeprefix('kvsched.')}`" if rule.ours else ""
    return f"| {sentence}<br>{test} | {flag}{default} | {lines} | {ours} |\n"


# --- the pytest plugin ----------------------------------------------------------------------------


def pytest_addoption(parser: Any) -> None:
    """Add the option that says where the rows go."""
    parser.addoption(OPTION, help="write the rows of the fidelity table to this file")


def pytest_collection_finish(session: Any) -> None:
    """Write one row a test function; its parametrised cases share it."""
    rows = {(rule.test, rule.source): asdict(rule) for rule in _rules(session.items)}
    target = Path(session.config.getoption(OPTION))
    target.write_text(json.dumps(list(rows.values())), encoding="utf-8")


def _rules(items: Sequence[Any]) -> Iterator[Rule]:
    for item in items:
        for marker in item.iter_markers("rule"):
            test, _, _ = item.nodeid.partition("[")
            doc = (item.function.__doc__ or "").strip().partition("\n\n")[0]
            words = item.function.__name__.removeprefix("test_").replace("_", " ")
            yield Rule.of(marker, " ".join(doc.split()) or words.capitalize() + ".", test)
