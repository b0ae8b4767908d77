"""KernelDiff on Inductor's own kernels: no alarm on what is right, and the node of what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torchport.debug.comparing import ComparisonConfig
from torchport.debug.kernel_diff.harness import KernelDiffHarness
from torchport.runs.report import Report

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _no_precompiled_headers() -> Iterator[None]:
    """Headers are compiled once for all in a minute, which pays for more than a few small graphs."""
    import torch._inductor.config as inductor

    with inductor.patch({"cpp_cache_precompile_headers": False}):  # type: ignore[no-untyped-call]
        yield


@pytest.fixture(scope="module")
def report() -> Report:
    torch.manual_seed(0)
    model = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU())
    return KernelDiffHarness(model, torch.randn(16, 8), model_name="small").compare().report


def test_inductor_passes_forward_and_backward(report: Report) -> None:
    assert report.status == "pass", (report.first_divergence, report.stopped)
    judged = {layer.name for layer in report.layers if layer.own is not None}
    assert {"0/rsqrt", "1/addmm", "2", "forward graph", "backward graph", "1.weight", "small"} <= judged


def test_what_observing_changes_is_said(report: Report) -> None:
    assert any("observing every value changed the fusion" in note for note in report.notes)


class Apart(nn.Module):
    """Of its first graph, which sorts and does no more, Inductor makes no kernel."""

    def forward(self, x: Tensor) -> Any:
        x = x.sort(stable=True).values
        torch._dynamo.graph_break()
        return x.sin() * 2


def test_a_graph_that_inductor_leaves_to_libraries_is_a_note_beside_its_kernels() -> None:
    config = ComparisonConfig(gradients=False)
    diff = KernelDiffHarness(Apart(), torch.randn(4, 8), config=config).compare()
    assert diff.verdict == "pass", diff.report.stopped
    assert (
        "graph 0 forward: the backend makes no kernel of it, and calls those of eager PyTorch"
        in diff.report.notes
    )


class Convolved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.out = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Any:
        x = nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        return self.out(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(8, 16)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden, cell = x.new_zeros(x.shape[0], 16), x.new_zeros(x.shape[0], 16)
        for step in x.unbind(1):
            hidden, cell = self.cell(step, (hidden, cell))
        return hidden, cell


def bert() -> tuple[nn.Module, Any]:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=50
    )
    model: Any = BertModel
    return model(config).eval(), {"input_ids": torch.arange(14).view(2, 7)}


def resnet18() -> tuple[nn.Module, Tensor]:
    torchvision = pytest.importorskip("torchvision")
    torch.manual_seed(0)
    return torchvision.models.resnet18(weights=None).eval(), torch.randn(2, 3, 64, 64)


@pytest.mark.zoo
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["convolved", "recurrent", "bert", "resnet18"])
def test_no_alarm_on_models_of_all_kinds(name: str) -> None:
    made = {
        "convolved": lambda: (Convolved(), torch.randn(4, 3, 16, 16)),
        "recurrent": lambda: (Recurrent(), torch.randn(2, 4, 8)),
        "bert": bert,
        "resnet18": resnet18,
    }
    model, given = made[name]()
    report = KernelDiffHarness(model, given).compare().report
    assert report.status == "pass", (report.first_divergence, report.stopped)
    judged = {layer.name for layer in report.layers if layer.own is not None}
    assert {"forward graph", "backward graph", *dict(model.named_parameters())} <= judged
