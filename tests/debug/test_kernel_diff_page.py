"""docs/kernel-diff.md is true: its code runs, and prints what the page shows."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from ..test_readme import ROOT, blocks

PAGE = ROOT / "docs" / "kernel-diff.md"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with every file of the page in it."""
    for block in blocks(PAGE, "python"):
        (tmp_path / block.partition("\n")[0].removeprefix("# ")).write_text(block)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "wrong", raising=False)
    return tmp_path


def test_the_wrong_kernel_is_found_as_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path("compare.py")
    assert capsys.readouterr().out.replace(f"{folder}/", "") == blocks(PAGE, "text")[0]
    assert (folder / "kernels" / "report.json").is_file()
    assert (folder / "kernels" / "visualizations" / "summary.svg").is_file()


def test_tensors_are_compared_as_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path("tensors.py")
    assert capsys.readouterr().out == blocks(PAGE, "text")[1]
