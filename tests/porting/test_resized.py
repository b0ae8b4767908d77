"""A port is the model at all of its sizes: its config is edited, and the same Rust is proven at every layer."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tests.porting.resized_models import CASES, INPUTS, Case, other
from torchport.porting.commands import port as make_port
from torchport.porting.port import Port

pytestmark = pytest.mark.builds
SHORT = ["bert_eager", "decoder"]


def edited(case: Case, out: Path) -> dict[str, str]:
    """The verdict on each edit, and on all together."""
    torch.manual_seed(0)
    model, (args, kwargs) = case.make()
    port = make_port(model, args, kwargs, out=out, name="port")
    source = port.artifact.folder / "src" / "model.rs"
    written = source.read_text()
    assert port.check().passed
    verdicts = {}
    for change in case.edits:
        port.model = other(model, change)
        kind = type(model).__name__.removesuffix("Model")
        given, named = INPUTS[kind](port.model.config) if kind in INPUTS else (args, kwargs)
        report = port.check(given, named, explain=False)
        assert report.compared >= len(report.layers) > 0
        verdicts[", ".join(f"{name}={value}" for name, value in change.items())] = report.status
    assert source.read_text() == written
    return verdicts


def assert_holds(name: str, out: Path) -> None:
    verdicts = edited(CASES[name], out)
    assert set(verdicts.values()) == {"pass"}, verdicts


@pytest.mark.parametrize("name", SHORT)
def test_the_same_rust_is_proven_with_an_edited_config(name: str, tmp_path: Path) -> None:
    assert_holds(name, tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n_positions": 64}, "unknown field `n_positions`"),
        ({"heads": 0}, "`heads` is 0"),
        ({"heads": -1}, "invalid value: integer `-1`"),
    ],
)
def test_a_config_that_no_model_can_be_made_of_is_refused_with_its_field(
    change: dict[str, int], said: str, decoder: Port, tmp_path: Path
) -> None:
    folder = decoder.artifact.folder
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**json.loads((folder / "config.json").read_text()), **change}))
    save_file({"ids": torch.zeros(2, 9, dtype=torch.int64)}, tmp_path / "in.safetensors")
    program = decoder.artifact.program
    files = ["--config", config, "--weights", folder / "model.safetensors"]
    done = subprocess.run(
        [program, *files, tmp_path / "in.safetensors", tmp_path / "out.safetensors"],
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0 and said in done.stderr and "panicked" not in done.stderr


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Port:
    model, (args, kwargs) = CASES["decoder"].make()
    port = make_port(model, args, kwargs, out=tmp_path_factory.mktemp("decoder"), name="port")
    assert port.check().passed
    return port


@pytest.mark.zoo
@pytest.mark.parametrize("name", sorted(set(CASES) - set(SHORT)))
def test_the_same_rust_of_the_zoo_is_proven_with_an_edited_config(name: str, tmp_path: Path) -> None:
    assert_holds(name, tmp_path)
