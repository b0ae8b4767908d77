"""Models of which only a part is in a narrower dtype: each layer is measured in its own."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from torchport.runs.report import Report
from torchport.testing import compare_gradients, compare_models

from .models import Net, X, instead, net

Compare = Callable[..., Report]
COMPARISONS = pytest.mark.parametrize("compare", [compare_models, compare_gradients])


class Scaled(nn.Module):
    """A float32 model with one scalar whose dtype can be chosen."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.inner = net()
        self.scale = nn.Parameter(torch.tensor(1.1, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) * self.scale


class Casting(nn.Module):
    """A layer in another dtype than the model around it."""

    def __init__(self, layer: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.layer, self.dtype = layer.to(dtype), dtype

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.to(self.dtype)).to(x.dtype)


def with_a_head_in(dtype: torch.dtype) -> Net:
    model = net()
    model.head = Casting(model.head, dtype)  # type: ignore[assignment]
    return model


def floor(report: Report, layer: str) -> float:
    found = next(one for one in report.layers if one.name == layer).own
    assert found is not None and found.noise is not None
    return found.noise.floor_rms


@COMPARISONS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_bfloat16_scalar_leaves_the_other_layers_in_float32(compare: Compare, dtype: torch.dtype) -> None:
    candidate = Scaled(torch.bfloat16)
    assert compare(Scaled(dtype), candidate, X).passed
    candidate.inner.blocks[0].up.weight.data[3, 4] *= 1.001
    assert not compare(Scaled(dtype), candidate, X, explain=False).passed


@COMPARISONS
def test_a_layer_in_bfloat16_is_measured_in_it_and_the_others_are_not(compare: Compare) -> None:
    model, candidate = with_a_head_in(torch.float32), with_a_head_in(torch.bfloat16)
    report = compare(model, candidate, X)
    assert report.passed and report.rule.endswith("in the candidate's dtypes")
    if compare is compare_models:
        assert floor(report, "head.layer") > 1e3 * floor(report, "blocks.1.down")


def test_a_fault_in_a_layer_of_either_dtype_is_found() -> None:
    model = with_a_head_in(torch.float32)
    for path, factor in (("blocks.1.down", 1.00001), ("head.layer", 1.05)):
        candidate = with_a_head_in(torch.bfloat16)
        candidate.get_submodule(path).weight.data *= factor  # type: ignore[operator, union-attr]
        report = compare_models(model, candidate, X, explain=False)
        assert report.first_divergence is not None and report.first_divergence.layer == path


def test_a_float32_layer_that_returns_bfloat16_fails_beside_one_that_is_in_bfloat16() -> None:
    class Narrow(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).bfloat16().float()

    candidate = with_a_head_in(torch.bfloat16)
    instead(candidate, "blocks.0.down", Narrow)
    report = compare_models(with_a_head_in(torch.float32), candidate, X, explain=False)
    assert report.first_divergence is not None and report.first_divergence.layer == "blocks.0.down"


def test_a_buffer_that_stays_in_float32_does_so_in_the_reference() -> None:
    class Rotary(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("frequencies", torch.linspace(0.1, 7.7, 32))
            self.fc = nn.Linear(32, 32)

        def forward(self, x: Tensor) -> Tensor:
            angles = (torch.arange(7)[:, None] * self.frequencies).to(x.dtype)
            return self.fc(x) * angles.cos()

    model = Rotary().eval()
    candidate = copy.deepcopy(model).bfloat16()
    candidate.frequencies = model.frequencies.clone()
    assert compare_models(model, candidate, X).passed
    candidate.frequencies *= 1.02
    assert not compare_models(model, candidate, X, explain=False).passed


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_norm_without_an_eps_is_measured_with_the_one_that_torch_takes(dtype: torch.dtype) -> None:
    x = (torch.randn(64, 32) * 3e-4).to(dtype)
    model = nn.Sequential(nn.RMSNorm(32), nn.Linear(32, 32)).to(dtype).eval()
    candidate = copy.deepcopy(model)
    report = compare_models(model, candidate, x)
    assert report.passed and floor(report, "0") < 4 * torch.finfo(dtype).eps
    candidate[0].eps = torch.finfo(dtype).eps
    assert not compare_models(model, candidate, x, explain=False).passed


class Masked(nn.Module):
    """Fills its mask with the least number of its dtype."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        scores = self.mask(self.scores(x))
        return scores.softmax(-1)

    def mask(self, scores: Tensor) -> Tensor:
        return scores.masked_fill(torch.arange(32) > 20, torch.finfo(scores.dtype).min)


def test_the_least_number_of_a_wider_dtype_is_that_of_a_narrower_one() -> None:
    class Inside(Masked):
        def __init__(self) -> None:
            super().__init__()
            self.identity = nn.Identity()

        def mask(self, scores: Tensor) -> Tensor:
            filled: Tensor = self.identity(super().mask(scores))
            return filled

    torch.manual_seed(0)
    model = Inside()
    wide = copy.deepcopy(model).double()
    assert compare_models(model, wide, X).passed
    wide.scores.weight.data[2, 3] += 1e-4
    assert not compare_models(model, wide, X, explain=False).passed


class Returning(nn.Module):
    def __init__(self, floats: torch.dtype, whole: torch.dtype) -> None:
        super().__init__()
        self.linear, self.floats, self.whole = nn.Linear(32, 32), floats, whole

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.linear(x)
        return y.to(self.floats), y.argmax(-1).to(self.whole)


@COMPARISONS
def test_an_output_in_another_dtype_of_its_kind_passes_and_is_noted(compare: Compare) -> None:
    torch.manual_seed(0)
    model, candidate = (
        Returning(*both) for both in ((torch.float32, torch.int64), (torch.float64, torch.int32))
    )
    candidate.load_state_dict(model.state_dict())
    report = compare(model, candidate, torch.randn(8, 32))
    said = [note for note in report.notes if "in place of" in note]
    assert report.passed and said == [
        "float64 is returned in place of float32, which passes if the numbers do: Returning",
        "int32 is returned in place of int64, which passes if the numbers do: Returning",
    ]
    assert not compare(model, copy.deepcopy(model), torch.randn(8, 32)).notes


@COMPARISONS
def test_a_candidate_whose_precision_the_rule_names_has_no_note_on_it(compare: Compare) -> None:
    report = compare(net(), net().bfloat16(), X)
    assert "bfloat16" in (report.rule or "") and not [note for note in report.notes if "in place of" in note]
