"""Gradients at the borders of calls: as they flow, and with the graph cut at every border.

Cut, each call works on golden inputs, and its backward pass starts from the golden gradients of its outputs. What
comes out is its own doing: the gradients of its inputs and its parameters. So is what arrives at a call's output
the doing of the code that called it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge
from torch.utils.weak import WeakTensorKeyDictionary

from torchport.candidates.call_log import CallLog
from torchport.candidates.golden import GoldenPlan
from torchport.candidates.leaves import Path
from torchport.candidates.lockstep import at_places
from torchport.candidates.masks import in_form_of
from torchport.candidates.precision import NARROW, like
from torchport.candidates.probing import WatchedCall
from torchport.candidates.stored_tensors import StoredTensors
from torchport.trace.plan import input_keys, output_keys

Gradients = Mapping[str, Tensor]
"""By key; a gradient that does not arrive is not there."""
Start = tuple[Tensor | GradientEdge, Tensor | None]
"""Where a backward pass starts, and the gradient there; None for that of a scalar."""


@dataclass
class Flow(CallLog[str]):
    """A probe that changes no value, and knows afterwards how to ask for the gradient at each border."""

    values: MutableMapping[str, Tensor] = field(default_factory=dict)
    edges: dict[str, GradientEdge] = field(default_factory=dict)
    """Where the gradient of each border is to be had, until it has been asked for."""
    flowing: frozenset[str] = frozenset()
    """The keys of the borders at which a gradient may arrive, once all have been asked for."""

    def enter(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        self.log_enter(call, tensors, places)
        self.inputs[call.name] = keys = input_keys(call.name, len(tensors))
        if call.parent is None:
            tensors = [wanting_gradient(tensor) for tensor in tensors]
        return [self._bordered(key, tensor) for key, tensor in zip(keys, tensors, strict=True)]

    def leave(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        self.log_leave(call, tensors, places)
        self.outputs[call.name] = keys = output_keys(call.name, len(tensors))
        return [self._bordered(key, tensor) for key, tensor in zip(keys, tensors, strict=True)]

    def value(self, identity: str) -> Tensor:
        return self.values[identity]

    def _bordered(self, key: str, tensor: Tensor) -> Tensor:
        self.values[key] = tensor.detach().clone()
        if not tensor.requires_grad:
            return tensor
        # A copy, because another call may be given the same tensor, and each has a gradient of its own.
        copy = tensor.clone()
        self.edges[key] = get_gradient_edge(copy)
        return copy


@dataclass
class _Segment:
    """What one call computes by itself, between its borders and those of the calls inside it."""

    starts: list[tuple[GradientEdge, Tensor]] = field(default_factory=list)


@dataclass
class Cut:
    """A probe that hands on golden values without a past, and collects the gradients that come back to them.

    The backward pass of a call runs as soon as the call has ended, so that only one call's graph is there at a time,
    beside what the calls around it have computed by themselves.
    """

    plan: GoldenPlan
    side: str
    """The model that is run: `reference` or `candidate`."""
    gradients: Gradients
    """The golden gradient at each border."""
    flowing: frozenset[str]
    """The keys of the borders at which a gradient may arrive in the reference."""
    parameters: Mapping[str, Tensor]
    found: StoredTensors
    is_wide: bool = False
    """Whether all is computed in float64."""
    narrow: list[Tensor] = field(default_factory=list)
    """Parameters that were not in float64 when they were used, though all is to be; then `found` lacks gradients."""
    segments: list[_Segment] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.names: dict[Tensor, list[str]] = {}
        for name, parameter in self.parameters.items():
            self.names.setdefault(parameter, []).append(name)
        # What was handed on, with its key: the gradient that comes back to it is what the border is judged by.
        self.handed: MutableMapping[Tensor, str] = WeakTensorKeyDictionary()

    def enter(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        step = self.plan.calls.get(call.name)
        if step is None:
            return tensors
        outside = self.segments[-1] if self.segments else None
        self.segments.append(_Segment())
        pairs = at_places(step.inputs, self.plan.places[self.side].given[call.name], places)
        return self._each(pairs, tensors, outside)

    def leave(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        step = self.plan.calls.get(call.name)
        if step is None:
            return tensors
        segment = self.segments.pop()
        if not (self.side == "candidate" and call.name in self.plan.without_outputs):
            pairs = at_places(step.outputs, self.plan.places[self.side].returned[call.name], places)
            tensors = self._each(pairs, tensors, segment, is_last=not self.segments)
        self._go_back(segment)
        return tensors

    def _each(
        self,
        pairs: list[tuple[str, int]],
        tensors: list[Tensor],
        computed_in: _Segment | None,
        *,
        is_last: bool = False,
    ) -> list[Tensor]:
        """The tensors to go on with; nothing comes after the last ones, so that no gradient comes back to them."""
        result = list(tensors)
        for key, index in pairs:
            result[index] = self._cut(key, tensors[index], computed_in, is_last)
        return result

    def _cut(self, key: str, tensor: Tensor, computed_in: _Segment | None, is_last: bool) -> Tensor:
        value, gradient = self.plan.value(key), self.gradients.get(key)
        if value.shape != tensor.shape:
            return tensor
        if computed_in is not None and tensor.requires_grad and gradient is not None:
            computed_in.starts.append((get_gradient_edge(tensor), like(gradient, tensor)))
        handed = like(in_form_of(tensor, value), tensor)
        if is_last or not (tensor.requires_grad or key in self.flowing):
            return handed
        leaf = wanting_gradient(handed)
        self.handed[leaf] = key
        return leaf.clone()

    def _go_back(self, segment: _Segment) -> None:
        """Collects the gradients of a segment. A tensor that came past the borders leads into those around it."""
        ends: dict[str, Tensor] = {}
        nodes = _nodes_behind(edge.node for edge, _ in segment.starts)
        for variable in (getattr(node, "variable", None) for node in nodes):
            if isinstance(variable, Tensor):
                keys = [self.handed[variable]] if variable in self.handed else self.names.get(variable, [])
                ends |= dict.fromkeys(keys, variable)
        narrow = [end for end in ends.values() if self.is_wide and end.dtype in NARROW]
        if narrow:
            self.narrow += narrow
            return
        is_compiled = any("CompiledFunction" in node.name() for node in nodes)
        # A graph that came past the borders is gone through again. Compiled code can be gone through only once.
        gradients = gradients_of(segment.starts, ends, keep_graph=not is_compiled)
        for key, gradient in gradients.items():
            self.found.add(key, gradient)


def _nodes_behind(nodes: Iterable[Node]) -> set[Node]:
    """The nodes that a backward pass from these nodes comes to."""
    waiting, known = list(nodes), set[Node]()
    while waiting:
        node = waiting.pop()
        if node not in known:
            known.add(node)
            waiting += [following for following, _ in node.next_functions if following is not None]
    return known


def wanting_gradient(tensor: Tensor) -> Tensor:
    wants = tensor.is_floating_point() or tensor.is_complex()
    return tensor.detach().requires_grad_() if wants else tensor


def gradients_of(
    starts: Iterable[Start], ends: Mapping[str, Tensor | GradientEdge], *, keep_graph: bool = False
) -> dict[str, Tensor]:
    """The gradient of each end at which one arrives. No `.grad` is touched."""
    pairs = [
        (start, gradient)
        for start, gradient in starts
        if isinstance(start, GradientEdge) or start.requires_grad
    ]
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
