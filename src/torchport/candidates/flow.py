"""Gradients at the borders of calls, as they flow through a whole model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from torchport.candidates.checkpoints import is_reentrant, nodes_behind
from torchport.candidates.leaves import Path
from torchport.candidates.probing import WatchedCall
from torchport.candidates.recorded_run import RecordedRun
from torchport.trace.plan import input_keys, output_keys

Gradients = Mapping[str, Tensor]
"""By key; a gradient that does not arrive is not there."""
Start = tuple[Tensor | GradientEdge, Tensor | None]
"""Where a backward pass starts, and the gradient there; None for that of a scalar."""


@dataclass
class Flow(RecordedRun[str]):
    """A probe that changes no value, and knows afterwards how to ask for the gradient at each border."""

    values: MutableMapping[str, Tensor] = field(default_factory=dict)
    edges: dict[str, GradientEdge] = field(default_factory=dict)
    """Where the gradient of each border is to be had, until it has been asked for."""
    flowing: frozenset[str] = frozenset()
    """The keys of the borders at which a gradient may arrive, once all have been asked for."""
    unrecorded: set[str] = field(default_factory=set)
    """The calls in whose forward pass no gradients are recorded."""
    arrived: dict[str, Tensor] | None = None
    """The gradients that come to the borders, if they are noted as they come."""

    def enter(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        self.log_enter(call, tensors, places)
        if not torch.is_grad_enabled():
            self.unrecorded.add(call.name)
        self.inputs[call.name] = keys = input_keys(call.name, len(tensors))
        if call.parent is None:
            tensors = [wanting_gradient(tensor) for tensor in tensors]
        return [self._bordered(key, tensor) for key, tensor in zip(keys, tensors, strict=True)]

    def leave(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        self.log_leave(call, tensors, places)
        self.outputs[call.name] = keys = output_keys(call.name, len(tensors))
        return [self._bordered(key, tensor) for key, tensor in zip(keys, tensors, strict=True)]

    def enter_again(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        return self._again(self.inputs[call.name], call, tensors)

    def leave_again(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        return self._again(self.outputs[call.name], call, tensors)

    def _again(self, keys: list[str], call: WatchedCall, tensors: list[Tensor]) -> list[Tensor]:
        if call.name not in self.unrecorded:
            return tensors
        return [self._bordered(key, tensor) for key, tensor in zip(keys, tensors, strict=True)]

    def raised_again(self, call: WatchedCall) -> None:
        pass

    def value(self, identity: str) -> Tensor:
        return self.values[identity]

    def gradients(self, starts: Sequence[Start], parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The gradients that arrive at the borders and at the parameters, which must have none before.

        The borders can be asked once.
        """
        nodes = nodes_behind(
            node
            for start, _ in starts
            if (node := start.grad_fn if isinstance(start, Tensor) else start.node) is not None
        )
        if is_reentrant(nodes):
            found = self._noted_gradients(starts, parameters)
        else:
            found = gradients_of(starts, {**self.edges, **parameters})
        self.flowing = frozenset(self.edges)
        self.edges.clear()
        return found

    def _noted_gradients(
        self, starts: Sequence[Start], parameters: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        arrived: dict[str, Tensor] = {}
        self.arrived = arrived
        for key, edge in self.edges.items():
            self._note_arrival(key, edge)
        return gone_back(starts, parameters) | arrived

    def _note_arrival(self, key: str, edge: GradientEdge) -> None:
        arrived = self.arrived

        def note(gradients: tuple[Tensor | None, ...]) -> None:
            gradient = gradients[edge.output_nr]
            if arrived is not None and gradient is not None:
                arrived[key] = gradient.detach().clone()

        edge.node.register_prehook(note)

    def _bordered(self, key: str, tensor: Tensor) -> Tensor:
        self.values[key] = tensor.detach().clone()
        if not (tensor.requires_grad and torch.is_grad_enabled()):
            return tensor
        # A copy, because another call may be given the same tensor, and each has a gradient of its own.
        copy = tensor.clone()
        self.edges[key] = get_gradient_edge(copy)
        if self.arrived is not None:
            self._note_arrival(key, self.edges[key])
        return copy


def wanting_gradient(tensor: Tensor) -> Tensor:
    wants = tensor.is_floating_point() or tensor.is_complex()
    return tensor.detach().requires_grad_() if wants else tensor


def gradients_of(
    starts: Iterable[Start], ends: Mapping[str, Tensor | GradientEdge], *, keep_graph: bool = False
) -> dict[str, Tensor]:
    """The gradient of each end at which one arrives. No `.grad` is touched."""
    pairs = _recorded(starts)
    wanted = {key: end for key, end in ends.items() if not isinstance(end, Tensor) or end.requires_grad}
    if not pairs or not wanted:
        return {}
    outputs, given = zip(*pairs, strict=True)
    asked: Any = list(wanted.values())
    found: Sequence[Any] = torch.autograd.grad(
        outputs, asked, given, allow_unused=True, retain_graph=keep_graph
    )
    arrived = zip(wanted, found, strict=True)
    return {key: gradient.detach() for key, gradient in arrived if gradient is not None}


def gone_back(
    starts: Iterable[Start], leaves: Mapping[str, Tensor], *, keep_graph: bool = False
) -> dict[str, Tensor]:
    """The same for leaves, which must have no `.grad` before, on a way that only `backward` can go."""
    pairs = _recorded(starts)
    try:
        if pairs:
            outputs, given = zip(*pairs, strict=True)
            torch.autograd.backward(outputs, given, retain_graph=keep_graph)
        return {key: leaf.grad for key, leaf in leaves.items() if leaf.grad is not None}
    finally:
        for leaf in leaves.values():
            leaf.grad = None


def _recorded(starts: Iterable[Start]) -> list[Start]:
    return [
        (start, gradient)
        for start, gradient in starts
        if isinstance(start, GradientEdge) or start.requires_grad
    ]
