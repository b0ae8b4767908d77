"""docs/testing.md is true: its code runs, and prints what the page shows."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from .test_readme import ROOT, _without_numbers, blocks

PAGE = ROOT / "docs" / "testing.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with every file of the page in it."""
    place = tmp_path_factory.mktemp("page")
    for block in blocks(PAGE, "python"):
        name = block.partition("\n")[0].removeprefix("# ")
        (place / name).write_text(block)
    return place


@pytest.fixture
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(folder)
    monkeypatch.delitem(sys.modules, "layers", raising=False)
    return folder


def test_the_page_has_the_files_that_are_run(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {
        "layers.py",
        "compare.py",
        "gradients.py",
        "test_norm.py",
    }


def test_the_comparison_prints_what_is_shown(inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path("compare.py")
    table, _, message = capsys.readouterr().out.partition("TP0701")
    assert table.count("True") == 4 and "False" not in table
    (shown,) = blocks(PAGE, "text")
    real = f"TP0701{message}".replace(f"{inside}/", "")
    assert _without_numbers(real) == _without_numbers(shown)


def test_the_gradients_are_named_as_described(inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path("gradients.py")
    printed = capsys.readouterr().out
    assert "up.weight gradient of Linear.weight" in printed and "up gradient of Linear.input" in printed


@pytest.mark.slow
def test_the_test_of_the_page_fails_where_it_should_and_keeps_its_report(folder: Path) -> None:
    (command,) = blocks(PAGE, "sh")
    options = command.split()[1:]
    program = [sys.executable, "-m", "pytest", "-p", "torchport.pytest_plugin", *options, "test_norm.py"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    (kept,) = (folder / "reports").iterdir()
    assert (kept / "report.json").is_file() and str(kept) in done.stdout
