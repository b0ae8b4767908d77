"""A call by itself as a graph of operations, forward or with its backward pass, for the reference and the candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from torchport.candidates.flow import wanting_gradient
from torchport.candidates.fx_graph import graph_of
from torchport.candidates.isolation import IsolatedCall
from torchport.candidates.precision import like
from torchport.candidates.tracing import Traced, lift_constants, trace
from torchport.candidates.weight_names import NamedWeights, seen_from
from torchport.capture import graph as g
from torchport.errors import CaptureError
from torchport.explain.alignment import Runnable
from torchport.runs.folder import file_name

_MOST_OPERATIONS = 1000
"""A larger graph is not looked into: its values would take too much time and memory."""


@dataclass(frozen=True)
class TracedCall:
    """The graph of a call, its weights and its inputs, on the CPU, and the trace keys of inputs and outputs."""

    graph: g.Graph
    weights: dict[str, Tensor]
    full_names: dict[str, str]
    """For each weight of the reference, by its name in the graph, the name in the model."""
    inputs: dict[str, Tensor]
    outputs: tuple[str, ...]

    @property
    def runnable(self) -> Runnable:
        return Runnable(self.graph, self.weights, list(self.inputs.values()))


@dataclass(frozen=True)
class WeightNaming:
    """How the weights of a call are called in its graph."""

    known: NamedWeights
    prefix: str = ""
    """Stands before the name of a tensor that is no weight of the reference."""

    def full_names(self, tensors: Mapping[str, Tensor], path: str) -> dict[str, str]:
        """For each tensor that is a weight of the reference, by its name in the module, the name in the reference."""
        found = {name: self.known.name_of(tensor, path) for name, tensor in tensors.items()}
        return {name: full for name, full in found.items() if full is not None}


def traced_forward(call: IsolatedCall, naming: WeightNaming, keys: Sequence[str]) -> TracedCall:
    """The operations between the borders of the call: what it computes at `keys`, from golden values."""
    given, state = call.given, call.state

    def forward(*tensors: Tensor) -> list[Tensor]:
        values, weights = tensors[: len(given)], tensors[len(given) :]
        computed = call.compute(dict(zip(given, values, strict=True)), dict(zip(state, weights, strict=True)))
        return [computed[key] for key in keys]

    return _traced(call, forward, {key: value.detach() for key, value in given.items()}, naming, keys)


def traced_backward(
    call: IsolatedCall,
    naming: WeightNaming,
    cotangents: Mapping[str, Tensor],
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> TracedCall:
    """The same with the backward pass, from golden gradients: the gradients of what the call works with.

    The keys are those of the gradients; a parameter's key is the reference's name. `shapes` says which gradients are
    wanted, and one that does not arrive is 0; without it, these are all that arrive.
    """
    values = {key: wanting_gradient(value) for key, value in call.given.items()}
    starts = {key: gradient for key, gradient in cotangents.items() if key in call.border.computed}
    state = call.state
    inputs = {value_key(key): value for key, value in values.items()} | starts
    names = naming.full_names(state, call.border.call.path)
    found = list(shapes or ())

    def backward(*tensors: Tensor) -> list[Tensor]:
        given = dict(zip(values, tensors, strict=False))
        gradients = dict(zip(starts, tensors[len(values) :], strict=False))
        weights = dict(zip(state, tensors[len(inputs) :], strict=True))
        copies = {key: value.clone() for key, value in given.items()}
        computed = call.compute(copies, weights)
        outputs = [(computed[key], like(gradients[key], computed[key])) for key in starts]
        ends = {**given, **{names[name]: weight for name, weight in weights.items() if name in names}}
        arrived = _gradients([pair for pair in outputs if pair[0].requires_grad], ends)
        if shapes is None:
            found.extend(arrived)
            return list(arrived.values())
        return [arrived[key] if key in arrived else torch.zeros(shape) for key, shape in shapes.items()]

    return _traced(call, backward, inputs, naming, found, is_backward=True)


def value_key(key: str) -> str:
    """The key of a value among those of a backward pass, where `key` itself is that of its gradient."""
    return f"value of {key}"


def _gradients(outputs: list[tuple[Tensor, Tensor]], ends: Mapping[str, Tensor]) -> dict[str, Tensor]:
    wanted = {key: end for key, end in ends.items() if end.requires_grad}
    if not outputs or not wanted:
        return {}
    starts, given = zip(*outputs, strict=True)
    found = torch.autograd.grad(starts, list(wanted.values()), given, allow_unused=True)
    return {key: value for key, value in zip(wanted, found, strict=True) if value is not None}


def _traced(
    call: IsolatedCall,
    function: Traced,
    inputs: Mapping[str, Tensor],
    naming: WeightNaming,
    outputs: Sequence[str],
    *,
    is_backward: bool = False,
) -> TracedCall:
    """`outputs` may be filled while the function is traced."""
    path, state = call.border.call.path, call.state
    leaves = [
        tensor.detach().requires_grad_(tensor.requires_grad and is_backward) for tensor in state.values()
    ]
    traced = trace(function, [*inputs.values(), *leaves], backward=is_backward)
    if len(traced.graph.nodes) > _MOST_OPERATIONS:
        raise CaptureError("TP0202", f"it has more than {_MOST_OPERATIONS} operations")
    constants = {f"constant_{index}": tensor for index, tensor in enumerate(lift_constants(traced))}
    tensors = {**state, **constants}
    known = naming.full_names(tensors, path)
    names = {
        name: seen_from(path, known[name]) if name in known else f"{naming.prefix}{name}" for name in tensors
    }
    places = {len(inputs) + index: name for index, name in enumerate(names.values())}
    graph = graph_of(traced, places, type=call.border.call.type, name=file_name(call.border.call.name))
    if len(graph.root.outputs) != len(outputs):
        raise CaptureError("TP0202", "the graph has other outputs than the call")
    weights = {names[name]: tensor for name, tensor in tensors.items()}
    return TracedCall(
        graph,
        {name: _on_cpu(weights[name]) for name in graph.weights},
        {names[name]: full for name, full in known.items() if names[name] in graph.weights},
        {key: _on_cpu(value) for key, value in inputs.items()},
        tuple(outputs),
    )


def _on_cpu(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().clone()
