"""docs/debug-guards.md is true: its code runs, and prints what the page shows."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from ..test_readme import _without_numbers, blocks
from .pages import files_of, page

PAGE = page("debug-guards.md")


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return files_of(PAGE, tmp_path, monkeypatch)


def test_the_inspection_prints_what_is_shown(inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path("inspecting.py")
    printed = capsys.readouterr().out.replace(f"{inside}/", "").removeprefix("halfway\n" * 3)
    (shown,) = blocks(PAGE, "text")
    assert _without_numbers(printed) == _without_numbers(shown)
    assert printed.partition(";")[0] == shown.partition(";")[0]


def test_the_run_that_is_watched_is_compiled_again_for_the_other_mode(
    inside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runpy.run_path("watching.py")
    reason, advice = capsys.readouterr().out.splitlines()
    assert reason.endswith(".training == True") and advice.startswith("train() or eval()")
