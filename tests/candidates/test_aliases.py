"""Tensors that share memory: what is written to one of them is in the others, in every run of a comparison."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from torchport import compare_gradients, compare_models
from torchport.errors import UsageError

from .models import X
from .test_forward import culprit, layer


class FirstHalf(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[..., :16]


class Doubled(nn.Module):
    """Writes to what it is given, and returns a part of that."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mul_(1.1)[..., :16]


class Itself(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mul_(1.1)


class Table(nn.Module):
    """Returns a part of its weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, 32))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight[: x.shape[-2]]


class ThroughAView(nn.Module):
    def __init__(self, view: nn.Module, factor: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.view, self.factor = nn.Linear(32, 32), view, factor

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.fc(x)
        self.view(hidden).sigmoid_()
        return hidden * self.factor  # type: ignore[no-any-return]


VIEWS = pytest.mark.parametrize("view", [FirstHalf, Doubled, Itself])


@VIEWS
def test_what_a_model_writes_through_a_part_of_a_tensor_is_in_the_truth(view: type[nn.Module]) -> None:
    model = ThroughAView(view())
    assert compare_models(model, ThroughAView(view()), X).passed
    report = compare_models(model, ThroughAView(view(), 1.0002), X)
    own = layer(report, "ThroughAView").own
    assert culprit(report) == "ThroughAView"
    assert own is not None and own.noise is not None and own.noise.floor_max < 1e-6


@VIEWS
def test_gradients_of_a_model_that_writes_through_a_part_of_a_tensor_are_refused(
    view: type[nn.Module],
) -> None:
    with pytest.raises(UsageError, match="TP0801.*the reference writes through what a layer returns"):
        compare_gradients(ThroughAView(view()), ThroughAView(view()), X)


def test_golden_values_are_never_written_to_the_weights_of_a_candidate() -> None:
    model, candidate = ThroughATable(), ThroughATable()
    with torch.no_grad():
        candidate.table.weight.mul_(1.01)
    before = candidate.table.weight.detach().clone()
    assert culprit(compare_models(model, candidate, X)) == "table"
    assert torch.equal(candidate.table.weight, before)


class ThroughATable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.fc = Table(), nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x + self.table(x))  # type: ignore[no-any-return]


class Counting(nn.Module):
    """Returns a buffer that it has written to."""

    def __init__(self, momentum: float) -> None:
        super().__init__()
        self.mean, self.momentum = nn.Buffer(torch.zeros(32)), momentum

    def forward(self, x: Tensor) -> Tensor:
        return self.mean.lerp_(x.mean((0, 1)), self.momentum)


class Centred(nn.Module):
    def __init__(self, momentum: float = 0.1) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.count = nn.Linear(32, 32), Counting(momentum)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.fc(x)
        return hidden - self.count(hidden)  # type: ignore[no-any-return]


def test_golden_values_are_never_written_to_a_buffer_that_is_returned() -> None:
    report = compare_models(Centred(), Centred(0.101), X, state=True)
    row = layer(report, "count.mean")
    assert not row.passed and row.own is not None and row.own.max_abs > 1e-4
    assert compare_models(Centred(), Centred(), X, state=True).passed


class OwnValue(ThroughAView):
    """Gives a value of its own to the layer whose result it writes to."""

    def __init__(self, view: nn.Module, is_read: bool) -> None:
        super().__init__(view)
        self.is_read = is_read

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.fc(x) / 3
        part = self.view(hidden).sigmoid_()
        return hidden * self.factor if self.is_read else part


@pytest.mark.parametrize("view", [FirstHalf, nn.Identity, nn.Flatten])
def test_a_write_that_golden_values_do_not_reach_is_refused_if_it_is_read(view: type[nn.Module]) -> None:
    with pytest.raises(UsageError, match="TP0801.*the reference writes through what a layer returns"):
        compare_models(OwnValue(view(), True), OwnValue(view(), True), X)
    assert compare_models(OwnValue(view(), False), OwnValue(view(), False), X).passed


def test_a_layer_that_overwrites_a_value_of_its_caller_is_compared() -> None:
    report = compare_models(OwnValue(nn.ReLU(inplace=True), False), OwnValue(nn.ReLU(inplace=True), False), X)
    assert report.passed and "no float64 truth" not in report.rule
