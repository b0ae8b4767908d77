"""A page of the documentation: its files in a folder of their own, from which its code is run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ..test_readme import ROOT, blocks


def page(name: str) -> Path:
    return ROOT / "docs" / name


def files_of(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Writes every file of a page, each a block that begins with its name, to a folder that Python is then in."""
    for block in blocks(page, "python"):
        name = block.partition("\n")[0].removeprefix("# ")
        (folder / name).write_text(block)
        monkeypatch.delitem(sys.modules, Path(name).stem, raising=False)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(folder)
    return folder
