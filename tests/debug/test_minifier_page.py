"""docs/debug-minifier.md is true: its code runs, and prints what the page shows."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from ..test_readme import _without_numbers, blocks
from .pages import files_of, page

PAGE = page("debug-minifier.md")


@pytest.mark.slow
def test_the_example_prints_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files_of(PAGE, tmp_path, monkeypatch)
    runpy.run_path("reducing.py")
    printed = capsys.readouterr().out
    (shown,) = blocks(PAGE, "text")
    assert _without_numbers(printed) == _without_numbers(shown), printed
    assert "wrong value with 1 operation of 40 operations" in printed
