"""What a run of the original takes is measured, and leaves no trace in the model, its inputs or what is printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import torchport
from torchport.porting.cost import timed
from torchport.report import phrases
from torchport.runs.report import Cost, Report
from torchport.targets.base import Timing

from ..report.sample import passing
from ..report.test_terminal import lines


class Keeps(nn.Module):
    """Does all that a model should not do when it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.drop, self.seen = nn.Linear(4, 4), nn.Dropout(0.5), [0]

    def forward(self, x: torch.Tensor, cache: list[torch.Tensor]) -> torch.Tensor:
        print("called")
        self.seen.append(1)
        cache.append(x)
        assert not self.drop.training
        return self.fc(x) + torch.rand(1)


def test_the_model_its_inputs_and_the_random_numbers_stay_as_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    model, cache = Keeps().train(), []
    given = torch.randn(1, 4)
    before = torch.random.get_rng_state()
    found = timed((model, (given, cache), {}))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert found is not None and found.seconds > 0 and found.runs >= 3
    assert model.seen == [0] and cache == [] and model.training and model.drop.training
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("model", "args"),
    [(nn.Linear(4, 4), (torch.randn(1, 5),)), (nn.Linear(4, 4, device="meta"), (torch.randn(1, 4),))],
    ids=["fails", "meta"],
)
def test_a_model_that_cannot_be_run_again_is_not_measured(model: nn.Module, args: tuple[Any, ...]) -> None:
    assert timed((model, args, {})) is None


def with_cost(original: Timing | None) -> Report:
    port = Timing(seconds=0.000123, runs=9, threads=2, bytes=45_000_000)
    return passing().model_copy(update={"cost": Cost(port=port, original=original)})


def test_a_report_says_what_a_run_takes_and_that_it_is_indicative() -> None:
    report = with_cost(Timing(seconds=0.25, runs=3, threads=2, bytes=512_000_000))
    found = lines(report)
    assert "Speed    port 0.12 ms, PyTorch 250 ms a run (2 threads each; indicative)" in found
    assert "Memory   port 45 MB at most; not to be compared with the 512 MB of all of this Python" in found
    assert Report.from_json(report.to_json()) == report


def test_without_the_original_only_the_port_is_told_of() -> None:
    assert phrases.cost(with_cost(None)) == [
        ("speed", "port 0.12 ms a run (2 threads; indicative)"),
        ("memory", "port 45 MB at most"),
    ]
    assert phrases.cost(passing()) == []


@pytest.mark.parametrize("target", ["torch", "marble"])
def test_a_port_that_runs_in_this_process_is_measured_too(target: str, tmp_path: Path) -> None:
    port = torchport.port(nn.Linear(4, 4), torch.randn(2, 4), target=target, out=tmp_path / "net", name="net")
    for report in (port.check(), torchport.Port.open(tmp_path / "net").check()):
        assert report.cost is not None and report.cost.port.seconds > 0
        (said,) = phrases.cost(report)
        assert said[0] == "speed" and said[1].startswith("port "), "it has no memory of its own"
