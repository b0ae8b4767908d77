"""Faults planted in finished ports: each verdict must be `fail`, and the culprit the layer that was broken."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import safetensors.torch
import torch

from benchmarks import zoo
from torchport import Port
from torchport.porting.commands import port as make_port
from torchport.runs.report import Report

pytestmark = pytest.mark.builds

Fault = Callable[[Path], None]


def in_source(struct: str, pattern: str, replacement: str) -> Fault:
    """Changes the first match within the code of one struct."""

    def plant(project: Path) -> None:
        path = project / "src" / "model.rs"
        text = path.read_text()
        start = text.index(f"struct {struct} ")
        following = re.search(r"\n(pub )?struct ", text[start + 1 :])
        end = start + 1 + following.start() if following else len(text)
        changed, count = re.subn(pattern, replacement, text[start:end], count=1, flags=re.DOTALL)
        assert count == 1, f"{pattern} is not in {struct}"
        path.write_text(text[:start] + changed + text[end:])

    return plant


def in_weights(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Fault:
    def plant(project: Path) -> None:
        path = project / "model.safetensors"
        tensors = safetensors.torch.load_file(path)
        tensors[name] = change(tensors[name]).contiguous()
        safetensors.torch.save_file(tensors, path)

    return plant


def transposed(weight: torch.Tensor) -> torch.Tensor:
    return weight.transpose(0, 1)


BERT = {
    "wrong eps": (
        in_source("BertSelfOutput", r"cfg\.layer_norm_eps", "1e-5"),
        "encoder.layer.0.attention.output.LayerNorm",
    ),
    "transposed square weight": (
        in_weights("encoder.layer.1.attention.self.key.weight", transposed),
        "encoder.layer.1.attention.self.key",
    ),
    "missing scale": (
        in_source("BertSelfAttention", r"false,\s*None", "false, Some(1.0)"),
        "encoder.layer.0.attention.self",
    ),
    "gelu for gelu-tanh": (
        in_source("BertIntermediate", r"nn::gelu\(", "nn::gelu_tanh("),
        "encoder.layer.0.intermediate.intermediate_act_fn",
    ),
    "dropped residual": (
        in_source("BertOutput", r"\((self\.dense\.forward\(\w+\)\?) \+ (\w+)\)\?", r"\1"),
        "encoder.layer.0.output",
    ),
}
RESNET = {
    "wrong eps": (in_source("BasicBlock", r"1e-5", "1e-4"), "layer1.0.bn1"),
    "transposed square weight": (in_weights("layer1.1.conv2.weight", transposed), "layer1.1.conv2"),
    "missing scale": (in_weights("layer2.0.bn2.weight", torch.ones_like), "layer2.0.bn2"),
    "another activation": (in_source("BasicBlock", r"nn::relu\(", "nn::leaky_relu(1e-4, "), "layer1.0.relu"),
    "dropped residual": (in_source("BasicBlock", r"\(&out \+ \w+\)\?", "out.clone()"), "layer1.0"),
}


def make(name: str, out: Path) -> Port:
    model, args = zoo.ZOO[name]()
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.weight.uniform_(0.5, 1.5)
    return make_port(model, args, out=out, name=name)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Port:
    return make("bert", tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def resnet18(tmp_path_factory: pytest.TempPathFactory) -> Port:
    return make("resnet18", tmp_path_factory.mktemp("resnet18"))


@pytest.fixture
def broken(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[Port, Fault], Report]]:
    """Checks a port with a fault in it; afterwards the port is as before."""
    restore: list[tuple[Path, Path]] = []

    def check(port: Port, fault: Fault) -> Report:
        project = port.artifact.folder
        for name in ("src/model.rs", "model.safetensors"):
            saved = tmp_path / Path(name).name
            shutil.copy(project / name, saved)
            restore.append((saved, project / name))
        fault(project)
        return port.check()

    yield check
    for saved, original in restore:
        shutil.copy(saved, original)


def assert_caught(report: Report, culprit: str) -> None:
    assert report.status == "fail"
    assert report.first_divergence is not None
    assert report.first_divergence.layer == culprit, report.first_divergence


@pytest.mark.parametrize("fault", BERT)
def test_fault_in_bert_is_traced_to_its_layer(
    fault: str, bert: Port, broken: Callable[[Port, Fault], Report]
) -> None:
    plant, culprit = BERT[fault]
    assert_caught(broken(bert, plant), culprit)


@pytest.mark.parametrize("fault", RESNET)
def test_fault_in_resnet18_is_traced_to_its_layer(
    fault: str, resnet18: Port, broken: Callable[[Port, Fault], Report]
) -> None:
    plant, culprit = RESNET[fault]
    assert_caught(broken(resnet18, plant), culprit)


@pytest.mark.parametrize("name", ["bert", "resnet18"])
def test_port_without_a_fault_passes(name: str, request: pytest.FixtureRequest) -> None:
    assert request.getfixturevalue(name).check().status == "pass"


class TestNeverPasses:
    """What must never be taken for agreement."""

    def test_all_nan(self, bert: Port, broken: Callable[[Port, Fault], Report]) -> None:
        fault = in_weights("encoder.layer.0.output.dense.bias", lambda w: torch.full_like(w, float("nan")))
        assert_caught(broken(bert, fault), "encoder.layer.0.output.dense")

    def test_a_wrong_shape(self, bert: Port, broken: Callable[[Port, Fault], Report]) -> None:
        fault = in_source("BertPooler", r"ops::select\((\w+), 1, 0\)\?", r"\1.narrow(1, 0, 1)?")
        assert_caught(broken(bert, fault), "pooler")

    def test_an_empty_tensor(self, bert: Port, broken: Callable[[Port, Fault], Report]) -> None:
        fault = in_source(
            "BertPooler", r"ops::select\((\w+), 1, 0\)\?", r"ops::select(\1, 1, 0)?.narrow(0, 0, 0)?"
        )
        assert_caught(broken(bert, fault), "pooler")

    def test_a_missing_layer(self, bert: Port, broken: Callable[[Port, Fault], Report]) -> None:
        fault = in_source("BertPooler", r"\.apply\(&self\.activation\)\?", "")
        report = broken(bert, fault)
        assert report.status == "fail"
        assert "pooler.activation" in {layer.name for layer in report.layers if not layer.passed}

    def test_a_port_that_stops_halfway(self, bert: Port, broken: Callable[[Port, Fault], Report]) -> None:
        fault = in_source("BertPooler", r"ops::select\((\w+), 1, 0\)\?", r"ops::select(\1, 1, 99)?")
        report = broken(bert, fault)
        assert_caught(report, "pooler")
        assert report.stopped is not None and "99" in report.stopped
        assert {"pooler", "pooler.dense"} <= {layer.name for layer in report.layers if not layer.passed}
