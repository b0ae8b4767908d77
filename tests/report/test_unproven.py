"""A model that is NaN everywhere proves nothing; no renderer says that its port is wrong."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

import torchport
from torchport.report import changes
from torchport.report.against import compare_runs
from torchport.report.formats import FORMATS, renderer
from torchport.report.notebook import render as notebook
from torchport.runs.findings import findings
from torchport.runs.run import Run

pytestmark = pytest.mark.slow


class Nan(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x).sub(100).log())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("nan") / "net"
    report = torchport.port(Nan().eval(), torch.randn(2, 4), target="torch", out=folder, name="net").check()
    assert report.unproven and not findings(report)
    return Run.open(folder)


@pytest.mark.parametrize("name", [*sorted(FORMATS.keys() - {"json"}), "notebook", "against"])
def test_nothing_proven_is_said_and_no_failure(run: Run, name: str) -> None:
    if name == "notebook":
        text = notebook(run.report)
    elif name == "against":
        text = changes.text_of(compare_runs(run.report, run.report))
    else:
        text = renderer(name)(run)
    if name == "html":
        text = re.sub(r"<(script|style).*?</\1>", "", text, flags=re.DOTALL)
    if name == "sarif":  # Its table of rules says what each means.
        text = text[text.index('"results"') :]
    assert re.search("nothing is proven|unproven|error", text)
    assert not re.search(r"FAIL|\bdiverges|<failure|TP0701|✕|layers diverge", text), text
