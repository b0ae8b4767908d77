"""Layers that a candidate computes as one are compared at their end, and a fault in them is found there."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import fuse_conv_bn_eval

from torchport import compare_gradients, compare_models
from torchport.runs.report import Report

from .test_forward import failed, layer, left_out

BOTH = pytest.mark.parametrize("compare", [compare_models, compare_gradients])
IMAGE = torch.linspace(-2, 2, 2 * 3 * 8 * 8).reshape(2, 3, 8, 8).sin()


class Convolved(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(width, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.bn(self.conv(x)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = Convolved(3), Convolved(4), nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.second(self.first(x)).mean((-2, -1)))


def net(is_fresh: bool = False) -> Any:
    torch.manual_seed(0)
    model = Net()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d) and not is_fresh:
            nn.init.normal_(module.weight)
            nn.init.normal_(module.bias)
            module.running_mean = torch.randn(4)
            module.running_var = torch.rand(4) + 0.5
    return model.eval()


def folded(model: Any) -> Any:
    candidate = copy.deepcopy(model)
    for part in (candidate.first, candidate.second):
        part.conv, part.bn = fuse_conv_bn_eval(part.conv, part.bn), nn.Identity()
    return candidate


@BOTH
@pytest.mark.parametrize("is_fresh", [False, True])
def test_a_norm_that_is_folded_into_a_convolution_passes(
    compare: Callable[..., Report], is_fresh: bool
) -> None:
    model = net(is_fresh)
    report = compare(model, folded(model), IMAGE)
    assert report.passed, report.first_divergence
    together = "the candidate computes first.conv and first.bn as one"
    assert layer(report, "first.bn").reason == f"it is compared together with first.conv: {together}"
    ending = f"its output is not compared: {together}, and they are compared at the end of first.bn"
    assert layer(report, "first.conv").reason == ending
    own = layer(report, "first.bn").own
    if compare is compare_models:
        assert own is not None and own.noise is not None and layer(report, "first.conv").own is None
    else:
        why = "the candidate computes first.conv and first.bn as one, with other weights"
        assert left_out(report)["first.conv.weight"] == f"not compared: {why}"
        assert layer(report, "first.conv").own is not None  # The gradient of what the convolution is given.
        assert layer(report, "head.weight").own is not None


def test_a_fault_in_folded_weights_is_found_at_the_end() -> None:
    model = net()
    candidate = folded(model)
    candidate.second.conv.weight.data[1, 2, 0, 0] += 1e-4
    assert failed(compare_models(model, candidate, IMAGE)) == ["second.bn"]
    candidate = folded(model)
    candidate.second.conv.bias = None
    report = compare_models(model, candidate, IMAGE)
    assert "second.bn" in failed(report) and "first.bn" not in failed(report)


def test_a_norm_that_is_left_out_is_not_taken_for_folded() -> None:
    model = net()
    candidate = copy.deepcopy(model)
    candidate.first.bn = nn.Identity()
    assert failed(compare_models(model, candidate, IMAGE)) == ["first.bn"]


def test_a_fault_that_the_next_layer_undoes_is_not_hidden() -> None:
    """The scale of a Linear before a LayerNorm does nothing at the end, but nothing is of another class."""

    class Normed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.norm = nn.Linear(32, 32), nn.LayerNorm(32)

        def forward(self, x: Tensor) -> Tensor:
            return self.norm(self.fc(x))

    model = Normed()
    candidate = copy.deepcopy(model)
    candidate.fc.weight.data *= 2
    candidate.fc.bias.data *= 2
    assert failed(compare_models(model, candidate, torch.randn(8, 32))) == ["fc"]


@BOTH
def test_a_scale_that_is_folded_into_the_next_layer_passes(compare: Callable[..., Report]) -> None:
    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factor = nn.Parameter(torch.linspace(0.5, 2, 32))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.factor

    class Scaled(nn.Module):
        def __init__(self, scale: nn.Module) -> None:
            super().__init__()
            self.fc, self.scale, self.out = nn.Linear(32, 32), scale, nn.Linear(32, 8)

        def forward(self, x: Tensor) -> Tensor:
            return self.out(self.scale(self.fc(x).tanh()))

    scale = Scale()
    model, candidate = Scaled(scale), Scaled(nn.Identity())
    candidate.load_state_dict(model.state_dict(), strict=False)
    candidate.out.weight.data *= scale.factor.data
    report = compare(model, candidate, torch.randn(8, 32))
    assert report.passed, report.first_divergence
    assert "together with scale" in (layer(report, "out").reason or "")


def test_a_fault_in_a_layer_that_the_next_one_does_not_use_is_not_hidden() -> None:
    class Halved(nn.ReLU):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * 0.5

    class Beside(nn.Module):
        def __init__(self, act: nn.Module) -> None:
            super().__init__()
            self.act, self.fc = act, nn.Linear(32, 32)

        def forward(self, x: Tensor) -> Tensor:
            return self.act(x) + self.fc(x)

    model, candidate = Beside(nn.ReLU()), Beside(Halved())
    candidate.load_state_dict(model.state_dict())
    assert failed(compare_models(model, candidate, torch.randn(8, 32))) == ["act"]


class Doubled(nn.Linear):
    """Twice the product, and no gradient for the weight."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * F.linear(x, self.weight.detach(), self.bias)


class Scaled(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 1.001


class Rectified(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).relu()


def in_a_row(kind: type[nn.Linear], following: nn.Module, *others: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(kind(32, 32), following, *others, nn.Linear(32, 32))


def test_a_product_that_the_norm_after_it_undoes_is_not_taken_for_fused() -> None:
    model, candidate = in_a_row(nn.Linear, nn.LayerNorm(32)), in_a_row(Doubled, nn.LayerNorm(32))
    rows = torch.randn(64, 32) * 20
    assert failed(compare_models(model, candidate, rows)) == ["0"]
    report = compare_gradients(model, candidate, rows)
    assert "0.weight" in failed(report) and not left_out(report)


@pytest.mark.parametrize("following", [nn.Tanh(), nn.Sigmoid(), nn.Hardtanh(), nn.Softmax(-1)])
def test_a_fault_that_the_next_layer_damps_is_blamed_on_the_layer_that_has_it(following: nn.Module) -> None:
    model, candidate = in_a_row(nn.Linear, following), in_a_row(Scaled, following)
    for one in (model, candidate):
        one[0].weight.data *= 20
    assert failed(compare_models(model, candidate, torch.randn(64, 32))) == ["0"]


class Twice(nn.Module):
    """Uses what its first layer returns a second time."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        return self.second(hidden) + hidden


def test_a_fault_that_only_the_caller_shows_is_blamed_on_the_layer_that_has_it() -> None:
    torch.manual_seed(0)
    model = Twice(nn.Linear(32, 32), nn.LayerNorm(32))
    candidate = Twice(Doubled(32, 32), nn.LayerNorm(32))
    candidate.load_state_dict(model.state_dict())
    assert failed(compare_models(model, candidate, torch.randn(8, 32) * 20)) == ["first"]


def test_layers_are_not_taken_for_one_if_what_is_between_them_is_used_elsewhere() -> None:
    part = net().first
    model = Twice(part.conv, part.bn).eval()
    candidate = Twice(fuse_conv_bn_eval(part.conv, part.bn), nn.Identity()).eval()
    report = compare_models(model, candidate, IMAGE)
    assert report.first_divergence is not None and report.first_divergence.layer == "first"
    assert "Twice" not in failed(report)


def test_a_norm_does_not_hide_a_fault_in_layers_that_are_computed_as_one() -> None:
    class DoubledAndRectified(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * super().forward(x).relu()

    model = in_a_row(nn.Linear, nn.ReLU(), nn.LayerNorm(32, eps=0))
    candidate = in_a_row(DoubledAndRectified, nn.Identity(), nn.LayerNorm(32, eps=0))
    report = compare_models(model, candidate, torch.randn(64, 32))
    assert report.first_divergence is not None and report.first_divergence.layer == "0"


def test_a_norm_and_an_activation_that_are_folded_into_a_convolution_pass() -> None:
    model = net()
    candidate = folded(model)
    for part in (candidate.first, candidate.second):
        part.conv, part.act = nn.Sequential(part.conv, part.act), nn.Identity()
    report = compare_models(model, candidate, IMAGE)
    assert report.passed, report.first_divergence
    assert "together with first.conv, first.bn" in (layer(report, "first.act").reason or "")


def test_the_gradients_of_weights_that_are_the_same_are_compared_though_layers_are_one() -> None:
    class Untrained(Rectified):
        def forward(self, x: Tensor) -> Tensor:
            return F.linear(x, self.weight.detach(), self.bias).relu()

    model, rows = in_a_row(nn.Linear, nn.ReLU()), torch.randn(64, 32)
    honest, untrained = (in_a_row(kind, nn.Identity()) for kind in (Rectified, Untrained))
    report = compare_gradients(model, honest, rows)
    assert report.passed and not left_out(report)
    assert compare_models(model, untrained, rows).passed
    assert failed(compare_gradients(model, untrained, rows)) == ["0.weight"]
