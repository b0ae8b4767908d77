"""A port that fails is explained: the operation and its line, the cause, the edit, and a snippet that runs."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from torch import nn

import torchport
from torchport import Port, Report
from torchport.errors import ReportError


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(24, eps=1e-6)
        self.up = nn.Linear(24, 48)
        self.down = nn.Linear(48, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = nn.functional.gelu(self.up(self.norm(x)))
        return x + self.down(hidden) * 0.5


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


HERE = Path(__file__).name


def line_of(text: str) -> str:
    """`file:line` of the code above that has this text."""
    lines = Path(__file__).read_text().splitlines()
    return f"{HERE}:{next(n for n, line in enumerate(lines, 1) if text in line)}"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory, cargo: str) -> Port:
    torch.manual_seed(0)
    return torchport.port(Net().eval(), torch.randn(2, 5, 24), out=tmp_path_factory.mktemp("net"), name="net")


@pytest.fixture
def source(port: Port) -> Iterator[Path]:
    """The port's Rust; it is as before after a test."""
    assert port.artifact.source is not None
    before = port.artifact.source.read_text()
    yield port.artifact.source
    port.artifact.source.write_text(before)


def edit(source: Path, old: str, new: str) -> None:
    text = source.read_text()
    assert text.count(old) == 1, text
    source.write_text(text.replace(old, new))


@pytest.fixture
def failing(port: Port, source: Path) -> Report:
    edit(source, "ops::gelu(", "ops::gelu_tanh(")
    return port.check()


def test_a_port_that_agrees_needs_no_explanation(port: Port) -> None:
    report = port.check()
    assert report.passed and report.first_divergence is None
    assert not (port.folder / "snippets").exists()


def test_the_operation_its_line_and_the_cause_are_named(failing: Report) -> None:
    found = failing.first_divergence
    assert found is not None and found.operation is not None
    assert found.layer == "blocks.0"
    assert found.operation.op == "aten.gelu.default"
    assert (found.operation.source or "").endswith(line_of("hidden = nn.functional.gelu"))
    assert (found.source or "").endswith(line_of("x = block(x)"))
    assert [(one.kind, one.text) for one in found.suggestions] == [
        ("gelu_tanh", "approximate is 'tanh' where the model has 'none'")
    ]
    assert found.suggestions[0].explains > 0.99


def test_the_edit_is_shown(failing: Report) -> None:
    assert failing.first_divergence is not None
    (hunk,) = failing.first_divergence.edits
    assert any(line.startswith("+") and "gelu_tanh" in line for line in hunk.splitlines())


def test_the_report_on_disk_is_the_explained_one(port: Port, failing: Report) -> None:
    stored = json.loads((port.folder / "report.json").read_text())
    assert stored["first_divergence"]["operation"]["op"] == "aten.gelu.default"
    assert stored["seconds"]["explain"] > 0


def test_the_snippet_has_the_tensors_of_the_layer(failing: Report) -> None:
    assert failing.first_divergence is not None and failing.first_divergence.snippet is not None
    folder = Path(failing.first_divergence.snippet)
    with safe_open(folder / "tensors.safetensors", framework="pt") as file:
        key = file.metadata()["key"]
        golden, candidate = file.get_tensor(f"golden/{key}"), file.get_tensor(f"candidate/{key}")
        inputs = [name for name in file.keys() if name.startswith("input/")]  # noqa: SIM118
    assert key == failing.first_divergence.key == "blocks.0.down<0"
    assert torch.equal(candidate.ne(golden).any(), torch.tensor(True))
    assert {"input/blocks.0<0", "input/blocks.0.up"} <= set(inputs)
    torch.testing.assert_close(candidate, nn.functional.gelu(_up(folder), approximate="tanh"))


def _up(folder: Path) -> torch.Tensor:
    with safe_open(folder / "tensors.safetensors", framework="pt") as file:
        return file.get_tensor("input/blocks.0.up")


def test_the_plot_script_runs_and_draws(failing: Report) -> None:
    assert failing.first_divergence is not None and failing.first_divergence.snippet is not None
    folder = Path(failing.first_divergence.snippet)
    done = subprocess.run([sys.executable, str(folder / "plot.py")], capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    assert "largest error" in done.stdout
    assert (folder / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "plot.html").stat().st_size > 100_000


def test_the_layer_is_mended_alone_in_its_snippet(failing: Report) -> None:
    assert failing.first_divergence is not None and failing.first_divergence.snippet is not None
    folder = Path(failing.first_divergence.snippet)
    command = [sys.executable, str(folder / "rerun.py")]
    before = subprocess.run(command, capture_output=True, text=True, cwd="/")
    assert before.returncode == 1 and "operation gelu" in before.stdout, before.stdout + before.stderr
    model = folder / "port" / "rust" / "src" / "model.rs"
    model.write_text(model.read_text().replace("gelu_tanh", "gelu"))
    after = subprocess.run(command, capture_output=True, text=True, cwd="/")
    assert after.returncode == 0, after.stdout + after.stderr


def test_every_failing_layer_has_a_snippet(port: Port, failing: Report) -> None:
    failed = {layer.name for layer in failing.layers if not layer.passed}
    assert {path.name for path in (port.folder / "snippets").iterdir()} == failed == {"blocks.0", "blocks.1"}


def test_without_explanation_nothing_is_kept(port: Port, source: Path) -> None:
    edit(source, "ops::gelu(", "ops::gelu_tanh(")
    report = port.check(explain=False)
    assert report.first_divergence is not None
    assert report.first_divergence.operation is None and "explain" not in report.seconds


def test_weights_that_are_not_the_recorded_ones_are_told(port: Port) -> None:
    from safetensors.torch import load_file, save_file

    path = port.artifact.folder / "model.safetensors"
    before = path.read_bytes()
    weights = load_file(path)
    weights["blocks.1.up.weight"] = load_file(path)["blocks.0.up.weight"]
    save_file(weights, path)
    report = port.check()
    path.write_bytes(before)
    found = report.first_divergence
    assert found is not None and found.layer == "blocks.1.up"
    assert [(one.kind, one.text) for one in found.suggestions] == [
        ("neighbour_weight", "blocks.1.up.weight is blocks.0.up.weight")
    ]


def test_the_smallest_case_is_one_operation_that_fails_elsewhere(
    port: Port, source: Path, tmp_path: Path
) -> None:
    edit(source, "ops::gelu(", "ops::gelu_tanh(")
    found = port.minify()
    assert found.operations == ("aten.gelu.default",)
    assert sum(torch.Size(shape).numel() for shape in found.inputs.values()) <= 16
    assert "they differ" in found.output
    script = Path(found.script)
    compile(script.read_text(), str(script), "exec")
    assert "torch.ops.aten.gelu.default(" in script.read_text()
    rust = script.parent / "rust" / "src" / "model.rs"
    rust.write_text(rust.read_text().replace("gelu_tanh", "gelu"))
    mended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path)
    assert (mended.returncode, mended.stdout.splitlines()[-1]) == (0, "they agree"), mended.stderr
    tested = subprocess.run([sys.executable, str(script), "--test"], capture_output=True, text=True)
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_a_port_that_agrees_cannot_be_reduced(port: Port) -> None:
    with pytest.raises(ReportError, match="TP0343"):
        port.minify()
