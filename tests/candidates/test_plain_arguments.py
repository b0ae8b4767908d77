"""If a caller gives a layer another number, or no mask, the report says so, because no tensor shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torchport import compare_gradients, compare_models
from torchport.runs.report import Report

from .models import X
from .test_forward import layer

Compare = Callable[..., Report]
BOTH = pytest.mark.parametrize("compare", [compare_models, compare_gradients])


class Child(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear(32, 32)

    def forward(
        self, x: Tensor, scale: float = 1.0, mask: Tensor | None = None, mode: str | None = None
    ) -> Tensor:
        y: Tensor = self.fc(x) * scale
        return y if mask is None else y.masked_fill(mask, 0)


class WithOtherDefault(Child):
    """Takes another scale if it is given none."""

    def forward(
        self, x: Tensor, scale: float = 2.0, mask: Tensor | None = None, mode: str | None = None
    ) -> Tensor:
        return super().forward(x, scale, mask)


class Parent(nn.Module):
    def __init__(self, child: type[Child] = Child, **given: Any) -> None:
        super().__init__()
        self.child, self.given = child(), given

    def forward(self, x: Tensor) -> Tensor:
        given = {name: value(x) if callable(value) else value for name, value in self.given.items()}
        return torch.tanh(self.child(x, **given))


def positive(x: Tensor) -> Tensor:
    return x > 0


@BOTH
@pytest.mark.parametrize(
    ("expected", "given", "said"),
    [
        ({"scale": 0.125}, {"scale": 0.13}, "Parent gives it scale=0.13 where the reference gives 0.125"),
        ({}, {"scale": 2.0}, "Parent gives it scale=2.0 where the reference gives 1.0"),
        ({"mask": positive}, {}, "Parent gives it mask=None where the reference gives a tensor"),
        (
            {"scale": 3.0, "mode": "a"},
            {"scale": True},
            "Parent gives it scale=True and mode=None where the reference gives 3.0 and 'a'",
        ),
    ],
)
def test_a_layer_that_is_given_another_plain_argument_says_so(
    compare: Compare, expected: dict[str, Any], given: dict[str, Any], said: str
) -> None:
    report = compare(Parent(**expected), Parent(**given), X)
    divergence = report.first_divergence
    assert divergence is not None and divergence.layer == "child" and divergence.reason.endswith(f"; {said}")
    reason = layer(report, "child").reason
    assert reason is not None and reason.endswith(f"; {said}")


def test_a_plain_argument_that_changes_nothing_is_in_the_row() -> None:
    report = compare_models(Parent(mode="a"), Parent(mode="b"), X)
    assert report.passed
    assert layer(report, "child").reason == "Parent gives it mode='b' where the reference gives 'a'"
    assert layer(report, "child").uncompared is None


@pytest.mark.parametrize(
    ("expected", "given"),
    [
        ({"scale": 48**-0.5}, {"scale": 1 / 48**0.5}),
        ({"scale": 1.0}, {}),
        ({"mask": positive}, {"mask": positive}),
    ],
)
def test_equal_plain_arguments_are_not_mentioned(expected: dict[str, Any], given: dict[str, Any]) -> None:
    report = compare_models(Parent(**expected), Parent(**given), X)
    assert report.passed and layer(report, "child").reason is None


def test_a_default_of_the_layer_itself_is_not_its_callers() -> None:
    report = compare_models(Parent(), Parent(WithOtherDefault), X)
    assert report.first_divergence is not None and report.first_divergence.layer == "child"
    assert "gives it" not in report.first_divergence.reason
