"""docs/kernel-diff.md is true: its code runs, and prints what the page shows."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from ..test_readme import blocks
from .pages import files_of, page

PAGE = page("kernel-diff.md")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return files_of(PAGE, tmp_path, monkeypatch)


def test_the_wrong_kernel_is_found_as_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path("compare.py")
    assert capsys.readouterr().out.replace(f"{folder}/", "") == blocks(PAGE, "text")[0]
    assert (folder / "kernels" / "report.json").is_file()
    assert (folder / "kernels" / "visualizations" / "summary.svg").is_file()


def test_tensors_are_compared_as_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path("tensors.py")
    assert capsys.readouterr().out == blocks(PAGE, "text")[1]
