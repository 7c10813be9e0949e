"""JupyterLite: its locks, the copies of the notebooks, and what its kernel is told to load."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import nbformat
import pytest

from kvsched.book import notebooks as stored
from kvsched.book import runtime
from kvsched.book.lite import build, fetch, notebooks, python
from kvsched.errors import InputError
from kvsched.views import VIEWS

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"^([\w-]+)==(\S+) \\\n    --hash=sha256:[0-9a-f]{64}$", re.MULTILINE)
NOTEBOOKS = stored.find([ROOT / "book", ROOT / "labs"])


def pins(name: str) -> dict[str, str]:
    text = re.sub(r"^#.*\n", "", (fetch.LOCK / f"{name}.txt").read_text(), flags=re.MULTILINE)
    found = dict(PIN.findall(text))
    assert PIN.sub("", text).strip() == "", "each line is one version with its digest"
    return found


def code(*sources: str) -> Any:
    v4 = nbformat.v4
    return v4.new_notebook(cells=[v4.new_code_cell(source) for source in sources])


def test_the_browser_has_the_versions_of_the_environment() -> None:
    lock = (ROOT / "requirements.txt").read_text().splitlines()
    other = {f"{n}=={v}" for n, v in pins("browser").items()} - set(lock)
    assert {line.partition("==")[0] for line in other} == {"jedi", "micropip"}
    assert not {f"{n}=={v}" for n, v in pins("tools").items()} & set(lock), "stays out of .venv"


def test_what_needs_an_absent_library_is_commented_out_and_what_needs_that() -> None:
    lost: set[str] = set()
    first = "import matplotlib.pyplot as plt\nx = 1\n\n\ndef draw():\n    plt.plot(x)\n"
    assert notebooks.offline(first, lost).splitlines() == [
        f"{notebooks.OFF}import matplotlib.pyplot as plt",
        "x = 1",
        "",
        "",
        f"{notebooks.OFF}def draw():",
        f"{notebooks.OFF}    plt.plot(x)",
    ]
    assert notebooks.offline("draw()\nprint(x)", lost) == f"{notebooks.OFF}draw()\nprint(x)"
    inside = "def other():\n    y = plt\n\n\ny = 2\nprint(y)"
    assert notebooks.offline(inside, lost).endswith("\ny = 2\nprint(y)")
    assert notebooks.offline("draw = print\ndraw(x)", lost) == "draw = print\ndraw(x)"


@pytest.mark.parametrize(
    ("source", "stays"),
    [
        ("import numpy", False),
        ("from kvsched.plots.storm import draw", False),
        ("from kvsched import plots", False),
        ("from kvsched.views import find", True),
        ("import numpydoc", True),
        ("%time 1", True),
    ],
)
def test_what_is_absent_is_known_by_its_name(source: str, stays: bool) -> None:
    assert (notebooks.offline(source, set()) == source) is stays


def test_a_copy_says_what_it_is_and_loads_data_only_if_it_reads_any() -> None:
    ids = [cell.id for cell in notebooks.prepared(code("1"))["cells"]]
    assert ids[0] == "lite-note"
    assert "lite-data" not in ids
    original = code('open("../labs/data/logs/README.md")')
    copied = notebooks.prepared(original)
    assert [cell.id for cell in copied.cells][:2] == ["lite-note", "lite-data"]
    assert len(original.cells) == 1


def test_what_stays_in_the_copies_can_be_imported_without_the_absent_libraries() -> None:
    sources = {
        line
        for path in NOTEBOOKS
        for cell in notebooks.prepared(stored.read(path)).cells
        if cell.cell_type == "code"
        for line in re.findall(r"^(?:from \S+ import [^(\n]+|import .+)$", cell.source, re.M)
        if "pyodide" not in line
    }
    block = f"import sys\nsys.modules.update(dict.fromkeys({notebooks.ABSENT!r}))\n"
    program = block + "\n".join(sorted(sources))
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_gallery_has_every_view() -> None:
    sources = [cell.source for cell in notebooks.gallery().cells]
    assert [s for s in sources if s.startswith("widget(")] == [f'widget("{v}")' for v in VIEWS]


def test_sources_are_written_as_one_text(tmp_path: Path) -> None:
    folder, out = tmp_path / "labs", tmp_path / "out"
    folder.mkdir()
    out.mkdir()
    stored.write(code("a = 1\nb = 2"), folder / "try.ipynb")
    notebooks.write([folder], out)
    written = json.loads((out / "labs" / "try.ipynb").read_text())
    assert written["cells"][-1]["source"] == "a = 1\nb = 2"


def test_the_lock_lists_each_file_with_its_digest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    info = {"python": "3.14.2"}
    (tmp_path / python.LOCK).write_text(json.dumps({"info": info, "packages": {"numpy": {}}}))
    monkeypatch.setattr(runtime, "found", lambda: tmp_path)
    wheel, data = tmp_path / "a_b-1.2-py3-none-any.whl", tmp_path / "recordings.zip"
    wheel.write_bytes(b"wheel")
    data.write_bytes(b"data")
    lock = python.locked([wheel], data)
    assert lock["info"] == info
    assert set(lock["packages"]) == {"a-b", python.DATA}
    entry = lock["packages"]["a-b"]
    assert (entry["version"], entry["file_name"]) == ("1.2", wheel.name)
    assert entry["sha256"] == hashlib.sha256(b"wheel").hexdigest()


def test_data_lies_where_the_notebooks_paths_lead(tmp_path: Path) -> None:
    for folder in python.DATA_FOLDERS:
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "x.json.gz").write_bytes(b"x")
    python.archive(tmp_path, tmp_path / "a.zip")
    python.archive(tmp_path, tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    names = zipfile.ZipFile(tmp_path / "a.zip").namelist()
    working = python.WORKING.rpartition("site-packages/")[2]
    assert f"{Path(working).parent}/tests/golden/x.json.gz" in names
    assert f"{working}/" in names


def test_the_settings_name_no_other_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python, "names", lambda: ["kvsched"])
    text = json.dumps(build.site())
    assert "://" not in text
    assert '"disablePyPIFallback": true' in text


def test_missing_parts_say_what_to_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no built book; run: make book"):
        build.build(ROOT, tmp_path)
    (tmp_path / "index.html").touch()
    monkeypatch.setattr(fetch, "WHEELS", tmp_path / "none")
    with pytest.raises(InputError, match=r"JupyterLite: not in lite/ .* run: make lite"):
        build.build(ROOT, tmp_path)


def test_what_pip_cannot_fetch_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fetch, "HOME", tmp_path / "lite")
    monkeypatch.setattr(fetch, "PIP", (sys.executable, "-c", "raise SystemExit(1)"))
    with pytest.raises(InputError, match="pip install: failed; see pip's message above"):
        fetch.fetch()
