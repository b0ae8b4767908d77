"""How small a fault is found: a scale on the weights of one Linear."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import torchport
from torchport import Port


@pytest.mark.parametrize("target", ["torch", pytest.param("candle", marks=pytest.mark.builds)])
def test_a_scale_of_one_millionth_is_found(target: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = nn.Linear(64, 64), torch.randn(32, 64)
    port = torchport.port(model, x, target=target, out=tmp_path, name="linear")
    assert port.check().passed
    stored = port.artifact.stored
    assert stored is not None
    exact = load_file(stored)
    save_file({name: (tensor.double() * (1 + 1e-6)).float() for name, tensor in exact.items()}, stored)
    report = Port.open(tmp_path).check()
    assert report.status == "fail" and report.first_divergence is not None
    assert report.first_divergence.layer == "Linear" and report.first_divergence.kind == "own"
