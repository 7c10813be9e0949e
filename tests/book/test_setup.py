"""What a bare clone stands on: the lock, the wheel's dependencies, the table of contents."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = [Requirement(line) for line in (ROOT / "requirements.txt").read_text().splitlines() if line]


def test_every_line_of_the_lock_is_one_exact_version() -> None:
    assert all(re.fullmatch(r"==[^*,]+", str(line.specifier)) for line in LOCK)


def test_the_wheel_brings_only_its_command_line() -> None:
    assert {Requirement(text).name for text in PROJECT["dependencies"]} == {"click", "rich"}


@pytest.mark.parametrize("extra", ["book", "labs", "device", "dev"])
def test_the_lock_satisfies_the_extra(extra: str) -> None:
    for text in PROJECT["optional-dependencies"][extra]:
        wanted = Requirement(text)
        pins = [p for p in LOCK if canonicalize_name(p.name) == canonicalize_name(wanted.name)]
        assert pins, f"{wanted.name} is not in requirements.txt: run make lock"
        for pin in pins:
            assert wanted.specifier.contains(str(pin.specifier).removeprefix("=="))


LITE = [f"src/kvsched/book/lite/lock/{name}.txt" for name in ("browser", "tools")]


@pytest.mark.parametrize("name", ["requirements.txt", "tests/browser/package-lock.json", *LITE])
def test_a_lock_names_no_host(name: str) -> None:
    assert "://" not in (ROOT / name).read_text()


def test_the_table_of_contents_lists_every_page() -> None:
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    listed = {toc["root"]}
    for part in toc["parts"]:
        listed |= {chapter["file"] for chapter in part["chapters"]}
    folders = (ROOT / "book", ROOT / "labs")
    pages = [p for folder in folders for p in folder.iterdir() if p.suffix in (".ipynb", ".md")]
    assert listed == {page.relative_to(ROOT).with_suffix("").as_posix() for page in pages}
