"""docs/marble.md is true: its commands and its code run, and its settings and numbers are those of torchport."""

from __future__ import annotations

import runpy
import shlex
import sys
from pathlib import Path

import pytest
import yaml
from safetensors.torch import save_file

from torchport.cli import main
from torchport.cli.marble import app
from torchport.targets.marble.config import Config, read_config
from torchport.targets.marble.groups import Kind
from torchport.targets.marble.tolerances import DEFAULTS

from .test_readme import ROOT, blocks, commands

PAGE = ROOT / "docs" / "marble.md"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with every file of the page in it."""
    for block in blocks(PAGE, "python"):
        (tmp_path / block.partition("\n")[0].removeprefix("# ")).write_text(block)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "net", raising=False)
    return tmp_path


@pytest.mark.slow
def test_every_command_of_the_page_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, _ = runpy.run_path("net.py")["net"]()
    save_file(model.state_dict(), folder / "net.safetensors")
    for command in commands(PAGE):
        code = main(shlex.split(command)[1:])
        assert code == 0, f"{command}: {capsys.readouterr().err}"


def test_the_page_shows_every_command() -> None:
    shown = {shlex.split(command)[2] for command in commands(PAGE)}
    assert shown == {command.callback.__name__ for command in app.registered_commands if command.callback}


@pytest.mark.slow
def test_the_code_of_the_page_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path("change.py")
    assert "weighted sum (0, 3)" in capsys.readouterr().out


def test_the_settings_of_the_page_are_all_there_are(tmp_path: Path) -> None:
    (shown,) = blocks(PAGE, "yaml")
    (tmp_path / "shown.yaml").write_text(shown)
    config = read_config(tmp_path / "shown.yaml")
    assert set(yaml.safe_load(shown)) == {field.alias or name for name, field in Config.model_fields.items()}
    assert (config.tolerance.cpu, config.tolerance.gpu) == (DEFAULTS["cpu"], DEFAULTS["gpu"])


def test_the_page_names_every_kind_and_the_default_tolerances() -> None:
    text = PAGE.read_text()
    for kind in (Kind.WEIGHTED_SUM, Kind.FUNCTION, Kind.PRODUCT, Kind.REDUCTION, Kind.SELECTION):
        assert f"| {kind.value} |" in text
    for device, tolerance in DEFAULTS.items():
        assert f"| {device.upper()} | {tolerance:.0e} |".replace("e-0", "e-") in text
