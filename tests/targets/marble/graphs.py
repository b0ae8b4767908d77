"""Models as neuron graphs, for tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from torchport.capture.attempt import attempt
from torchport.capture.export import flatten_inputs
from torchport.targets.marble.convert import convert
from torchport.targets.marble.groups import NeuronGraph


@dataclass(frozen=True)
class Converted:
    """A graph, the arrays that it reads, its inputs, and what the model itself computes."""

    graph: NeuronGraph
    arrays: dict[str, Tensor]
    inputs: list[Tensor]
    expected: list[Tensor]


def converted(model: nn.Module, *args: Any, **kwargs: Any) -> Converted:
    """A model that is converted without a TODO."""
    model = model.eval()
    with torch.no_grad():
        outputs = torch.utils._pytree.tree_leaves(model(*args, **kwargs))
        exported = attempt(model, args, kwargs, name="model", wish={}, decompose=None)
    inputs = [leaf for leaf in flatten_inputs(model, args, kwargs)[0] if isinstance(leaf, Tensor)]
    names = [item.name for item in exported.graph.root.inputs]
    shapes = {name: tuple(value.shape) for name, value in zip(names, inputs, strict=True)}
    made = convert(exported.graph, shapes)
    assert not made.todos, made.todos
    arrays = {**exported.weights, **made.made}
    return Converted(made.graph, arrays, inputs, [one for one in outputs if isinstance(one, Tensor)])
