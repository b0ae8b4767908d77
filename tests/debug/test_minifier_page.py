"""docs/debug-minifier.md is true: its code runs, and prints what the page shows."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from ..test_readme import ROOT, _without_numbers, blocks

PAGE = ROOT / "docs" / "debug-minifier.md"


@pytest.mark.slow
def test_the_example_prints_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for block in blocks(PAGE, "python"):
        (tmp_path / block.partition("\n")[0].removeprefix("# ")).write_text(block)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "shaky", raising=False)
    runpy.run_path("reducing.py")
    printed = capsys.readouterr().out
    (shown,) = blocks(PAGE, "text")
    assert _without_numbers(printed) == _without_numbers(shown), printed
    assert "wrong value with 1 operation of 40 operations" in printed
