"""A candidate with golden bits is not run in lock-step, and the report is the one that such a run would give."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torchport.candidates import forward
from torchport.runs.report import Report
from torchport.testing import compare_models


class Twice(nn.Module):
    """One layer used twice, a view handed on, and a value computed between the calls."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.act = nn.Linear(4, 4), nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.fc(x)
        self.act(y)
        return self.fc(y * 2).view(-1) + self.act(self.fc(x)).view(-1)


class Copies(Twice):
    """The same numbers; what a layer is given is a copy, so that it is no tensor that was handed on."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.fc(x.clone())
        self.act(y)
        return self.fc((y * 2).clone()).clone().view(-1) + self.act(self.fc(x)).view(-1)


class Nothing(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x, x * float("nan"), x > 0


def _conv() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(inplace=True), nn.Flatten())


MODELS: dict[str, tuple[nn.Module, nn.Module | None, Any]] = {
    "conv": (_conv(), None, torch.randn(2, 1, 5, 5)),
    "lstm": (nn.LSTM(3, 4, 2, bidirectional=True), None, torch.randn(5, 2, 3)),
    "transformer": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), None, torch.randn(2, 3, 8)),
    "twice": (Twice(), None, torch.randn(2, 4)),
    "copies": (Twice(), Copies(), torch.randn(2, 4)),
    "nan": (nn.Sequential(Nothing()), None, torch.randn(2, 4)),
    "bfloat16": (nn.Sequential(nn.Linear(4, 4), nn.GELU()).bfloat16(), None, torch.randn(2, 4).bfloat16()),
    "empty": (nn.Sequential(nn.Linear(4, 4)), None, torch.randn(0, 4)),
}


def _text(report: Report) -> str:
    """As JSON, because NaN is not equal to itself."""
    return report.model_copy(update={"seconds": {}}).to_json()


@pytest.mark.parametrize("name", MODELS)
def test_the_report_is_that_of_a_run_in_lockstep(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, other, x = MODELS[name]
    candidate = copy.deepcopy(model) if other is None else other
    candidate.load_state_dict(model.state_dict())
    model.eval(), candidate.eval()
    usual, skipped = forward._run_in_lockstep, []
    monkeypatch.setattr(forward, "_run_in_lockstep", lambda *given: skipped.append(given))
    without = compare_models(model, candidate, x)
    assert not skipped
    monkeypatch.setattr(forward, "lockstep_of_same", lambda *given: None)
    monkeypatch.setattr(forward, "_run_in_lockstep", usual)
    with_run = compare_models(model, candidate, x)
    assert _text(without) == _text(with_run)


@pytest.mark.parametrize("state", [False, True])
def test_a_candidate_with_other_bits_is_run_in_lockstep(state: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model = _conv().eval()
    candidate = copy.deepcopy(model)
    if not state:
        with torch.no_grad():
            candidate.get_submodule("0").weight.mul_(1 + 1e-7)
    runs: list[object] = []
    usual = forward._run_in_lockstep
    monkeypatch.setattr(forward, "_run_in_lockstep", lambda *given: (runs.append(given), usual(*given))[-1])
    compare_models(model, candidate, torch.randn(2, 1, 5, 5), state=state)
    assert len(runs) == 1
