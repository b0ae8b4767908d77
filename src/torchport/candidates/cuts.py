"""Gradients at the borders of calls: as they flow, and with the graph cut at every border.

Cut, each call works on golden inputs, and its backward pass starts from the golden gradients of its outputs. What
comes out is its own doing: the gradients of its inputs and its parameters. So is what arrives at a call's output
the doing of the code that called it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
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
Starts = list[tuple[Tensor, Tensor | None]]
"""What a backward pass starts from, with the gradient that it starts with."""
_Change = Callable[[str, Tensor], Tensor]


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
    unrecorded: set[str] = field(default_factory=set)
    """The calls in whose forward pass no gradients are recorded."""
    arrived: Gradients | None = None
    """The gradients that come to the borders, if they are noted as they come."""

    def enter(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        self.calls[call.name] = call
        self.events.append(("enter", call.name))
        self.given_at[call.name] = places
        if not torch.is_grad_enabled():
            self.unrecorded.add(call.name)
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

    def enter_again(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        return self._again(self.inputs[call.name], call, tensors)

    def leave_again(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        return self._again(self.outputs[call.name], call, tensors)

    def _again(self, keys: list[str], call: WatchedCall, tensors: list[Tensor]) -> list[Tensor]:
        if call.name not in self.unrecorded:
            return tensors
        return [self._bordered(key, tensor) for key, tensor in zip(keys, tensors, strict=True)]

    def raised(self, call: WatchedCall) -> None:
        self.failed.add(call.name)
        self.leave(call, [], [])

    @property
    def ends(self) -> Mapping[str, Tensor | GradientEdge]:
        return self.edges

    def note_arrivals(self) -> None:
        """From now on the gradients that come to the borders are noted."""
        self.arrived = {}
        for key, edge in self.edges.items():
            self._note_arrival(key, edge)

    def _note_arrival(self, key: str, edge: GradientEdge) -> None:
        arrived = self.arrived

        def note(gradients: tuple[Tensor | None, ...]) -> None:
            gradient = gradients[edge.output_nr]
            if arrived is not None and gradient is not None:
                arrived[key] = gradient.detach().clone()

        edge.node.register_prehook(note)

    def arrivals(self) -> Gradients:
        found = self.arrived or {}
        return {key: found.get(key) for key in self.edges}

    def further_starts(self) -> Starts:
        return []

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
        if self.arrived is not None:
            self._note_arrival(key, self.edges[key])
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
    starts: Starts = field(default_factory=list)
    late_starts: dict[str, Starts] = field(default_factory=dict)
    """By call, those of calls in whose forward pass no gradients are recorded."""
    repeated: set[str] = field(default_factory=set)
    """The calls among these that a reentrant checkpoint made again in the backward pass, recording gradients."""
    arrived: Gradients = field(default_factory=dict)
    """What came to the borders of these."""
    leaves: dict[str, Tensor] = field(default_factory=dict)
    """What was handed on, by key: the gradient that comes back to it is what the border is judged by."""

    def enter(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        if not torch.is_grad_enabled():
            self.late_starts[call.name] = []
        return self._entered(call, tensors, places, partial(self._cut, call))

    def leave(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        return self._left(call, tensors, places, partial(self._cut, call))

    def enter_again(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        return self._entered(call, tensors, places, self._again(call))

    def leave_again(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        return self._left(call, tensors, places, self._again(call))

    def _again(self, call: WatchedCall) -> _Change:
        if call.name not in self.late_starts or not torch.is_grad_enabled():
            return self._handed_again
        self.repeated.add(call.name)
        return self._passed

    def raised(self, call: WatchedCall) -> None:
        pass

    @property
    def ends(self) -> Mapping[str, Tensor | GradientEdge]:
        return self.leaves

    def note_arrivals(self) -> None:
        pass  # They are noted at the leaves.

    def arrivals(self) -> Gradients:
        return {key: leaf.grad for key, leaf in self.leaves.items()} | self.arrived

    def further_starts(self) -> Starts:
        """Those of calls in whose forward pass no gradients were recorded, and which were not made again."""
        late, self.late_starts = self.late_starts, {}
        return [start for call, starts in late.items() if call not in self.repeated for start in starts]

    def _entered(
        self, call: WatchedCall, tensors: list[Tensor], places: list[Path], change: _Change
    ) -> list[Tensor]:
        if not self.compared(call.name) or not self.with_inputs(call.name):
            return tensors
        known = self.golden.given_at[call.name]
        return _each(self.golden.inputs[call.name], known, tensors, places, change)

    def _left(
        self, call: WatchedCall, tensors: list[Tensor], places: list[Path], change: _Change
    ) -> list[Tensor]:
        if not self.compared(call.name):
            return tensors
        known = self.golden.returned_at[call.name]
        return _each(self.golden.outputs[call.name], known, tensors, places, change)

    def _cut(self, call: WatchedCall, key: str, tensor: Tensor) -> Tensor:
        gradient = self.gradients.get(key)
        if self.golden.values[key].shape == tensor.shape and tensor.requires_grad and gradient is not None:
            self.late_starts.get(call.name, self.starts).append((tensor, like(gradient, tensor)))
        handed = self._golden(key, tensor)
        if handed is tensor or not handed.requires_grad:
            return handed
        self.leaves[key] = handed
        return handed.clone()

    def _passed(self, key: str, tensor: Tensor) -> Tensor:
        """The same inside of a backward pass, which goes on by itself with the golden gradient."""
        handed = self._golden(key, tensor)
        if handed is tensor or not handed.requires_grad:
            return handed
        if tensor.requires_grad:
            gradient = self.gradients.get(key)
            given = None if gradient is None else like(gradient, tensor)
            passed: Tensor = _GoldenBorder.apply(tensor, handed.detach(), given, partial(self._note, key))  # type: ignore[no-untyped-call]
            return passed
        self.leaves[key] = handed
        return handed.clone()

    def _note(self, key: str, gradient: Tensor) -> None:
        self.arrived[key] = gradient.detach().clone()

    def _handed_again(self, key: str, tensor: Tensor) -> Tensor:
        handed = self._golden(key, tensor)
        return handed.clone() if handed.is_leaf and handed.requires_grad else handed

    def _golden(self, key: str, tensor: Tensor) -> Tensor:
        """The golden value as a tensor without a past, which wants a gradient if either side's did."""
        value = self.golden.values[key]
        if value.shape != tensor.shape:
            return tensor
        handed = like(value, tensor)
        if not (tensor.requires_grad or key in self.golden.edges):
            return handed
        return wanting_gradient(handed)


class _GoldenBorder(torch.autograd.Function):
    """Hands on a golden value, and on the way back a golden gradient; what arrives there is noted."""

    @staticmethod
    def forward(
        ctx: Any, tensor: Tensor, value: Tensor, gradient: Tensor | None, note: Callable[[Tensor], None]
    ) -> Tensor:
        ctx.gradient, ctx.note = gradient, note
        return value.clone()

    @staticmethod
    def backward(ctx: Any, arriving: Tensor) -> tuple[Tensor | None, None, None, None]:  # type: ignore[override]
        ctx.note(arriving)
        return ctx.gradient, None, None, None


def _each(
    keys: list[str], known: list[Path], tensors: list[Tensor], places: list[Path], change: _Change
) -> list[Tensor]:
    chosen = partners(known, places)
    result = list(tensors)
    for key, index in zip(keys, chosen or [], strict=chosen is not None):
        result[index] = change(key, tensors[index])
    return result


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


def gradients_of(starts: Starts, ends: Mapping[str, Tensor | GradientEdge]) -> Gradients:
    """The gradient of each end, None where none arrives. No `.grad` is touched."""
    wanted = {key: end for key, end in ends.items() if not isinstance(end, Tensor) or end.requires_grad}
    found: Sequence[Any] = [None] * len(wanted)
    if starts and wanted:
        outputs, given = zip(*starts, strict=True)
        asked: Any = list(wanted.values())
        found = torch.autograd.grad(outputs, asked, given, allow_unused=True)
    arrived = dict(zip(wanted, found, strict=True))
    return {key: None if arrived.get(key) is None else arrived[key].detach() for key in ends}
