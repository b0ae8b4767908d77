"""The generated Rust itself: its form, its size, that it does not depend on depth, and that it stands alone."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import safetensors.torch
import torch
import transformers
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from benchmarks import zoo
from torchport.capture.recorder import record
from torchport.errors import UsageError
from torchport.files import cache_directory
from torchport.porting.commands import Port
from torchport.porting.commands import port as make_port
from torchport.targets.candle.build import find_cargo
from torchport.targets.candle.project import format_rust
from torchport.targets.candle.writer import generate

pytestmark = pytest.mark.slow


class RustExtension(SingleFileSnapshotExtension):
    _write_mode = WriteMode.TEXT
    file_extension = "rs"


@pytest.fixture
def rust(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(RustExtension)


def source(port: Port) -> str:
    return (port.artifact.folder / "src" / "model.rs").read_text()


def bert(layers: int, out: Path, **options: str) -> Port:
    config = transformers.BertConfig(**{**zoo.SMALL, "num_hidden_layers": layers, "num_attention_heads": 4})
    return make_port(transformers.BertModel(config).eval(), (zoo.ids(),), out=out, name="bert", **options)


def llama(layers: int, out: Path) -> Port:
    config = transformers.LlamaConfig(**{**zoo.SMALL, "num_hidden_layers": layers, "num_key_value_heads": 2})
    config.use_cache = False
    return make_port(transformers.LlamaForCausalLM(config).eval(), (zoo.ids(),), out=out, name="llama")


def test_bert_reads_as_the_snapshot(rust: SnapshotAssertion, tmp_path: Path) -> None:
    assert source(bert(2, tmp_path)) == rust


@pytest.mark.slow
def test_resnet18_reads_as_the_snapshot(rust: SnapshotAssertion, tmp_path: Path) -> None:
    model, args = zoo.ZOO["resnet18"]()
    assert source(make_port(model, args, out=tmp_path, name="resnet18")) == rust


@pytest.mark.slow
def test_bert_does_not_depend_on_its_depth(tmp_path: Path) -> None:
    shallow, deep = bert(2, tmp_path / "2"), bert(12, tmp_path / "12")
    assert source(shallow) == source(deep)
    assert len(source(shallow).splitlines()) < 400
    configs = [json.loads((p.folder / "rust" / "config.json").read_text()) for p in (shallow, deep)]
    assert {k for k in configs[0] if configs[0][k] != configs[1][k]} == {"num_hidden_layers"}


@pytest.mark.slow
def test_llama_does_not_depend_on_its_depth(tmp_path: Path) -> None:
    texts = {source(llama(depth, tmp_path / str(depth))) for depth in (1, 2, 5)}
    assert len(texts) == 1


def test_generated_code_is_formatted(tmp_path: Path) -> None:
    text = source(bert(2, tmp_path))
    assert format_rust(text) == text


def cargo(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "CARGO_TARGET_DIR": str(cache_directory() / "target"),
        "CARGO_NET_OFFLINE": "true",
    }
    return subprocess.run(
        [find_cargo(), *command], cwd=folder, env=environment, capture_output=True, text=True
    )


LINTED = [
    ("swin_t", "layers"),
    *((n, c) for n in ("bert", "llama", "cnn", "lstm") for c in ("none", "layers", "ops")),
]


@pytest.mark.builds
@pytest.mark.parametrize(("name", "checks"), LINTED)
def test_clippy_finds_nothing(name: str, checks: str, tmp_path: Path) -> None:
    model, args = zoo.ZOO[name]()
    port = make_port(model, args, out=tmp_path, name=name, checks=checks)
    port.artifact.prepare(lambda _: None)
    built = (cache_directory() / "build").glob(f"{name}-*/Cargo.toml")
    manifest = next(path for path in built if str(tmp_path) in path.read_text())
    done = cargo(manifest.parent, "clippy", "--quiet", "--", "-D", "warnings")
    assert done.returncode == 0, done.stderr


@pytest.mark.builds
def test_project_without_checks_stands_alone(tmp_path: Path) -> None:
    """It builds from its own lock file with no network, and computes what PyTorch computes."""
    port = bert(2, tmp_path, checks="none")
    folder = port.folder / "rust"
    assert not {"probe", "check!", "Probe"} & set(source(port).replace(":", " ").split())
    assert cargo(folder, "build", "--locked").returncode == 0, cargo(folder, "build", "--locked").stderr
    ids = zoo.ids(3, 11)
    safetensors.torch.save_file({"input_ids": ids}, tmp_path / "in.safetensors")
    done = cargo(
        folder, "run", "--locked", "--", str(tmp_path / "in.safetensors"), str(tmp_path / "out.safetensors")
    )
    assert done.returncode == 0, done.stderr
    outputs = safetensors.torch.load_file(tmp_path / "out.safetensors")
    with torch.no_grad():
        assert port.model is not None
        expected = port.model(ids)
    torch.testing.assert_close(outputs["output_0"], expected.last_hidden_state, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(outputs["output_1"], expected.pooler_output, rtol=1e-4, atol=1e-5)


@pytest.mark.builds
def test_project_without_checks_is_proven_by_its_twin_with_checks(tmp_path: Path) -> None:
    bert(2, tmp_path, checks="none")
    report = Port.open(tmp_path).check()
    assert report.passed and len(report.layers) == 40, report.first_divergence
    shipped, checked = (
        (tmp_path / folder / "src" / "model.rs").read_text() for folder in ("rust", "checked")
    )
    assert "check!" not in shipped and "check!" in checked
    (tmp_path / "rust" / "src" / "model.rs").write_text(shipped.replace("nn::gelu(", "nn::gelu_tanh("))
    with pytest.raises(UsageError, match="TP0804"):
        Port.open(tmp_path).check()


@pytest.mark.builds
def test_every_operation_can_be_watched(tmp_path: Path) -> None:
    port = bert(2, tmp_path, checks="ops")
    report = port.check()
    assert report.passed, report.first_divergence
    assert report.compared > 2 * len(report.layers)


def test_a_linear_with_a_computed_weight_is_written() -> None:
    class Masked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(6, 4))
            self.bias = torch.nn.Parameter(torch.randn(6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.linear(x, self.weight.tril(), self.bias)

    generated = generate(record(Masked(), torch.randn(2, 4)).graph)
    assert not generated.todos and "ops::linear" in generated.source
