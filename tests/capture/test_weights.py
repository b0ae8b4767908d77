"""Weights of every kind: tied, shared, parametrised, buffers, and constants that forward makes."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from torchport import TorchportError
from torchport.capture.recorder import Capture, record, record_graph

from . import models

X = torch.linspace(-1, 1, 8).reshape(2, 4)


def kinds(capture: Capture) -> dict[str, str]:
    return {name: weight.kind for name, weight in capture.graph.weights.items()}


def is_exact(capture: Capture, model: nn.Module, *args: torch.Tensor) -> None:
    with torch.no_grad():
        expected = model.eval()(*args)
    root = capture.plan.resolve(capture.plan.root)
    torch.testing.assert_close(capture.golden[root], expected, rtol=0, atol=0)
    assert capture.export_error is None


def test_tied_weights_are_one_tensor_stored_once(tmp_path: Path) -> None:
    model = models.Tied()
    ids = torch.randint(0, 11, (2, 5))
    capture = record(model, ids)
    is_exact(capture, model, ids)
    assert capture.graph.weights["head.weight"].tied_to == "embed.weight"
    assert load_file(capture.save(tmp_path)["weights"]).keys() == {"embed.weight"}


def test_a_module_under_two_names_keeps_both() -> None:
    model = models.Shared()
    capture = record(model, X)
    is_exact(capture, model, X)
    assert {"first", "second"} <= capture.plan.calls.keys()
    tied = {weight.tied_to for weight in capture.graph.weights.values()}
    assert tied == {None, "first.weight", "first.bias"}


# The old one is deprecated, and in many models.
@pytest.mark.filterwarnings(
    r"ignore:`torch\.nn\.utils\.weight_norm` is deprecated:FutureWarning:torch.nn.utils.weight_norm"
)
def test_weight_norm_and_spectral_norm_new_and_old() -> None:
    model = models.Normed()
    model(X)
    capture = record(model, X)
    is_exact(capture, model, X)
    names = capture.graph.weights.keys()
    assert {f"weight_norm.parametrizations.weight.original{i}" for i in (0, 1)} <= names
    assert {"spectral_norm.parametrizations.weight.original", "old_weight_norm.weight_g"} <= names
    assert kinds(capture)["old_spectral_norm.weight_u"] == "buffer"


def test_parameters_used_directly_buffers_and_constants(tmp_path: Path) -> None:
    model = models.Tensors()
    capture = record(model, X)
    is_exact(capture, model, X)
    found = kinds(capture)
    assert (found["scale"], found["table"], found["scratch"]) == ("parameter", "buffer", "buffer")
    saved = load_file(capture.save(tmp_path)["weights"])
    assert torch.equal(saved["scratch"], model.scratch), "a buffer that state_dict leaves out is needed, too"
    constants = [saved[name] for name, kind in found.items() if kind == "constant"]
    assert any(torch.equal(c, torch.tensor([1.0, -2.0, 3.0, 0.5])) for c in constants)


def test_operations_in_place_become_values() -> None:
    model = models.InPlace()
    capture = record(model, X)
    is_exact(capture, model, X)
    operations = {node.op.split(".")[1] for node in capture.graph.root.nodes}
    assert not {name for name in operations if name.endswith("_")}
    assert torch.equal(capture.golden["InPlace<0"], X)


def test_weights_in_half_precision_and_integers() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.small = nn.Parameter(torch.randn(4).to(torch.bfloat16))
            self.register_buffer("order", torch.tensor([3, 1, 0, 2]))
            self.register_buffer("keep", torch.tensor([True, False, True, True]))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x.to(torch.bfloat16) * self.small)[:, self.order] * self.keep

    model = Mixed()
    capture = record(model, X)
    is_exact(capture, model, X)
    dtypes = {name: weight.meta.dtype for name, weight in capture.graph.weights.items()}
    assert dtypes == {"small": "bfloat16", "order": "int64", "keep": "bool"}


def test_other_inputs_are_recorded_along_the_same_graph() -> None:
    model = models.Tensors()
    capture = record(model, X)
    other = torch.randn(5, 4)
    again = record_graph(model, capture.graph, capture.weights, (other,), {})
    is_exact(again, model, other)
    assert again.plan.calls.keys() == capture.plan.calls.keys()


@pytest.mark.parametrize(
    "given", [torch.randn(5, 3), torch.randn(5, 4, 1), torch.ones(5, 4, dtype=torch.int64)]
)
def test_inputs_that_do_not_fit_the_graph_are_refused(given: torch.Tensor) -> None:
    model = nn.ReLU()
    capture = record(model, X)
    with pytest.raises(TorchportError, match=r"TP0208.*float32 \[batch, 4\]"):
        record_graph(model, capture.graph, capture.weights, (given,), {})


def test_another_number_of_inputs_is_refused() -> None:
    capture = record(models.Options(), (X, X > 0))
    with pytest.raises(TorchportError, match="TP0208.*2 tensors"):
        record_graph(models.Options(), capture.graph, capture.weights, (X,), {})


def test_a_model_with_other_weights_is_refused() -> None:
    capture = record(nn.Linear(4, 3), X)
    with pytest.raises(TorchportError, match="of shape"):
        record_graph(nn.Linear(4, 5), capture.graph, capture.weights, (X,), {})
