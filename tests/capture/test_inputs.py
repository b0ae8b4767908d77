"""Inputs and outputs of every shape and dtype are recorded as they are."""

from typing import Any

import pytest
import torch
from torch import nn

from torchport import TorchportError
from torchport.capture.recorder import Capture, record

from . import models
from .test_recorder import value


def outputs(capture: Capture) -> list[torch.Tensor]:
    root = capture.plan.calls[capture.plan.root]
    return [value(capture, key) for key in root.outputs]


def inputs(capture: Capture) -> dict[str, torch.Tensor]:
    root = capture.plan.calls[capture.plan.root]
    names = [item.name for item in capture.graph.root.inputs]
    return {name: value(capture, key) for name, key in zip(names, root.inputs, strict=True)}


def same(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    assert ours.dtype == theirs.dtype
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


X = torch.arange(8.0).reshape(2, 4) / 8
MASK = X > 0.5
BIAS = torch.ones(4)


@pytest.mark.parametrize(
    ("args", "kwargs", "names"),
    [
        ((X,), {}, ["x"]),
        ((X, MASK), {}, ["x", "mask"]),
        ((X, None, 3), {}, ["x"]),
        ((X,), {"bias": BIAS}, ["x", "bias"]),
        ((X,), {"bias": BIAS, "mask": MASK}, ["x", "bias", "mask"]),
        ((X,), {"scale": 5, "mask": None}, ["x"]),
        ((), {"bias": BIAS, "x": X}, ["bias", "x"]),
    ],
    ids=["tensor", "two", "none-and-int", "keyword", "keywords-in-any-order", "int-keyword", "all-keywords"],
)
def test_arguments_of_every_kind(args: tuple, kwargs: dict[str, Any], names: list[str]) -> None:
    model = models.Options().eval()
    capture = record(model, args, kwargs)
    assert capture.export_error is None
    given = inputs(capture)
    assert sorted(given) == sorted(names)
    for name, tensor in given.items():
        same(tensor, {"x": X, "mask": MASK, "bias": BIAS}[name])
    with torch.no_grad():
        same(outputs(capture)[0], model(*args, **kwargs))


def test_nested_dicts_lists_and_tuples() -> None:
    model = models.Nested()
    batch = {"x": X, "deep": {"y": X + 1}}
    extra = (X * 2, X * 3)
    capture = record(model, (batch, extra))
    assert list(inputs(capture)) == ["batch.x", "batch.deep.y", "extra.0", "extra.1"]
    expected = model(batch, extra)
    ours = outputs(capture)
    assert capture.graph.output_names == ("['sum']", "['pair'][0]", "['pair'][1][0]")
    same(ours[0], expected["sum"])
    same(ours[1], expected["pair"][0])
    same(ours[2], expected["pair"][1][0])


def test_a_model_output_is_a_tree_like_any_other() -> None:
    generic = pytest.importorskip("transformers.modeling_outputs")

    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return generic.BaseModelOutput(last_hidden_state=x * 2, hidden_states=(x, x + 1))

    capture = record(Model(), X)
    assert capture.export_error is None
    for ours, theirs in zip(outputs(capture), (X * 2, X, X + 1), strict=True):
        same(ours, theirs)


def test_dtypes_stay_as_they_are() -> None:
    args = (
        torch.tensor([[1, 2**40, -5]]),
        torch.tensor([[True, False, True]]),
        torch.tensor([[100, -128, 27]], dtype=torch.int8),
        torch.tensor([[1.5, -2.25, 3.0]], dtype=torch.bfloat16),
    )
    model = models.Dtypes()
    capture = record(model, args)
    for tensor, theirs in zip(inputs(capture).values(), args, strict=True):
        same(tensor, theirs)
    for ours, theirs in zip(outputs(capture), model(*args), strict=True):
        same(ours, theirs)


def test_dtypes_survive_the_file(tmp_path) -> None:
    from safetensors.torch import load_file

    args = (
        torch.tensor([[1, 2**40]]),
        torch.tensor([[True, False]]),
        torch.tensor([[7, -8]], dtype=torch.int8),
        torch.ones(1, 2, dtype=torch.bfloat16),
    )
    capture = record(models.Dtypes(), args, name="net")
    saved = load_file(capture.save(tmp_path)["trace"])
    assert saved.keys() == capture.golden.keys()
    for key, tensor in capture.golden.items():
        same(saved[key], tensor)


def test_token_ids_stay_integers_through_an_embedding() -> None:
    ids = torch.randint(0, 11, (2, 5))
    capture = record(models.Tied(), ids)
    same(inputs(capture)["ids"], ids)
    assert capture.graph.root.inputs[0].meta.dtype == "int64"


def test_inputs_that_are_not_contiguous() -> None:
    x = torch.randn(4, 2).t()
    capture = record(nn.Linear(4, 3), x)
    same(inputs(capture)["input"], x)


def test_a_model_without_inputs() -> None:
    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.value = nn.Parameter(torch.randn(3))

        def forward(self) -> torch.Tensor:
            return self.value * 2

    model = Constant()
    same(outputs(record(model, ()))[0], (model.value * 2).detach())


def test_an_output_that_is_no_tensor_is_refused() -> None:
    class Number(nn.Module):
        def forward(self, x: torch.Tensor) -> int:
            return x.shape[0]

    with pytest.raises(TorchportError, match="TP0205.*Number returns no tensor"):
        record(Number(), X)


def test_an_output_of_an_unknown_class_is_named() -> None:
    class Box:
        def __init__(self, content: torch.Tensor) -> None:
            self.content = content

    class Boxed(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, Box]:
            return x * 2, Box(x)

    with pytest.raises(TorchportError, match="TP0205.*an output.*Box"):
        record(Boxed(), X)


def test_lazy_layers_are_refused_with_the_way_out() -> None:
    with pytest.raises(TorchportError, match="TP0201.*lazy") as caught:
        record(nn.LazyLinear(3), X)
    assert "once" in (caught.value.fix or "")


def test_tensors_that_are_not_dense_are_refused() -> None:
    with pytest.raises(TorchportError, match="TP0205.*an input is a sparse_coo tensor"):
        record(nn.ReLU(), torch.eye(3).to_sparse())


# Deprecated or not, there are such models.
@pytest.mark.filterwarnings(
    r"ignore:`torch\.jit\.trace(_method)?` is deprecated:FutureWarning:torch.jit._trace"
)
def test_a_torchscript_model_is_refused_with_the_way_out() -> None:
    with pytest.raises(TorchportError, match="TP0202.*TorchScript") as caught:
        record(torch.jit.trace(nn.Linear(4, 3), X), X)
    assert "nn.Module" in (caught.value.fix or "")


def test_any_number_of_inputs_and_keywords() -> None:
    class Sum(nn.Module):
        def forward(self, *terms: torch.Tensor, **named: torch.Tensor) -> torch.Tensor:
            return sum(terms) * named["scale"]

    capture = record(Sum(), (X, X + 1), {"scale": X + 2})
    assert list(inputs(capture)) == ["terms0", "terms1", "scale"]
    same(outputs(capture)[0], (X + X + 1) * (X + 2))
