"""What a user has made in the folder of a port is not written over, in whatever file and by whatever target."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

import torchport
from torchport import Port, TorchportError
from torchport.capture.recorder import Capture

from .test_first_hour import contents

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3)).eval()


@pytest.fixture(scope="module")
def written(model: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A port to Rust that is not built."""
    folder = tmp_path_factory.mktemp("written") / "net"
    make(model, folder)
    return folder


@pytest.fixture
def port(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "net"))


def make(model: nn.Module, folder: Path, target: str = "candle", *, force: bool = False) -> Port:
    return torchport.port(model, torch.ones(2, 4), out=folder, name="net", target=target, force=force)


def refused(model: nn.Module, folder: Path, target: str, at: str) -> None:
    before = contents(folder)
    with pytest.raises(TorchportError) as caught:
        make(model, folder, target)
    assert caught.value.code == "TP0331" and at in caught.value.message
    assert caught.value.where == str(folder / "rust" / at) and contents(folder) == before


@pytest.mark.parametrize("target", ["candle", "torch"])
@pytest.mark.parametrize(
    "file",
    [
        "src/model.rs",
        "src/main.rs",
        "src/lib.rs",
        "Cargo.toml",
        "config.json",
        "torchport-runtime/src/lib.rs",
    ],
)
def test_no_generated_file_that_was_edited_is_lost(
    model: nn.Module, port: Path, file: str, target: str
) -> None:
    path = port / "rust" / file
    path.write_text(path.read_text() + "\n")
    refused(model, port, target, file)


def test_an_edit_survives_a_port_to_another_target_and_back(model: nn.Module, port: Path) -> None:
    source = port / "rust/src/model.rs"
    source.write_text(source.read_text() + "// mine\n")
    for target in ("torch", "candle"):
        refused(model, port, target, "src/model.rs")
    make(model, port, force=True)
    assert "// mine" not in source.read_text()
    make(model, port)


def test_what_another_target_generated_goes(model: nn.Module, port: Path) -> None:
    make(model, port, "torch")
    assert sorted(path.name for path in port.iterdir()) == ["capture", "graph", "run.json", "written.json"]
    make(model, port)
    assert not (port / "graph").exists() and (port / "rust/src/model.rs").is_file()


def test_what_another_target_generated_comes_back_if_its_successor_fails(
    model: nn.Module, port: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError("no")

    before = contents(port)
    monkeypatch.setattr(Capture, "save", fails)
    with pytest.raises(OSError, match="no"):
        make(model, port, "torch")
    assert contents(port) == before


def test_a_program_of_the_users_own_stays_in_the_project(model: nn.Module, port: Path) -> None:
    mine = port / "rust/src/bin/mine.rs"
    mine.parent.mkdir()
    mine.write_text("fn main() {}\n")
    make(model, port)
    assert mine.is_file(), "it is not in the way of another port to the same target"
    refused(model, port, "torch", "src/bin/mine.rs")
    make(model, port, "torch", force=True)
    assert mine.is_file() and not (port / "rust/src/model.rs").exists()


def test_a_folder_that_is_nobodys_port_is_not_written_into(model: nn.Module, tmp_path: Path) -> None:
    theirs = tmp_path / "net/rust/Cargo.toml"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("[package]\n")
    refused(model, tmp_path / "net", "candle", "Cargo.toml")


def test_an_edit_of_a_port_of_an_earlier_version_is_seen(model: nn.Module, port: Path) -> None:
    (port / "written.json").unlink()
    source = port / "rust/src/model.rs"
    source.write_text(source.read_text() + "// mine\n")
    refused(model, port, "torch", "src/model.rs")
