"""The scripts of a snippet are whole: no placeholder is left, and they say what they do in the target's words."""

import ast
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from torch import nn

from torchport.explain.scene import Scene
from torchport.explain.snippet import write_snippet

from .scenes import scene_of


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return scene_of(nn.Tanh(), (torch.randn(3, 4),), torch.sin, tmp_path)


def opening(script: Path) -> str:
    """What the script says of itself."""
    source = script.read_text()
    assert "$" not in source
    return ast.get_docstring(ast.parse(source)) or ""


def test_the_scripts_name_the_layer_and_no_language(scene: Scene, tmp_path: Path) -> None:
    write_snippet(tmp_path, 'blocks."0"', scene, None)
    assert opening(tmp_path / "plot.py").startswith("Draws blocks.'0': heatmaps")
    assert opening(tmp_path / "rerun.py").startswith("Runs blocks.'0' alone and compares")
    assert "Rust" not in opening(tmp_path / "rerun.py")


def test_the_file_that_a_user_edits_is_named(scene: Scene, tmp_path: Path) -> None:
    write_snippet(tmp_path, "head", scene, "code/model.x")
    assert "Edit port/code/model.x, then run this again" in opening(tmp_path / "rerun.py")


def test_the_tensors_are_beside_the_scripts(scene: Scene, tmp_path: Path) -> None:
    write_snippet(tmp_path, "Tanh", scene, None)
    with safe_open(tmp_path / "tensors.safetensors", framework="pt") as file:
        assert file.metadata()["key"] == scene.key
        assert torch.equal(file.get_tensor(f"golden/{scene.key}"), scene.golden(scene.key))
        assert torch.equal(file.get_tensor(f"candidate/{scene.key}"), scene.observed[scene.key])
