"""Models of the zoo as neurons: no TODO, and proven at every layer, an assembly at a time and a group at a time."""

from pathlib import Path

import pytest

import torchport
from benchmarks import zoo


@pytest.mark.zoo
@pytest.mark.parametrize("opened", [False, True], ids=["assemblies", "groups"])
@pytest.mark.parametrize("name", sorted(zoo.ZOO))
def test_model_passes_at_every_layer(name: str, opened: bool, tmp_path: Path) -> None:
    model, args, *rest = zoo.ZOO[name]()
    port = torchport.port(model, args, *rest, target="marble", out=tmp_path, name=name, opened=opened)
    report = port.check()
    assert report.status == "pass", report.first_divergence or report.todos
