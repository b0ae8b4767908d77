"""Whole models, ported and proven at every layer, as a user would with `torchport port`."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import zoo
from torchport.porting.commands import port as make_port
from torchport.runs.report import Report

pytestmark = pytest.mark.builds


def prove(name: str, out: Path) -> Report:
    model, args, *rest = zoo.ZOO[name]()
    port = make_port(model, args, *rest, out=out, name=name)
    return port.check()


def assert_proven(report: Report) -> None:
    assert not report.todos
    failed = [(layer.name, layer.reason) for layer in report.layers if not layer.passed]
    assert report.status == "pass", failed or report.first_divergence
    assert report.compared >= len(report.layers) > 0


@pytest.mark.parametrize("name", zoo.PROVEN)
def test_model_passes_at_every_layer(name: str, tmp_path: Path) -> None:
    assert_proven(prove(name, tmp_path))
