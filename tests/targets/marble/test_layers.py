"""Every layer with its options, as neurons, computes what torch does: by assemblies, and group by group."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

from torchport.capture.recorder import record
from torchport.targets.marble.convert import Converted, convert
from torchport.targets.marble.evaluate import by_groups
from torchport.targets.marble.target import TARGET

from . import layer_cases

pytestmark = pytest.mark.slow


class Bundle(nn.Module):
    """Many small models as one, so that they are captured at once."""

    def __init__(self, cases: Sequence[nn.Module]) -> None:
        super().__init__()
        self.cases = nn.ModuleList(cases)

    def forward(self, given: list[Any]) -> list[Any]:
        return [case(*inputs) for case, inputs in zip(self.cases, given, strict=True)]


def converted(model: nn.Module, inputs: Any) -> tuple[Converted, dict[str, torch.Tensor]]:
    """The neuron graph of a model that has one for each of its operations, and the graph's arrays."""
    capture = record(model, inputs, dynamic="", truth=False, decompose=lambda op: not TARGET.supports(op))
    assert capture.export_error is None
    shapes = {item.name: item.meta.shape for item in capture.graph.root.inputs}
    made = convert(capture.graph, shapes)  # type: ignore[arg-type]
    assert not made.todos
    return made, {**capture.weights, **made.made}


def tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def compare(cases: list[layer_cases.Case], rtol: float, atol: float) -> None:
    model, given = Bundle([case for case, _ in cases]).eval(), [list(inputs) for _, inputs in cases]
    made, arrays = converted(model, (given,))
    with torch.no_grad():
        wanted = [tensors(result) for result in model(given)]
    for opened in ((), None):
        outputs = iter(by_groups(made.graph, arrays, tensors(given), opened=opened))
        for (case, _), expected in zip(cases, wanted, strict=True):
            found = [next(outputs) for _ in expected]
            try:
                torch.testing.assert_close(found, expected, rtol=rtol, atol=atol, equal_nan=True)
            except AssertionError as error:
                raise AssertionError(f"{case}, opened: {opened is None}: {error}") from None


@pytest.mark.parametrize("topic", layer_cases.TOPICS)
def test_in_float64_it_is_right_but_for_rounding(topic: str) -> None:
    torch.set_default_dtype(torch.float64)
    try:
        compare(list(layer_cases.TOPICS[topic]()), rtol=1e-12, atol=1e-13)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_in_16_bits_it_is_rounded_where_torch_rounds(dtype: torch.dtype) -> None:
    eps = torch.finfo(dtype).eps
    compare(list(layer_cases.narrow(dtype)), rtol=2 * eps, atol=2 * eps)


def test_what_is_not_finite_stays_so() -> None:
    compare(list(layer_cases.not_finite()), rtol=1e-5, atol=1e-6)
