"""GoldenRecorder and record: which files are written, the keys in them, and that values are torch's own."""

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn

import torchport
from torchport import GoldenRecorder, TorchportError
from torchport.capture.recorder import Capture, record
from torchport.trace.reading import Trace

from . import models

pytestmark = pytest.mark.slow


def value(capture: Capture, key: str) -> torch.Tensor:
    return capture.golden[capture.plan.resolve(key)]


def seen_by_hooks(model: nn.Module, *args: torch.Tensor) -> dict[str, torch.Tensor]:
    """What each module gives, as torch itself says, the last call winning."""
    found: dict[str, torch.Tensor] = {}
    handles = [
        module.register_forward_hook(lambda _m, _a, output, path=path: found.__setitem__(path, output))
        for path, module in model.named_modules()
    ]
    with torch.no_grad():
        model(*args)
    for handle in handles:
        handle.remove()
    return found


def test_save_writes_the_promised_files(tmp_path: Path) -> None:
    recorder = GoldenRecorder(tmp_path)
    capture = recorder.record(models.Stack(), torch.randn(2, 8))
    files = recorder.save("net")
    assert files == {
        "manifest": tmp_path / "net_manifest.json",
        "trace": tmp_path / "net_trace.safetensors",
        "truth": tmp_path / "net_truth.safetensors",
        "weights": tmp_path / "net_weights.safetensors",
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in files.values())
    assert json.loads(files["manifest"].read_text())["name"] == "net"
    assert isinstance(capture, torchport.Capture)


def test_the_trace_has_every_module_under_its_path(tmp_path: Path) -> None:
    model = models.Stack().eval()
    x = torch.randn(2, 8)
    recorder = GoldenRecorder(tmp_path)
    recorder.record(model, x)
    with Trace(recorder.save("net")["trace"]) as trace:
        assert trace.root == "Stack"
        for path, expected in seen_by_hooks(model, x).items():
            if path != "blocks":
                torch.testing.assert_close(trace.get(path or "Stack"), expected, rtol=0, atol=0)
        torch.testing.assert_close(trace.get("Stack<0"), x, rtol=0, atol=0)
        torch.testing.assert_close(trace.get("blocks.0<0"), x, rtol=0, atol=0)
        torch.testing.assert_close(trace.get("blocks.1<0"), trace.get("blocks.0"), rtol=0, atol=0)


def test_the_trace_says_its_schema_root_and_aliases(tmp_path: Path) -> None:
    recorder = GoldenRecorder(tmp_path)
    capture = recorder.record(models.Stack(), torch.randn(2, 8))
    with safe_open(recorder.save("net")["trace"], "pt") as file:
        metadata = file.metadata()
        keys = set(file.keys())
    assert (metadata["schema"], metadata["root"]) == ("1", "Stack")
    aliases = json.loads(metadata["aliases"])
    assert aliases == capture.plan.aliases
    assert not keys & aliases.keys() and set(aliases.values()) <= keys


def test_a_module_called_twice_has_two_values() -> None:
    model = models.Twice().eval()
    x = torch.randn(3, 4)
    capture = record(model, x)
    with torch.no_grad():
        first = model.layer(x)
        second = model.layer(first.relu())
    torch.testing.assert_close(value(capture, "layer"), first, rtol=0, atol=0)
    torch.testing.assert_close(value(capture, "layer#1"), second, rtol=0, atol=0)
    torch.testing.assert_close(value(capture, "layer#1<0"), first.relu(), rtol=0, atol=0)
    assert list(capture.plan.calls) == ["layer", "layer#1", "Twice"]


def test_calls_are_in_the_order_in_which_they_end_and_events_in_that_of_execution() -> None:
    plan = record(models.Stack(depth=1), torch.randn(2, 8)).plan
    assert list(plan.calls) == ["blocks.0.norm", "blocks.0.dense", "blocks.0", "head", "Stack"]
    assert [name for kind, name in plan.events if kind == "enter"] == [
        "Stack",
        "blocks.0",
        "blocks.0.norm",
        "blocks.0.dense",
        "head",
    ]
    assert plan.calls["blocks.0.norm"].parent == "blocks.0" and plan.calls["Stack"].parent is None


def test_a_module_with_the_name_of_the_roots_class_keeps_its_own_key() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.Net = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.Net(x) + 1

    model = Net().eval()
    x = torch.randn(2, 4)
    capture = record(model, x)
    with torch.no_grad():
        torch.testing.assert_close(value(capture, "Net"), model.Net(x))
        torch.testing.assert_close(value(capture, capture.plan.root), model(x))


def test_weights_are_saved_under_the_models_own_names(tmp_path: Path) -> None:
    model = models.Stack()
    files = record(model, torch.randn(2, 8), name="net").save(tmp_path)
    saved = load_file(files["weights"])
    assert saved.keys() == model.state_dict().keys()
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(saved[name], tensor, rtol=0, atol=0)


def test_ops_records_the_value_of_each_operation() -> None:
    model = models.Stack(depth=1).eval()
    x = torch.randn(2, 8)
    plain, detailed = record(model, x), record(model, x, ops=True)
    assert not [key for key in plain.golden if "/" in key]
    nodes = {key for key in detailed.golden if "/" in key}
    assert {"blocks.0/gelu", "blocks.0/add", "head/linear"} <= nodes
    block = model.blocks[0]
    with torch.no_grad():
        gelu = torch.nn.functional.gelu(block.dense(block.norm(x)))
    torch.testing.assert_close(detailed.golden["blocks.0/gelu"], gelu, rtol=0, atol=0)


def test_the_truth_is_the_distance_to_float64() -> None:
    model = nn.Linear(64, 32).eval()
    x = torch.randn(5, 64)
    capture = record(model, x)
    with torch.no_grad():
        exact = nn.functional.linear(x.double(), model.weight.double(), model.bias.double())
        eager = model(x)
    torch.testing.assert_close(capture.truth["Linear"], (exact - eager.double()).float(), rtol=0, atol=0)
    assert 0 < capture.truth["Linear"].abs().max() < 1e-5


def test_a_tensor_alone_is_one_input() -> None:
    x = torch.randn(2, 4)
    assert record(nn.ReLU(), x).golden.keys() == record(nn.ReLU(), (x,)).golden.keys()


def test_a_recording_is_not_changed_by_what_happens_to_the_inputs_later() -> None:
    x = torch.randn(2, 4)
    capture = record(nn.ReLU(), x)
    kept = x.clone()
    x.zero_()
    torch.testing.assert_close(value(capture, "ReLU<0"), kept, rtol=0, atol=0)


def test_a_recording_is_not_changed_by_what_happens_to_the_model_later() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(2, 4))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x * self.weight, self.weight.T

    model = Own()
    capture = record(model, torch.randn(2, 4))
    kept = model.weight.detach().clone()
    with torch.no_grad():
        model.weight.zero_()
    torch.testing.assert_close(value(capture, "Own:1"), kept.T, rtol=0, atol=0)


def test_a_module_inside_another_that_runs_another_graph_the_second_time() -> None:
    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Linear(4, 4)
            self.register_buffer("table", torch.randn(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.dense(x) * torch.tensor([1.0, 2.0, 3.0, 4.0]) + self.table

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.norm = Inner(), nn.LayerNorm(4)

        def forward(self, x: torch.Tensor, normed: bool) -> torch.Tensor:
            return self.norm(self.inner(x)) if normed else self.inner(self.inner(x).relu())

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.outer = Outer()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.outer(self.outer(x, False), True)

    model = Net().eval()
    x = torch.randn(2, 4)
    capture = record(model, x)
    assert "outer@1.inner@2.dense" in capture.graph.modules
    assert {module.path for module in capture.graph.modules.values()} == {
        *("", "outer", "outer.inner", "outer.inner.dense", "outer.norm"),
    }
    assert set(capture.weights) - model.state_dict().keys() == {"outer.inner.constant_0"}
    with torch.no_grad():
        torch.testing.assert_close(value(capture, "Net"), model(x), rtol=0, atol=0)


def test_saving_before_recording_is_a_coded_error(tmp_path: Path) -> None:
    with pytest.raises(TorchportError, match="TP0206"):
        GoldenRecorder(tmp_path).save("net")
    assert not list(tmp_path.iterdir())


def test_a_new_recording_leaves_nothing_of_an_older_one(tmp_path: Path) -> None:
    record(models.Stack(), torch.randn(2, 8), name="net").save(tmp_path)
    with torch.device("meta"):
        model = models.Stack()
    record(model, torch.randn(2, 8), name="net").save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["net_manifest.json"]


@pytest.mark.parametrize("name", ["p@1", "p#1", "p<0", "p:1", "p@x"])
def test_a_module_with_the_name_of_another_ones_call_is_refused(name: str) -> None:
    class Keyed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleDict({"p": nn.Linear(8, 8), name: nn.Linear(8, 8)})

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.parts[name](self.parts["p"](self.parts["p"](x)))  # type: ignore[no-any-return]

    with pytest.raises(TorchportError, match=f"TP0209.*a module of the model is called 'parts.{name}'"):
        record(Keyed(), torch.randn(2, 8))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_truth_of_a_norm_without_eps_has_the_one_that_torch_takes(dtype: torch.dtype) -> None:
    x = (torch.randn(64, 32) * 3e-4).to(dtype)
    capture = record(nn.RMSNorm(32).to(dtype), (x,))
    distances = [float(distance.abs().max()) for distance in capture.truth.values()]
    assert distances and max(distances) < 4 * torch.finfo(dtype).eps
