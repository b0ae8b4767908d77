"""Models that transform functions with torch.func, or differentiate, in their forward."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from torchport import compare_gradients, compare_models
from torchport.errors import CaptureError, UsageError
from torchport.runs.report import Report

from .models import X, net
from .test_forward import culprit, layer

pytestmark = pytest.mark.slow

Compare = Callable[..., Report]
BOTH = pytest.mark.parametrize("compare", [compare_models, compare_gradients], ids=["forward", "backward"])


class Mapped(nn.Module):
    """Calls a layer on one row at a time, under a transform of torch.func."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.row, self.out, self.factor = (
            nn.Linear(32, 32),
            nn.Linear(32, 32),
            nn.Linear(32, 8),
            factor,
        )

    def forward(self, x: Tensor) -> Tensor:
        rows = torch.vmap(lambda one: torch.tanh(self.row(one) * self.factor))(self.fc(x))
        return self.out(rows)  # type: ignore[no-any-return]


class Unmapped(Mapped):
    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.row(self.fc(x)) * self.factor))  # type: ignore[no-any-return]


@BOTH
@pytest.mark.parametrize("rewritten", [Mapped, Unmapped])
def test_a_layer_inside_a_transform_is_a_part_of_its_caller(
    compare: Compare, rewritten: type[Mapped]
) -> None:
    report = compare(Mapped(), rewritten(), X)
    assert report.passed and "no float64 truth" not in report.rule
    wrong = compare(Mapped(), rewritten(1.001), X)
    assert not wrong.passed
    assert all(layer(wrong, name).passed for name in ("fc", "out"))
    if compare is compare_models:
        assert culprit(wrong) == "Mapped"


def test_a_model_whose_layers_differentiate_is_compared_at_the_others() -> None:
    class Slope(Mapped):
        def forward(self, x: Tensor) -> Tensor:
            slope = torch.func.grad(lambda one: self.row(one).square().sum() * self.factor)
            return self.out(slope(self.fc(x)))  # type: ignore[no-any-return]

    assert compare_models(Slope(), Slope(), X).passed
    assert culprit(compare_models(Slope(), Slope(1.001), X)) == "Slope"


def test_a_comparison_inside_a_transform_is_refused() -> None:
    model, candidate = net(), net()
    with pytest.raises(CaptureError, match="TP0205.*torch.func tensor"):
        torch.vmap(lambda x: compare_models(model, candidate, x))(X)


class ByHand(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return (x.unsqueeze(-2) * self.weight).sum(-1) + self.bias


class Forces(nn.Module):
    """Differentiates in its forward, as models of energies and forces do."""

    def __init__(self, linear: type[nn.Linear] = nn.Linear, factor: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.energy, self.factor = linear(32, 64), linear(64, 1), factor

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            positions = positions.detach().requires_grad_()
            energy = self.energy(torch.tanh(self.up(positions))).sum()
            forces = torch.autograd.grad(energy, positions)[0]
        return energy.detach(), -forces * self.factor


def test_a_model_that_differentiates_in_its_forward_is_compared_in_lock_step() -> None:
    for candidate in (Forces(), Forces(ByHand)):
        report = compare_models(Forces(), candidate, X)
        assert report.passed and "no float64 truth" not in report.rule
    assert culprit(compare_models(Forces(), Forces(factor=1.0001), X)) == "Forces"
    wrong = Forces(ByHand)
    with torch.no_grad():
        wrong.up.bias.mul_(1.01)
    assert culprit(compare_models(Forces(), wrong, X)) == "up"


class Trained(nn.Module):
    """The same with a graph of the forces, so that a loss of them can be trained."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.energy = nn.Linear(32, 64), nn.Linear(64, 1)

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            wanted = positions if positions.requires_grad else positions.requires_grad_()
            energy = self.energy(torch.tanh(self.up(wanted))).sum()
            return energy, -torch.autograd.grad(energy, wanted, create_graph=True)[0]


def test_gradients_of_a_model_that_differentiates_in_its_forward_are_refused() -> None:
    assert compare_models(Trained(), Trained(), X).passed
    with pytest.raises(UsageError, match="TP0801.*once its graph is cut at the borders"):
        compare_gradients(Trained(), Trained(), X)
