"""The execution cache is kept exactly as long as nothing the notebooks read has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvsched.book import cache


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/constants.py").write_text("BLOCK = 16\n")
    (tmp_path / "tests/golden").mkdir(parents=True)
    (tmp_path / "labs/data").mkdir(parents=True)
    (tmp_path / "requirements.txt").write_text("click==8.5.1\n")
    (tmp_path / cache.CACHE).mkdir(parents=True)
    (tmp_path / cache.CACHE / "global.db").touch()
    cache.refresh(tmp_path)
    (tmp_path / cache.CACHE).mkdir()
    return tmp_path


def test_the_first_run_empties_a_cache_of_unknown_origin(tmp_path: Path) -> None:
    (tmp_path / cache.CACHE).mkdir(parents=True)
    (tmp_path / "requirements.txt").touch()
    assert not cache.refresh(tmp_path)
    assert not (tmp_path / cache.CACHE).exists()


def test_no_change_keeps_it(tree: Path) -> None:
    assert cache.refresh(tree)
    assert (tree / cache.CACHE).exists()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("src/constants.py", "BLOCK = 32\n"),
        ("src/new.py", ""),
        ("tests/golden/case.json", "{}"),
        ("labs/data/server.log", "INFO"),
        ("requirements.txt", "click==8.5.2\n"),
    ],
)
def test_a_changed_input_empties_it(tree: Path, name: str, text: str) -> None:
    (tree / name).write_text(text)
    assert not cache.refresh(tree)
    assert not (tree / cache.CACHE).exists()


def test_a_renamed_input_empties_it(tree: Path) -> None:
    (tree / "src/constants.py").rename(tree / "src/numbers.py")
    assert not cache.refresh(tree)
