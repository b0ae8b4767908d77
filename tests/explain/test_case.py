"""Smaller cases are those that torch can compute, with the shapes that it gives."""

import pytest
import torch
from torch import nn

from torchport.capture.recorder import record
from torchport.explain.case import Case, computed, resized, rounded, smaller_sizes
from torchport.explain.python import function_of, weight_names
from torchport.targets.candle.target import TARGET


def case_of(model: nn.Module, *args: torch.Tensor) -> Case:
    capture = record(model.eval(), args, dynamic={}, decompose=lambda op: not TARGET.supports(op))
    root = capture.graph.root
    inputs = {item.name: value for item, value in zip(root.inputs, args, strict=True)}
    return Case(capture.graph, inputs, capture.weights, dict(capture.weights))


class Split(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(2, 5, 3, 4).transpose(1, 2) * 2


def test_a_size_is_cut_wherever_it_is() -> None:
    case = case_of(nn.Linear(12, 12), torch.randn(5, 12))
    smaller = resized(case, 12, 2)
    assert smaller is not None
    assert smaller.inputs["input"].shape == (5, 2)
    assert {name: tuple(tensor.shape) for name, tensor in smaller.weights.items()} == {
        "weight": (2, 2),
        "bias": (2,),
    }
    (value,) = computed(smaller)
    expected = nn.functional.linear(
        case.inputs["input"][:, :2], case.weights["weight"][:2, :2], case.weights["bias"][:2]
    )
    torch.testing.assert_close(value, expected)
    assert smaller.graph.root.nodes[0].outputs[0].shape == (5, 2)  # type: ignore[union-attr]


def test_sizes_among_the_arguments_are_cut_too() -> None:
    smaller = resized(case_of(Split(), torch.randn(2, 5, 12)), 5, 1)
    assert smaller is not None and computed(smaller)[0].shape == (2, 3, 1, 4)


def test_what_torch_cannot_compute_is_no_case() -> None:
    assert resized(case_of(Split(), torch.randn(2, 5, 12)), 12, 5) is None


def test_indices_stay_within_a_smaller_table() -> None:
    smaller = resized(case_of(nn.Embedding(50, 8), torch.tensor([[3, 49]])), 50, 4)
    assert smaller is not None and smaller.inputs["input"].max() < 4
    assert torch.isfinite(computed(smaller)[0]).all()


def test_the_largest_size_is_tried_first_and_never_zero() -> None:
    sizes = list(smaller_sizes(case_of(nn.Linear(12, 7), torch.randn(5, 12))))
    assert sizes[0] == (12, 1)
    assert all(0 < new < old for old, new in sizes)
    assert {old for old, _ in sizes} == {12, 7, 5}


@pytest.mark.parametrize("steps", [1, 4])
def test_rounded_values_are_in_a_coarse_grid(steps: int) -> None:
    case = rounded(case_of(nn.LayerNorm(6), torch.randn(3, 6)), steps)
    assert case is not None
    values = case.inputs["input"] * steps
    assert torch.equal(values, values.round())


def test_the_python_function_computes_the_case() -> None:
    class Many(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Parameter(torch.randn(6, 4))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            low, high = (x @ self.fc).chunk(2, dim=-1)
            return torch.where(low > 0, high, float("-inf")), y.to(torch.float64).sum(-1, keepdim=True)

    case = case_of(Many(), torch.randn(3, 6), torch.arange(6).view(2, 3))
    scope: dict = {"torch": torch}
    exec(function_of(case.graph), scope)
    weights = [case.weights[name] for name in weight_names(case.graph).values()]
    for ours, theirs in zip(scope["reference"](*case.inputs.values(), *weights), computed(case), strict=True):
        assert torch.equal(ours, theirs)
