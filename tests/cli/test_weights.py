"""`torchport weights`: what it prints, how it exits, and that its page in the documentation is true."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

from torchport.weights.rules import KINDS, read_rules

from .conftest import Answer

Torchport = Callable[..., Answer]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "weights.md"


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from torchport.capture.recorder import record

    folder = tmp_path_factory.mktemp("recorded") / "recordings"
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2))
    return record(model, torch.zeros(2, 4), name="tiny", variants=False, truth=False).save(folder)["manifest"]


STATE = {
    "0.weight": torch.arange(24.0).reshape(6, 4),
    "0.bias": torch.ones(6),
    "2.weight": torch.arange(12.0).reshape(2, 6),
    "2.bias": torch.ones(2),
}


@pytest.fixture
def folder(tmp_path: Path, manifest: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recordings").symlink_to(manifest.parent)
    torch.save({"state_dict": STATE, "epoch": 1}, "checkpoint.pt")
    other = {name.replace("weight", "kernel.weight"): one for name, one in STATE.items()}
    torch.save(other | {"unused": torch.ones(1)}, "other.pt")
    return tmp_path


def test_every_command_of_the_page_does_what_it_says(torchport: Torchport, folder: Path) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    commands = [shlex.split(line) for block in blocks for line in block.splitlines()]
    assert len(commands) == 5
    for command in commands:
        answer = torchport(*command[1:])
        assert answer.code == 0, answer
    found = load_file("model.safetensors")
    assert found.keys() == STATE.keys() and all(torch.equal(found[name], STATE[name]) for name in STATE)


def test_the_rules_of_the_page_are_rules_of_every_kind(tmp_path: Path) -> None:
    block = re.search(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert block is not None
    (tmp_path / "rules.yaml").write_text(block[1])
    assert {type(rule) for rule in read_rules(tmp_path / "rules.yaml").rules} == set(KINDS.values())


def test_a_dry_run_shows_what_is_missing_and_exits_with_1(torchport: Torchport, folder: Path) -> None:
    command = ("weights", "extract", "other.pt", "--manifest", "recordings/tiny_manifest.json", "--dry-run")
    answer = torchport(*command)
    assert answer.code == 1 and not (folder / "model.safetensors").exists()
    assert "matched: 2\n" in answer.stdout and "missing: 2\n  0.weight\n  2.weight\n" in answer.stdout
    assert "left over: 3\n" in answer.stdout
    assert "0.weight is 0.kernel.weight, which has the same shape" in answer.stdout
    as_json = json.loads(torchport(*command, "--json").stdout)
    assert as_json["schema"] == 1 and as_json["missing"] == ["0.weight", "2.weight"]
    assert as_json["status"] == "incomplete"


def test_what_is_missing_is_an_error_of_an_extraction(torchport: Torchport, folder: Path) -> None:
    manifest = ("--manifest", "recordings/tiny_manifest.json", "--out", "model.safetensors")
    answer = torchport("weights", "extract", "other.pt", *manifest)
    assert answer.code == 2 and "TP0320" in answer.stderr and "0.kernel.weight" in answer.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["checkpoint.pt", "other.pt", "recordings"]


def test_rules_are_printed_if_no_file_is_given(torchport: Torchport, folder: Path) -> None:
    answer = torchport("weights", "map", "other.pt", "--manifest", "recordings/tiny_manifest.json")
    assert answer.code == 0 and "# nothing asks for unused, float32 [1]" in answer.stdout
    rules = yaml.safe_load(answer.stdout)["rules"]
    assert rules == [{"rename": r"(\d+)\.kernel\.weight", "to": r"\1.weight"}]


def test_inspect_shows_what_is_there(torchport: Torchport, folder: Path) -> None:
    answer = torchport("weights", "inspect", "checkpoint.pt")
    assert answer.code == 0 and "4 tensors, 0.000 GB, in 1 file(s)" in answer.stdout
    assert (
        "state_dict.0.weight  float32 [6, 4]" in answer.stdout and "no tensors: 1\n  epoch" in answer.stdout
    )
    as_json = json.loads(torchport("weights", "inspect", "checkpoint.pt", "--json").stdout)
    assert as_json["count"] == 4


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (("extract", "checkpoint.pt", "--manifest", "recordings/tiny_manifest.json"), "TP0801"),
        (("extract", "gone.pt", "--manifest", "recordings/tiny_manifest.json", "--dry-run"), "TP0322"),
        (("extract", "checkpoint.pt", "--manifest", "gone.json", "--dry-run"), "TP0301"),
        (("map", "checkpoint.pt"), "TP0801"),
        (("inspect",), "TP0801"),
        (("inspect", "."), "TP0801"),
    ],
)
def test_wrong_use_exits_with_2(
    torchport: Torchport, folder: Path, given: tuple[str, ...], code: str
) -> None:
    answer = torchport("weights", *given)
    assert answer.code == 2 and code in answer.stderr and "Traceback" not in answer.stderr


def test_an_unknown_target_is_refused_before_anything_is_read(torchport: Torchport, folder: Path) -> None:
    manifest = ("--manifest", "recordings/tiny_manifest.json", "--dry-run", "--target", "nowhere")
    answer = torchport("weights", "extract", "gone.pt", *manifest)
    assert answer.code == 2 and "TP0402" in answer.stderr
