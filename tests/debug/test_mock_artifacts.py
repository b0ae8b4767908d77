"""What a mock backend writes: graphs, and for a violation a script that shows it without torchport."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from torchport.debug.backends.mock import aot_mock_backend
from torchport.debug.constraints import (
    Constraint,
    DtypeConstraint,
    LayoutConstraint,
    MemoryConstraint,
    ShapeConstraint,
    UnsupportedOpsConstraint,
)
from torchport.errors import CompileError

NO_FLOAT64 = DtypeConstraint(allowed_dtypes={"float32"})


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled = self.conv(x).mean((2, 3)) + torch.tensor([0.5] * 8)
        turned = torch.cond(pooled.sum() > 0, torch.sin, torch.cos, (pooled,))
        return turned.t() @ pooled  # type: ignore[no-any-return]


VIOLATED: dict[str, Constraint] = {
    "forward": UnsupportedOpsConstraint({"aten.convolution"}),
    "dynamo": UnsupportedOpsConstraint({"aten.conv2d"}),
    "backward": UnsupportedOpsConstraint({"aten.convolution_backward"}),
    "branch": UnsupportedOpsConstraint({"aten.cos"}),
    "layout": LayoutConstraint(),
    "input": ShapeConstraint(alignment=16),
    "peak": MemoryConstraint(max_peak="1KiB"),
}
_RUN_WITHOUT_TORCHPORT = """
import runpy, sys
sys.modules["torchport"] = None
for script in sys.argv[1:]:
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        print("ended with", ended.code)
"""


@pytest.mark.slow
def test_repros_show_their_violations_in_a_process_without_torchport(tmp_path: Path) -> None:
    scripts = []
    for name, constraint in VIOLATED.items():
        torch._dynamo.reset()
        strict = aot_mock_backend(constraints=[constraint], artifacts=tmp_path / name)
        with pytest.raises(CompileError) as stopped:
            torch.compile(Branching(), backend=strict)(torch.randn(2, 3, 8, 8)).sum().backward()
        (script,) = (tmp_path / name / "repros").iterdir()
        assert f"repro: {script}" in str(stopped.value)
        assert "import torchport" not in script.read_text()
        scripts.append(str(script))
    command = [sys.executable, "-c", _RUN_WITHOUT_TORCHPORT, *scripts]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.stdout.count("ended with 1") == len(VIOLATED), done.stdout + done.stderr
    assert "aten.convolution.default is denied" in done.stdout and "not contiguous" in done.stdout


def test_a_repro_of_other_values_of_free_sizes_has_those_values(tmp_path: Path) -> None:
    backend = aot_mock_backend(constraints=[ShapeConstraint(alignment=8)], artifacts=tmp_path)
    compiled = torch.compile(lambda x: x * 2, backend=backend, dynamic=True)
    compiled(torch.ones(8))
    with pytest.raises(CompileError):
        compiled(torch.ones(12))
    (script,) = (tmp_path / "repros").iterdir()
    assert "tensor((12,), (1,), torch.float32, 'cpu')" in script.read_text()


def test_a_graph_that_no_script_can_hold_is_noted(tmp_path: Path) -> None:
    backend = aot_mock_backend(constraints=[NO_FLOAT64], artifacts=tmp_path)
    graph = torch.fx.symbolic_trace(nn.Sequential(nn.ReLU(), nn.Tanh()))
    for node in graph.graph.nodes:
        node.meta["example_value"] = torch.ones(
            2, dtype=torch.float64 if node.target == "1" else torch.float32
        )
    with pytest.raises(CompileError, match="TP1001"):
        backend(graph, [torch.ones(2)])
    assert "no repro of graph_0 could be written" in backend.session.tree.problems[0]


def test_artifacts_have_the_graphs_and_a_disk_that_refuses_stops_nothing(tmp_path: Path) -> None:
    kept = aot_mock_backend(artifacts=tmp_path / "kept")
    torch.compile(lambda x: x + 1, backend=kept)(torch.ones(2))
    files = sorted(
        path.relative_to(tmp_path / "kept").as_posix() for path in (tmp_path / "kept").rglob("*.py")
    )
    assert files == ["aot_graphs/graph_0_forward.py", "fx_graphs/graph_0.py"]
    (tmp_path / "taken").write_text("")
    refused = aot_mock_backend(artifacts=tmp_path / "taken", constraints=[NO_FLOAT64])
    with pytest.raises(CompileError, match="float64"):
        torch.compile(lambda x: x.double(), backend=refused)(torch.ones(2))
    assert refused.session.tree.problems
