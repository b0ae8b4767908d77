"""Errors: the model's are blamed on the model, and torchport's own never are, even if the model catches them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torchport import compare_gradients, compare_models
from torchport.candidates import flow, golden
from torchport.errors import CaptureError, RunError
from torchport.runs.report import Report

from .models import X, net
from .test_forward import culprit, layer, left_out

Compare = Callable[..., Report]
BOTH = pytest.mark.parametrize("compare", [compare_models, compare_gradients], ids=["forward", "backward"])


class Refusing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        self.before(x)
        raise ValueError("not for me")


class Catching(nn.Module):
    """Goes on with another module if the first one raises."""

    def __init__(self) -> None:
        super().__init__()
        self.first: nn.Module = Refusing()
        self.second, self.out = nn.Linear(32, 32), nn.Linear(32, 8)

    def forward(self, x: Tensor) -> Tensor:
        try:
            x = self.first(x)
        except ValueError:
            x = self.second(x)
        return self.out(x)  # type: ignore[no-any-return]


@BOTH
def test_a_module_that_raises_and_is_caught_is_named_and_the_rest_is_compared(compare: Compare) -> None:
    model = Catching()
    report = compare(model, copy.deepcopy(model), X)
    assert report.passed and layer(report, "second").own is not None
    assert left_out(report)["first"] == "not compared: it ends in an error, which is caught"
    candidate = copy.deepcopy(model)
    with torch.no_grad():
        candidate.second.weight *= 1.001
    assert culprit(compare(model, candidate, X, explain=False)).startswith("second")
    assert culprit(compare_models(model, candidate, X)) == "second"


def test_an_error_that_only_the_candidate_catches_is_named() -> None:
    model, candidate = Catching(), Catching()
    model.first = nn.Linear(32, 32)
    candidate.second.load_state_dict(model.first.state_dict())
    candidate.out.load_state_dict(model.out.state_dict())
    report = compare_models(model, candidate, X)
    assert report.passed
    assert left_out(report)["first"] == "not compared: in the candidate it ends in an error, which is caught"


class OfOurs(Exception):
    """Stands for any fault in torchport."""


def _broken(*_: Any) -> Any:
    raise OfOurs("a fault of torchport")


class Greedy(nn.Module):
    """Catches whatever is raised inside it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.out = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        try:
            x = self.inner(x)
        except Exception:
            x = x * 2
        return self.out(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize("model", [net(), Greedy()], ids=["as it is", "caught by the model"])
def test_a_fault_of_ours_is_not_blamed_on_the_model(
    model: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(golden.Recording, "leave", _broken)
    with pytest.raises(OfOurs):
        compare_models(model, copy.deepcopy(model), X)
    monkeypatch.setattr(flow.Flow, "enter", _broken)
    with pytest.raises(OfOurs):
        compare_gradients(model, copy.deepcopy(model), X)


def test_what_cannot_be_compared_is_refused_even_if_the_model_catches_it() -> None:
    class Sparse(Greedy):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Identity())  # type: ignore[assignment]

        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x[0].to_sparse()).to_dense()

    with pytest.raises(CaptureError, match="TP0205: inner is given a sparse_coo tensor"):
        compare_models(Sparse(), Sparse(), X)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, SystemExit])
@BOTH
def test_interrupts_and_a_full_memory_are_not_swallowed(compare: Compare, error: type[BaseException]) -> None:
    class Stopped(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            raise error

    with pytest.raises(error):
        compare(nn.Linear(32, 32), Stopped(32, 32), X)
    with pytest.raises(error):
        compare(Stopped(32, 32), nn.Linear(32, 32), X)


@pytest.mark.slow
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_they_are_not_swallowed_in_the_later_runs(error: type[BaseException]) -> None:
    """A run in float64 that fails is done without, and so is an explanation, but not for these."""

    class Later(nn.Linear):
        def __init__(self, last: int) -> None:
            super().__init__(32, 32)
            self.last = [last]

        def forward(self, x: Tensor) -> Tensor:
            TIMES.append(1)
            if len(TIMES) == self.last[0]:
                raise error
            return super().forward(x)

    TIMES: list[int] = []
    wrong = nn.Linear(32, 32)
    for last in range(1, 12):
        TIMES.clear()
        try:
            compare_models(Later(last), wrong, X)
        except error:
            continue
        assert len(TIMES) < last, f"call {last} raised and went unnoticed"


def test_an_error_in_the_loss_or_the_backward_pass_is_the_models() -> None:
    class Backward(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:  # type: ignore[override]
            return x * 1

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
            raise ValueError("no way back")

    class Bad(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return Backward.apply(super().forward(x))  # type: ignore[no-any-return, no-untyped-call]

    model = nn.Linear(32, 32)
    with pytest.raises(
        RunError, match="TP0603: the candidate fails on these inputs: ValueError: no way back"
    ):
        compare_gradients(model, Bad(32, 32), X)
    with pytest.raises(CaptureError, match="TP0201: the reference fails its own forward: ValueError"):
        compare_gradients(Bad(32, 32), model, X)


def test_hooks_and_wrappers_are_gone_after_an_error() -> None:
    class Bad(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            raise ValueError("no")

    model, candidate = net(), nn.Sequential(nn.Linear(32, 32), Bad(32, 32))
    before = [set(vars(one)) for one in (*model.modules(), *candidate.modules())]
    with pytest.raises(RunError):
        compare_models(model, candidate, X)
    assert [set(vars(one)) for one in (*model.modules(), *candidate.modules())] == before
