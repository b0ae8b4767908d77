"""docs/debug-inductor.md is true: its code runs, prints what is shown, and leaves the folders that are listed."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from torchport.debug.backends.inductor import OPTIONS
from torchport.debug.drawing import MOST_BOXES

from ..test_readme import ROOT, blocks

PAGE = ROOT / "docs" / "debug-inductor.md"


@pytest.mark.slow
def test_the_code_of_the_page_prints_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = blocks(PAGE, "python")
    (tmp_path / "train.py").write_text(code)
    runpy.run_path("train.py")
    (shown,) = blocks(PAGE, "text")
    assert capsys.readouterr().out.strip() == shown.strip()
    listed = re.findall(r"^\| `(\w+)/", PAGE.read_text(), re.MULTILINE)
    there = {path.name for path in (tmp_path / "out").iterdir() if path.is_dir()}
    assert there == set(listed) - {"reports"}


def test_the_page_lists_every_option() -> None:
    text = PAGE.read_text()
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == set(OPTIONS)
    assert f"more than {MOST_BOXES} boxes" in text
