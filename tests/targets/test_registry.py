"""Targets are found by name and by entry point, so that a target in another package appears in the command line."""

import subprocess
import sys
from pathlib import Path

import pytest

from torchport.errors import ConvertError, UsageError
from torchport.porting.cache import cache_contents, clear_cache
from torchport.targets.registry import find_target, options_for, target_names

PACKAGE = """
from torchport.targets.base import Diagnosis
from torchport.targets.torch.target import TorchTarget


class Elsewhere(TorchTarget):
    name = "elsewhere"
    requirements = (lambda: Diagnosis("a chip", "missing", "not found", "Plug it in."),)


TARGET = Elsewhere()


class Box:
    target = TARGET
"""
MODEL = """
import torch


def net():
    torch.manual_seed(0)
    return torch.nn.Linear(3, 2), (torch.ones(4, 3),)
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Another package, installed: some of its targets are whole, others cannot be loaded or lack what targets have."""
    (tmp_path / "elsewhere.py").write_text(PACKAGE)
    (tmp_path / "raises.py").write_text("TARGET = undefined_name\n")
    (tmp_path / "net.py").write_text(MODEL)
    info = tmp_path / "elsewhere-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[torchport.targets]\nelsewhere = elsewhere:TARGET\nbroken = no_such_module:TARGET\n"
        "raises = raises:TARGET\nempty = elsewhere:Box\nboxed = elsewhere:Box.target\n"
        "candle = elsewhere:TARGET\n"
    )
    return tmp_path


def torchport(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    import os

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "torchport", *arguments]
    return subprocess.run(command, cwd=site, env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_a_target_of_another_package_ports_is_listed_and_opens_again(site: Path) -> None:
    made = torchport(site, "port", "net.py:net", "--to", "elsewhere", "--out", "run")
    assert made.returncode == 0 and "net to elsewhere: the 1 layer agrees" in made.stdout, made.stderr
    assert torchport(site, "check", "run").returncode == 0
    looked = torchport(site, "doctor")
    assert (
        "boxed, broken, candle, elsewhere, empty, marble, raises, torch" in looked.stdout
        and looked.returncode == 1
    )
    assert "Plug it in." in looked.stdout and "no_such_module" in looked.stdout
    assert "NameError" in looked.stdout and "it has no name" in looked.stdout


@pytest.mark.slow
def test_what_cannot_be_loaded_and_what_is_not_there_are_refused(site: Path) -> None:
    broken = torchport(site, "port", "net.py:net", "--to", "broken")
    assert broken.returncode == 2 and "TP0402" in broken.stderr and "no_such_module" in broken.stderr
    absent = torchport(site, "port", "net.py:net", "--to", "brick")
    assert (
        absent.returncode == 2
        and "boxed, broken, candle, elsewhere, empty, marble, raises, torch" in absent.stderr
    )


def test_an_entry_point_may_name_an_attribute_of_an_attribute(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(site)
    assert find_target("boxed").name == "elsewhere"


@pytest.mark.parametrize(("name", "why"), [("raises", "NameError"), ("empty", "it has no name, project")])
def test_what_raises_or_is_no_target_is_refused_with_the_reason(
    site: Path, monkeypatch: pytest.MonkeyPatch, name: str, why: str
) -> None:
    monkeypatch.syspath_prepend(site)
    with pytest.raises(ConvertError, match=f"TP0402.*{why}"):
        find_target(name)


def test_the_cache_is_shown_beside_a_target_that_cannot_be_loaded(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("XDG_CACHE_HOME", str(site / "cache"))
    assert cache_contents(30).bytes == 0
    assert clear_cache(everything=True, days=30, say=print) == 0


def test_nobody_takes_the_name_of_a_target_of_this_package() -> None:
    assert find_target("candle").name == "candle" and {"candle", "torch"} <= set(target_names())
    with pytest.raises(ConvertError, match="TP0402.*'brick'"):
        find_target("brick")


def test_an_option_is_checked_by_the_target_that_has_it() -> None:
    with pytest.raises(UsageError, match="TP0801: the target torch has no option checks"):
        options_for(find_target("torch"), {"checks": "ops"})
    with pytest.raises(UsageError, match="checks is 'all'") as caught:
        options_for(find_target("candle"), {"checks": "all"})
    assert caught.value.fix == "it is one of 'none', 'layers' or 'ops'"
    with pytest.raises(UsageError, match="hints is 3") as caught:
        options_for(find_target("candle"), {"hints": 3})
    assert caught.value.fix == "it must be a valid dictionary"
