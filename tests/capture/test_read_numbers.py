"""Numbers that a model reads from tensors and computes with as numbers: captured as tensors, or refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from torchport.capture.recorder import Capture, record, record_graph
from torchport.targets.candle.target import TARGET
from torchport.targets.candle.writer import generate

X = torch.linspace(-2, 3, 20).view(5, 4)


class Computing(nn.Module):
    def __init__(self, compute: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.compute = compute

    def forward(self, x: Tensor) -> Tensor:
        return self.compute(x)


def captured(compute: Callable[[Tensor], Tensor], x: Tensor = X) -> Capture:
    return record(Computing(compute), (x,), truth=False, decompose=lambda op: not TARGET.supports(op))


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x * x.sum().item(),
        lambda x: x.mean().item() - x,
        lambda x: (x + x.max().item()) / x.abs().sum().item(),
        lambda x: x * (x > 0).sum().item() + (x * 2).long() * (x > 0).sum().item(),
        lambda x: torch.full((3,), x.max().item()),
        lambda x: x > x[:1, :1].item(),
    ],
)
def test_a_number_in_arithmetic_is_the_tensor_that_it_is_read_from(
    compute: Callable[[Tensor], Tensor],
) -> None:
    capture = captured(compute)
    assert capture.export_error is None
    assert generate(capture.graph, checks="none").todos == []
    for other in (X.neg()[:3], X.repeat(2, 1) * 3):
        again = record_graph(Computing(compute), capture.graph, {}, (other,), {})
        (root,) = (call for call in again.plan.calls.values() if call.parent is None)
        assert torch.equal(again.golden[again.plan.resolve(root.outputs[0])], compute(other))


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x.half() * x.sum().item(),
        lambda x: x * (x.sum().item() + 1),
        lambda x: x.long() * x.double().sum().item(),
    ],
)
def test_a_number_that_a_tensor_does_not_stand_for_is_refused(compute: Callable[[Tensor], Tensor]) -> None:
    error = captured(compute).export_error
    assert error is not None and "number that is read from a tensor" in error.message
