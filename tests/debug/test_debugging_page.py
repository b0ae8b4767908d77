"""docs/debugging.md is true: its code runs, and its names of folders and fields are the real ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from torchport.debug.report import DebugReport
from torchport.debug.tree import FOLDERS

from ..test_readme import ROOT, blocks

PAGE = ROOT / "docs" / "debugging.md"


def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = blocks(PAGE, "python")
    found: dict[str, object] = {}
    exec(compile(code, str(PAGE), "exec"), found)
    page = found["page"]
    assert isinstance(page, Path) and page.is_file()


def test_every_folder_is_named() -> None:
    text = PAGE.read_text()
    assert [folder for folder in FOLDERS if f"`{folder}/`" not in text] == []


def test_every_field_of_the_report_is_named() -> None:
    fields = DebugReport.model_json_schema(by_alias=True, mode="serialization")["properties"]
    named = set(re.findall(r"`(\w+)`", PAGE.read_text()))
    assert set(fields) - named == set()
