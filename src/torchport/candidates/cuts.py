"""Gradients at the borders of calls: as they flow, and with the graph cut at every border.

Cut, each call works on golden inputs, and its backward pass starts from the golden gradients of its outputs. What
comes out is its own doing: the gradients of its inputs and its parameters. So is what arrives at a call's output
the doing of the code that called it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from torchport.candidates.golden import GoldenPlan
from torchport.candidates.leaves import Path, partners
from torchport.candidates.precision import like
from torchport.candidates.probing import WatchedCall
from torchport.trace.plan import Call, Event, input_keys, output_keys

Gradients = dict[str, Tensor | None]


@dataclass
class Flow:
    """A probe that changes no value, and knows afterwards how to ask for the gradient at each border."""

    calls: dict[str, WatchedCall] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    inputs: dict[str, list[str]] = field(default_factory=dict)
    outputs: dict[str, list[str]] = field(default_factory=dict)
    values: dict[str, Tensor] = field(default_factory=dict)
    edges: dict[str, GradientEdge] = field(default_factory=dict)
    given_at: dict[str, list[Path]] = field(default_factory=dict)
    returned_at: dict[str, list[Path]] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    """The calls that ended in an error."""
    golden: Flow | None = None
    """The flow of the reference, whose keys a candidate's values have."""

    def enter(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        self.calls[call.name] = call
        self.events.append(("enter", call.name))
        self.given_at[call.name] = places
        known = places if self.golden is None else self.golden.given_at.get(call.name, places)
        self.inputs[call.name] = keys = _keys(call.name, input_keys, known, places)
        if call.parent is None:
            tensors = [wanting_gradient(tensor) for tensor in tensors]
        return [self._bordered(key, tensor) for key, tensor in zip(keys, tensors, strict=True)]

    def leave(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        self.events.append(("exit", call.name))
        self.returned_at[call.name] = places
        known = places if self.golden is None else self.golden.returned_at.get(call.name, places)
        self.outputs[call.name] = keys = _keys(call.name, output_keys, known, places)
        return [self._bordered(key, tensor) for key, tensor in zip(keys, tensors, strict=True)]

    def raised(self, call: WatchedCall) -> None:
        self.failed.add(call.name)
        self.leave(call, [], [])

    def plan(self, compared: Callable[[str], bool], with_inputs: Callable[[str], bool]) -> GoldenPlan:
        """The forward pass of the calls that are compared, with the value at each of their borders."""
        plan = GoldenPlan(self.events[0][1], values=self.values)
        plan.given_at, plan.returned_at = self.given_at, self.returned_at
        plan.events = [(kind, name) for kind, name in self.events if compared(name)]
        for _, name in (event for event in plan.events if event[0] == "exit"):
            call, inputs = self.calls[name], self.inputs[name] if with_inputs(name) else []
            parent = self.parent(call, compared)
            plan.calls[name] = Call(
                name, call.path, call.type, inputs, self.outputs[name], call.source, parent
            )
        return plan

    def parent(self, call: WatchedCall, compared: Callable[[str], bool]) -> str | None:
        """The nearest call that a call is made in and that is compared."""
        parent = call.parent
        while parent is not None and not compared(parent):
            parent = self.calls[parent].parent
        return parent

    def _bordered(self, key: str, tensor: Tensor) -> Tensor:
        self.values[key] = tensor.detach().clone()
        if not (tensor.requires_grad and torch.is_grad_enabled()):
            return tensor
        # A copy, because another call may be given the same tensor, and each has a gradient of its own.
        copy = tensor.clone()
        self.edges[key] = get_gradient_edge(copy)
        return copy


@dataclass
class Cut:
    """A probe that hands on golden values without a past, and collects what the backward pass starts from."""

    golden: Flow
    gradients: Gradients
    """The golden gradient at each border."""
    compared: Callable[[str], bool]
    with_inputs: Callable[[str], bool]
    """Whether the inputs of a call that is compared are, too."""
    starts: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    leaves: dict[str, Tensor] = field(default_factory=dict)
    """What was handed on, by key: the gradient that comes back to it is what the border is judged by."""

    def enter(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        if not self.compared(call.name) or not self.with_inputs(call.name):
            return tensors
        return self._each(self.golden.inputs[call.name], self.golden.given_at[call.name], tensors, places)

    def leave(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        if not self.compared(call.name):
            return tensors
        return self._each(self.golden.outputs[call.name], self.golden.returned_at[call.name], tensors, places)

    def raised(self, call: WatchedCall) -> None:
        pass

    def _each(
        self, keys: list[str], known: list[Path], tensors: list[Tensor], places: list[Path]
    ) -> list[Tensor]:
        chosen = partners(known, places)
        result = list(tensors)
        for key, index in zip(keys, chosen or [], strict=chosen is not None):
            result[index] = self._cut(key, tensors[index])
        return result

    def _cut(self, key: str, tensor: Tensor) -> Tensor:
        value, gradient = self.golden.values[key], self.gradients.get(key)
        if value.shape != tensor.shape:
            return tensor
        if tensor.requires_grad and gradient is not None:
            self.starts.append((tensor, like(gradient, tensor)))
        handed = like(value, tensor)
        if not (tensor.requires_grad or key in self.golden.edges):
            return handed
        self.leaves[key] = leaf = wanting_gradient(handed)
        return leaf.clone()


def _keys(
    name: str, keys_of: Callable[[str, int], list[str]], known: list[Path], places: list[Path]
) -> list[str]:
    """The reference's key for each tensor; one that the reference does not have gets a key of no meaning."""
    chosen = partners(known, places) or []
    keys = dict(zip(chosen, keys_of(name, len(chosen)), strict=True))
    return [keys.get(index, f"{name}+{index}") for index in range(len(places))]


def wanting_gradient(tensor: Tensor) -> Tensor:
    wants = tensor.is_floating_point() or tensor.is_complex()
    return tensor.detach().requires_grad_() if wants else tensor


def gradients_of(
    starts: Iterable[tuple[Tensor, Tensor | None]], ends: Mapping[str, Tensor | GradientEdge]
) -> Gradients:
    """The gradient of each end, None where none arrives. No `.grad` is touched."""
    pairs = [(start, gradient) for start, gradient in starts if start.requires_grad]
    wanted = {key: end for key, end in ends.items() if not isinstance(end, Tensor) or end.requires_grad}
    found: Sequence[Any] = [None] * len(wanted)
    if pairs and wanted:
        outputs, given = zip(*pairs, strict=True)
        asked: Any = list(wanted.values())
        found = torch.autograd.grad(outputs, asked, given, allow_unused=True)
    arrived = dict(zip(wanted, found, strict=True))
    return {key: None if arrived.get(key) is None else arrived[key].detach() for key in ends}
