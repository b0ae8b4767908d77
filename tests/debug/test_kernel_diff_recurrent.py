"""Recurrent layers: torch.compile leaves them to eager PyTorch, which is said, unless it is asked to compile them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torchport.debug.comparing import ComparisonConfig
from torchport.debug.kernel_diff.harness import KernelDiffHarness
from torchport.runs.report import Report

from .planted import Planted

aten: Any = torch.ops.aten
SAID = "torch.compile leaves LSTM to eager PyTorch, unless torch._dynamo.config.allow_rnn is set"


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.out = nn.LSTM(6, 8, batch_first=True), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Any:
        return self.out(torch.tanh(self.lstm(x)[0]))


def compared(backend: Planted) -> Report:
    torch.manual_seed(0)
    config = ComparisonConfig(gradients=True)
    return (
        KernelDiffHarness(Recurrent(), torch.randn(3, 4, 6), test_backend=backend, config=config)
        .compare()
        .report
    )


def test_that_a_recurrent_layer_is_left_to_eager_is_said_in_its_row() -> None:
    report = compared(Planted())
    assert report.status == "error" and SAID in (report.stopped or "")
    (row,) = [layer for layer in report.layers if layer.name == "lstm"]
    assert row.uncompared == SAID and row.own is None


@pytest.mark.parametrize("factor", [1.0, 1.001])
def test_a_recurrent_layer_that_is_compiled_is_compared_step_by_step(
    factor: float,
) -> None:
    def sigmoid(x: Tensor) -> Any:
        return (1 / (1 + aten.exp(-x))) * factor

    with torch._dynamo.config.patch(allow_rnn=True):  # type: ignore[no-untyped-call]
        backend = Planted(aten.sigmoid.default, sigmoid)
        backend.kernels[aten.sigmoid_backward.default] = lambda gradient, y: gradient * (y * (1 - y))
        report = compared(backend)
    assert not any(SAID in str(layer.reason) for layer in report.layers)
    if factor == 1.0:
        assert report.status == "pass", (report.first_divergence, report.stopped)
    else:
        assert report.first_divergence is not None and report.first_divergence.layer == "lstm/sigmoid"
