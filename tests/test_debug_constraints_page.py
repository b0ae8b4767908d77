"""docs/debug-constraints.md is true: its programs run, and print what the page shows."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
import torch

from torchport.codes import CODES
from torchport.debug import constraints
from torchport.debug.backends.mock import MockOptions

from .test_readme import ROOT, blocks

PAGE = ROOT / "docs" / "debug-constraints.md"
PROGRAMS = {block.partition("\n")[0].removeprefix("# "): block for block in blocks(PAGE, "python")}
SHOWN = dict(zip(PROGRAMS, blocks(PAGE, "text"), strict=True))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_what_is_shown(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch._dynamo.reset()
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(PROGRAMS[name])
    runpy.run_path(str(tmp_path / name))
    assert capsys.readouterr().out.replace(f"{tmp_path}/", "") == SHOWN[name]


def test_the_page_names_every_constraint_option_and_code_as_it_is() -> None:
    text = PAGE.read_text()
    rows = set(re.findall(r"^\| `(\w+)", text, re.MULTILINE))
    kinds = {name for name in constraints.__all__ if name.endswith("Constraint") and name != "Constraint"}
    assert kinds <= rows and set(MockOptions.__dataclass_fields__) <= rows
    assert set(re.findall(r"TP\d{4}", text)) <= set(CODES)
