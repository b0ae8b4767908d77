"""The scripts of a snippet are whole: no placeholder is left, and they say what they do in the target's words."""

import ast
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from torch import nn

from torchport.explain.snippet import write_snippet
from torchport.explain.suspect import Suspect

from .suspects import suspect_of


@pytest.fixture
def suspect(tmp_path: Path) -> Suspect:
    return suspect_of(nn.Tanh(), (torch.randn(3, 4),), torch.sin, tmp_path)


def opening(script: Path) -> str:
    """What the script says of itself."""
    source = script.read_text()
    assert "$" not in source
    return ast.get_docstring(ast.parse(source)) or ""


def test_the_scripts_name_the_layer_and_no_language(suspect: Suspect, tmp_path: Path) -> None:
    write_snippet(tmp_path, 'blocks."0"', suspect, None)
    assert opening(tmp_path / "plot.py").startswith("Draws blocks.'0': heatmaps")
    assert opening(tmp_path / "rerun.py").startswith("Runs blocks.'0' alone and compares")
    assert "Rust" not in opening(tmp_path / "rerun.py")


def test_the_file_that_a_user_edits_is_named(suspect: Suspect, tmp_path: Path) -> None:
    write_snippet(tmp_path, "head", suspect, "code/model.x")
    assert "Edit port/code/model.x, then run this again" in opening(tmp_path / "rerun.py")


def test_the_tensors_are_beside_the_scripts(suspect: Suspect, tmp_path: Path) -> None:
    write_snippet(tmp_path, "Tanh", suspect, None)
    with safe_open(tmp_path / "tensors.safetensors", framework="pt") as file:
        assert file.metadata()["key"] == suspect.key
        assert torch.equal(file.get_tensor(f"golden/{suspect.key}"), suspect.golden(suspect.key))
        assert torch.equal(file.get_tensor(f"candidate/{suspect.key}"), suspect.observed[suspect.key])
