"""What a chapter shows: with a device its measurement, without one the stored profile."""

from __future__ import annotations

import ctypes
import io
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import nbformat
import pytest

from kvsched import cli, profiles
from kvsched.device import backend, measured_or_stored
from kvsched.device.fake import Fake
from kvsched.views import find, measured

BOOK = Path(__file__).parents[2] / "book"


@pytest.fixture
def with_gpu(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """A machine whose CUDA device is the fake."""
    monkeypatch.setattr(backend, "has_cuda", lambda: True)
    monkeypatch.setattr(backend, "find", lambda kind: fake)
    return fake


def test_without_a_device_the_stored_profile_is_loaded_and_called_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backend, "has_cuda", lambda: False)
    profile = measured_or_stored("h100-sxm")
    assert profile.name == "h100-sxm"
    assert profile.origin == "NVIDIA H100 80GB HBM3 (SXM5): published, not measured here"


def test_with_a_device_the_measurement_reaches_the_figure(with_gpu: Fake) -> None:
    profile = measured_or_stored("h100-sxm", seconds=30)
    assert with_gpu.calls.count("forward") > 0
    view, data = find("measured"), measured.of(profile)
    assert data["title"].startswith("a fake device: measured 20")
    assert "no GPU" not in data["title"]
    assert data["how"] in view.draw(data, {"pick": 0})
    assert data["multiply"] == pytest.approx(500, rel=1e-3)


def test_the_chapters_own_cells_measure_where_there_is_a_device(
    with_gpu: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cells as they stand in the chapter, up to the figure, whose title they set."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setattr(pyplot, "show", lambda: None)
    monkeypatch.chdir(BOOK)
    notebook: Any = nbformat.read(BOOK / "07_measure.ipynb", as_version=4)
    cells = {cell.id: cell.source for cell in notebook.cells if cell.cell_type == "code"}
    names: dict[str, Any] = {}
    for cell in ("measure-here", "figure"):
        exec(compile(cells[cell], cell, "exec"), names)
    assert names["here"].kind == "measured"
    assert pyplot.gcf().get_suptitle().startswith("a fake device: measured 20")


def test_the_command_measures_writes_and_tells(
    with_gpu: Fake,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("kvsched.device.find", lambda kind: with_gpu)
    out = tmp_path / "mine.json"
    assert cli.main(["calibrate", "--device", "cuda", "--quick", "--out", str(out)]) == 0
    told = capsys.readouterr()
    assert "graph both 2 MiB" in told.out
    assert f"a fake device: measured {profiles.load(out).provenance.date}" in told.out  # type: ignore[union-attr]
    assert "a fake device, torch 2.13.0, driver 1.0" in told.err


def test_ctrl_c_says_where_the_measurements_are(
    with_gpu: Fake,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("kvsched.device.find", lambda kind: with_gpu)

    def stop(timed: int) -> None:
        raise KeyboardInterrupt

    with_gpu.on_sample = stop
    out = tmp_path / "mine.json"
    assert cli.main(["calibrate", "--device", "cuda", "--quick", "--out", str(out)]) == 130
    assert "mine.json.partial has what was measured so far" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("option", ["--time", "--memory"])
@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "1e999", "soon"])
def test_a_budget_that_is_none_is_refused(
    option: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine.json"
    assert cli.main(["calibrate", option, value, "--out", str(out)]) == 2
    assert f"invalid value for '{option}'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_help_and_profiles_need_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli.main(["calibrate", "--help"]) == 0
    for name in [name for name in sys.modules if name.startswith("kvsched.device.c")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "kvsched.device.kernels", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    error = io.StringIO()
    monkeypatch.setattr(sys, "stderr", error)
    assert cli.main(["calibrate", "--device", "cpu"]) == 2
    assert "torch is not installed; pip install torch" in error.getvalue()


@pytest.mark.parametrize(
    ("library", "version", "there"),
    [
        (True, "2.13.0", True),
        (True, "2.13.0+cu130", True),
        (True, "2.13.0+cpu", False),
        (True, None, False),
        (False, "2.13.0", False),
    ],
)
def test_a_device_is_looked_for_without_importing_torch(
    library: bool, version: str | None, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(name: str) -> None:
        if not library:
            raise OSError(name)

    def told(name: str) -> str:
        if version is None:
            raise PackageNotFoundError(name)
        return version

    monkeypatch.setattr(ctypes, "CDLL", load)
    monkeypatch.setattr("importlib.metadata.version", told)
    assert backend.has_cuda() is there
