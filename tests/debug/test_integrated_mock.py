"""The adapter that computes with emulated arithmetic computes exactly what that arithmetic is said to be."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torchport.arithmetic.classes import find_arithmetic
from torchport.arithmetic.emulation import Emulated
from torchport.debug.adapters.capabilities import AcceleratorCapabilities
from torchport.debug.adapters.int8 import int8_products
from torchport.debug.adapters.integrated import IntegratedMockAdapter
from torchport.errors import UsageError

aten = torch.ops.aten


def compiled(model: nn.Module, x: Tensor, adapter: IntegratedMockAdapter) -> Tensor:
    with torch.no_grad():
        result: Tensor = torch.compile(model, backend=adapter)(x)
    return result


@pytest.mark.parametrize("name", ["bf16_sums", "tf32", "fp16_products"])
def test_sums_are_those_of_the_class_that_is_asked_for(name: str) -> None:
    model, x = nn.Sequential(nn.Linear(64, 32), nn.LayerNorm(32), nn.Linear(32, 8)), torch.randn(5, 64)
    adapter = IntegratedMockAdapter(arithmetic=name)
    found = compiled(model, x, adapter)
    with torch.no_grad(), Emulated(find_arithmetic(name)):
        assert torch.equal(found, model(x))
    assert not torch.equal(found, model(x)) and adapter.capabilities.arithmetic == "float32"


def test_gradients_are_computed_in_the_same_arithmetic() -> None:
    weight, x = torch.randn(4, 64, requires_grad=True), torch.randn(9, 64)
    adapter = IntegratedMockAdapter()

    def loss(weight: Tensor) -> Tensor:
        return (x @ weight.t()).square().sum()

    (golden,) = torch.autograd.grad(loss(weight), weight)
    (found,) = torch.autograd.grad(torch.compile(loss, backend=adapter)(weight), weight)
    assert 1e-3 < (found - golden).norm() / golden.norm() < 1e-1
    assert torch.equal(found, found.bfloat16().float())


def test_tiny_numbers_are_flushed_to_zero_beside_another_arithmetic() -> None:
    tiny = torch.tensor([1e-39, 1e-30, 1.0])
    for options in ({}, {"arithmetic": "tf32"}):
        adapter = IntegratedMockAdapter(flush_to_zero=True, **options)  # type: ignore[arg-type]
        assert compiled(Times(), tiny, adapter).tolist() == [0.0, (tiny[1] * 3).item(), 3.0]


class Times(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 3


def integers(values: Tensor, dim: int, limit: float | None = None) -> tuple[Tensor, Tensor]:
    largest = values.abs().amax(dim, keepdim=True).double() if limit is None else torch.tensor(limit)
    scale = largest / 127
    return (values.double() / scale).round().clamp(-128, 127).to(torch.int32), scale


@pytest.mark.parametrize("limit", [None, 1.0])
def test_products_of_bytes_are_scaled_and_saturate(limit: float | None) -> None:
    model, x = nn.Linear(16, 4), 3 * torch.randn(5, 16)
    found = compiled(model, x, IntegratedMockAdapter(int8=True, int8_limit=limit))
    (rows, row_scales), (columns, column_scales) = integers(x, 1, limit), integers(model.weight.t(), 0, limit)
    summed = (rows.unsqueeze(2) * columns.unsqueeze(0)).sum(1)
    expected = (summed * row_scales * column_scales).float() + model.bias
    torch.testing.assert_close(found, expected)
    eager = model(x)
    assert not torch.equal(found, eager)
    assert (rows.abs() >= 127).sum() > 10 if limit else (found - eager).abs().max() < 0.1


@pytest.mark.parametrize(
    "model",
    [nn.Conv2d(4, 6, 3), nn.Conv2d(4, 6, 3, stride=2, groups=2), nn.ConvTranspose2d(4, 6, 3, groups=2)],
)
def test_a_convolution_of_whole_numbers_is_exact_in_bytes(model: Any) -> None:
    with torch.no_grad():
        model.weight.copy_(torch.randint(-127, 128, model.weight.shape))
        model.weight.flatten(1)[:, 0] = 127
    x = torch.randint(-127, 128, (2, 4, 8, 8)).float()
    x[0, 0, 0, 0] = 127
    assert torch.equal(compiled(model, x, IntegratedMockAdapter(int8=True)), model(x))


def test_bytes_have_no_nan_and_no_infinity() -> None:
    multiply = int8_products(None)[aten.mm.default]
    found = multiply(torch.tensor([[1.0, float("nan")], [float("inf"), 2.0]]), torch.eye(2))
    torch.testing.assert_close(found, torch.tensor([[1.0, 0.0], [2.0, 2.0]]))
    assert multiply(torch.zeros(2, 0), torch.zeros(0, 3)).tolist() == [[0.0] * 3] * 2


def test_only_the_operations_that_are_named_are_emulated() -> None:
    model, x = nn.Sequential(nn.Linear(64, 32), nn.GELU()), torch.randn(5, 64)
    assert torch.equal(compiled(model, x, IntegratedMockAdapter(operations=["aten.mm.*"])), model(x))
    torch._dynamo.reset()
    assert not torch.equal(compiled(model, x, IntegratedMockAdapter(operations=["aten.gelu.*"])), model(x))


def test_it_says_whether_a_kernel_runs() -> None:
    assert IntegratedMockAdapter().runs_kernels and IntegratedMockAdapter(int8=True).runs_kernels
    assert not IntegratedMockAdapter(arithmetic="eager").runs_kernels


def test_what_cannot_be_emulated_is_refused() -> None:
    with pytest.raises(Exception, match="TP1054"):
        torch.compile(Times(), backend=IntegratedMockAdapter())(torch.ones(3, device="meta"))
    with pytest.raises(UsageError, match="int8_limit"):
        IntegratedMockAdapter(int8_limit=0.0)
    with pytest.raises(UsageError, match="no arithmetic"):
        IntegratedMockAdapter(arithmetic="fp4")


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "My Chip"},
        {"dtypes": {"float33"}},
        {"dtypes": "float32"},
        {"alignment": 0},
        {"memory_bytes": -1},
        {"max_tensor_bytes": 1.5},
        {"layouts": {"diagonal"}},
        {"denied_operations": "aten.mm.default"},
    ],
)
def test_capabilities_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        AcceleratorCapabilities(**{"name": "chip", **wrong})
    assert caught.value.code == ("TP1005" if wrong.get("dtypes") == {"float33"} else "TP1050")


def test_dtypes_may_be_torch_s_own_and_capabilities_can_be_written_as_json() -> None:
    chip = AcceleratorCapabilities("chip", dtypes={torch.float32, "bfloat16"})  # type: ignore[arg-type]
    assert chip.to_dict()["dtypes"] == ["bfloat16", "float32"] and chip.to_dict()["alignment"] == 1
