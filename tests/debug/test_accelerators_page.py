"""docs/accelerators.md is true: its code runs, and prints what the page shows."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from ..test_readme import blocks
from .pages import files_of, page

PAGE = page("accelerators.md")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return files_of(PAGE, tmp_path, monkeypatch)


def test_the_adapter_of_the_page_is_checked_and_its_wrong_kernel_found(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [line for name in ("tiny.py", "compare.py") for line in (folder / name).read_text().splitlines()]
    assert len([line for line in lines if line and not line.startswith("#")]) <= 30
    runpy.run_path("compare.py")
    (shown,) = blocks(PAGE, "text")
    assert capsys.readouterr().out == shown


def test_the_emulated_arithmetic_of_the_page_differs_where_it_should(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runpy.run_path("emulated.py")
    words = [line.rpartition(" ")[2] for line in capsys.readouterr().out.splitlines()]
    assert words == ["differs", "agrees", "differs", "differs", "agrees"]
