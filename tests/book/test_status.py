"""The status page tells what this build was made with, and does not guess."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest

from kvsched.book import status


def test_rows_of_a_folder_without_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    rows = dict(status.rows(tmp_path))
    assert rows["built"] == "1970-01-01 00:00 UTC"
    assert rows["commit"] == "not under version control"
    assert rows["Python"].endswith(platform.python_version())


def test_uncommitted_changes_are_said(tmp_path: Path) -> None:
    run = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run([*run, "init", "-q"], check=True)
    subprocess.run([*run, "commit", "-q", "--allow-empty", "-m", "start"], check=True)
    assert "uncommitted" not in dict(status.rows(tmp_path))["commit"]
    (tmp_path / "new.txt").touch()
    assert dict(status.rows(tmp_path))["commit"].endswith(", with uncommitted changes")


def test_a_missing_package_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "PACKAGES", ("no-such-package",))
    assert dict(status.rows(tmp_path))["no-such-package"] == "not installed"
    assert "| no-such-package | not installed |" in status.markdown(tmp_path)


def test_a_gpu_is_named_with_its_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'NVIDIA H200, 575.1'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert dict(status.rows(tmp_path))["GPU"] == "NVIDIA H200, driver 575.1"
