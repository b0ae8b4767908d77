"""Ten faults in Bert and resnet18, each reduced to at most three operations that fail in a process of their own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from torchport import Port

from ..test_faults import BERT, RESNET, bert, resnet18  # noqa: F401

ALWAYS = {("bert", "dropped residual"), ("resnet18", "wrong eps")}
"""The others are run by `make zoo`."""
CASES = [
    pytest.param(
        model, fault, id=f"{model}: {fault}", marks=[] if (model, fault) in ALWAYS else pytest.mark.zoo
    )
    for model, faults in (("bert", BERT), ("resnet18", RESNET))
    for fault in faults
]


@pytest.fixture
def port(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Port]:
    made: Port = request.getfixturevalue(request.param)
    files = [made.artifact.folder / name for name in ("src/model.rs", "model.safetensors")]
    for path in files:
        shutil.copy(path, tmp_path / path.name)
    yield made
    for path in files:
        shutil.copy(tmp_path / path.name, path)


@pytest.mark.builds
@pytest.mark.parametrize(("port", "fault"), CASES, indirect=["port"])
def test_a_fault_is_reduced_to_a_few_operations_that_fail_alone(
    port: Port, fault: str, tmp_path: Path
) -> None:
    plant, culprit = {"bert": BERT, "resnet18": RESNET}[port.name][fault]
    plant(port.artifact.folder)
    found = port.minify()
    assert found.layer == culprit
    assert 1 <= len(found.operations) <= 3, found.operations
    assert Path(found.script).read_text().count("torch.ops.aten.") == len(found.operations)
    again = subprocess.run([sys.executable, found.script], capture_output=True, text=True, cwd=tmp_path)
    assert (again.returncode, again.stdout.splitlines()[-1]) == (1, "they differ"), again.stderr
