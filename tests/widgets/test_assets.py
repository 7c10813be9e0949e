"""The front end as files, and the part of the package that goes with the book."""

from __future__ import annotations

import posixpath
import re
import zipfile
from pathlib import Path

import pytest

from kvsched.book import runtime
from kvsched.errors import InputError
from kvsched.views import VIEWS
from kvsched.widgets import assets, shipping

SPAN = re.MULTILINE | re.DOTALL


def test_every_part_stands_after_what_it_imports() -> None:
    parts = assets.SHARED + assets.PAGE
    files = {
        path.relative_to(assets.FRONT).with_suffix("").as_posix()
        for path in assets.FRONT.rglob("*.mjs")
    }
    assert files == {*parts, "worker"}
    for at, part in enumerate(parts):
        text = (assets.FRONT / f"{part}.mjs").read_text(encoding="utf-8")
        for name in re.findall(r'^import .* from "(.*)\.mjs";$', text, re.MULTILINE):
            assert posixpath.normpath(f"{posixpath.dirname(part)}/{name}".lstrip("/")) in parts[:at]


def test_every_imported_name_is_exported() -> None:
    offered = dict(
        re.findall(r"^parts\['([^']*)'\] = .*?^return \{ (.*?) \};$", assets.script(), SPAN)
    )
    wanted = re.findall(r"^const \{ (.*) \} = parts\['(.*)'\];$", assets.script(), re.MULTILINE)
    assert wanted
    for names, part in wanted:
        assert set(names.split(", ")) <= set(offered[part].split(", ")), part


def test_the_files_hold_no_import_but_the_workers_own() -> None:
    for text in (assets.module(), assets.script()):
        assert not re.search(r"^\s*import\b", text, re.MULTILINE)
    assert assets.module().endswith("export default { render: parts['frame'].render };\n")
    assert "export" not in re.findall(r"^\w+", assets.script(), re.MULTILINE)


@pytest.mark.parametrize(
    "text", [assets.module(), assets.script(), assets.worker(), assets.kernel_style()]
)
def test_the_front_end_names_no_other_host(text: str) -> None:
    hosts = set(re.findall(r"https?://[\w-]+(?:\.\w+)*(?::\d+)?", text))
    assert hosts <= {"http://localhost:8000"}


def test_views_import_the_standard_library_and_us() -> None:
    found = shipping.modules()
    assert set(VIEWS.values()) < set(found)
    rooms = {name.split(".")[1] for name in found if "." in name}
    assert not rooms & {"widgets", "book", "plots", "cli", "ui", "bench"}


def test_a_foreign_import_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "ROOTS", ("kvsched.plots",))
    with pytest.raises(InputError, match=r"kvsched\.plots: imports"):
        shipping.modules()


def test_equal_sources_make_equal_archives(tmp_path: Path) -> None:
    first, second = tmp_path / "a.zip", tmp_path / "b.zip"
    shipping.archive(first)
    shipping.archive(second)
    assert first.read_bytes() == second.read_bytes()
    names = zipfile.ZipFile(first).namelist()
    assert names == sorted(names)
    assert "kvsched/views/__init__.py" in names


def test_a_missing_runtime_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(runtime, "FILES", tmp_path)
    with pytest.raises(InputError, match=r"pyodide\.mjs is not there; run: make runtime"):
        runtime.found()


def test_without_npm_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(runtime.shutil, "which", lambda *_, **__: None)
    with pytest.raises(InputError, match="npm: not found; install Node 20 or newer"):
        runtime.install()


def test_the_runtime_is_pinned_and_its_lock_names_no_host() -> None:
    lock = (runtime.LOCK / "package-lock.json").read_text()
    assert '"pyodide": "314.0.7"' in (runtime.LOCK / "package.json").read_text()
    assert '"version": "314.0.7"' in lock
    assert "://" not in lock


def test_the_players_style_sheet_names_no_class_of_another_renderer() -> None:
    """All renderers share one page and one scope of classes."""
    styled = set(
        re.findall(r"\.(kv-[\w-]+)", assets.FRONT.joinpath("player/player.css").read_text())
    )
    for part in ("states", "tour"):
        used = set(re.findall(r"\bkv-[\w-]+", assets.FRONT.joinpath(f"{part}.mjs").read_text()))
        assert not styled & used, part
