"""A model on the meta device: everything but values."""

from pathlib import Path

import pytest
import torch

from torchport import TorchportError
from torchport.capture.manifest import read_manifest
from torchport.capture.recorder import record

from . import models


def on_meta() -> torch.nn.Module:
    with torch.device("meta"):
        return models.Stack()


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_the_manifest_has_everything_but_values(tmp_path: Path, device: str) -> None:
    example = torch.zeros(2, 8, device=device)
    capture = record(on_meta(), example, name="net")
    files = capture.save(tmp_path)
    assert list(files) == ["manifest"] and not capture.has_values
    assert [path.name for path in tmp_path.iterdir()] == ["net_manifest.json"]
    graph, data = read_manifest(files["manifest"])
    assert data["values"] is False
    real = record(models.Stack(), torch.zeros(2, 8), name="net")
    assert graph == real.graph, "the graph is that of the same model with weights"
    assert [call["name"] for call in data["calls"]] == list(real.plan.calls)


def test_the_model_stays_on_meta() -> None:
    model = on_meta().train()
    record(model, torch.zeros(2, 8))
    assert all(parameter.is_meta for parameter in model.parameters()) and model.training


def test_a_model_that_fails_on_meta_fails_its_own_forward() -> None:
    with torch.device("meta"):
        model = torch.nn.Linear(4, 3)
    with pytest.raises(TorchportError, match="TP0201"):
        record(model, torch.zeros(2, 5))


def test_a_branch_on_a_value_cannot_be_taken_on_meta() -> None:
    with torch.device("meta"):
        model = models.Gated()
    with pytest.raises(TorchportError, match="TP0201"):
        record(model, torch.zeros(2, 4))
