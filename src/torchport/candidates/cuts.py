"""Gradients at the borders of calls, with the graph cut at every border.

Cut, each call works on golden inputs, and its backward pass starts from the golden gradients of its outputs. What
comes out is its own doing: the gradients of its inputs and its parameters. So is what arrives at a call's output
the doing of the code that called it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.utils.weak import WeakTensorKeyDictionary

from torchport.arithmetic.classes import Round
from torchport.candidates.checkpoints import (
    GoldenBridge,
    is_reentrant,
    nodes_behind,
    recorded_and_remembered,
)
from torchport.candidates.flow import Gradients, gone_back, gradients_of, wanting_gradient
from torchport.candidates.golden import GoldenPlan
from torchport.candidates.leaves import Path
from torchport.candidates.lockstep import at_places
from torchport.candidates.masks import in_form_of
from torchport.candidates.precision import NARROW, like
from torchport.candidates.probing import WatchedCall
from torchport.candidates.stored_tensors import StoredTensors
from torchport.capture.torch_internals import modes_again
from torchport.trace.plan import Call

_Starts = list[tuple[GradientEdge, Tensor]]


@dataclass
class _Segment:
    """What one call computes by itself, between its borders and those of the calls inside it."""

    found: StoredTensors
    """Where its gradients go."""
    modes: ExitStack
    starts: _Starts = field(default_factory=list)
    late: list[_LateCall] = field(default_factory=list)
    """The calls inside it that may be made again."""


@dataclass
class _LateCall:
    """A call in whose forward pass no gradients are to be recorded.

    A reentrant checkpoint makes it again, and its gradients count only then.
    """

    found: StoredTensors
    starts: _Starts
    """Where the caller's backward pass starts if the call is not made again."""
    is_repeated: bool = False


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
    new_store: Callable[[], StoredTensors]
    errors_with_a_code: Callable[[], AbstractContextManager[None]]
    """Within, code of the model runs, whose errors are the model's."""
    is_wide: bool = False
    """Whether all is computed in float64."""
    rounded: Round | None = None
    """What becomes of golden values and gradients, which are results of the arithmetic that the model runs in."""
    narrow: list[Tensor] = field(default_factory=list)
    """Parameters that were not in float64 when they were used, though all is to be; then `found` lacks gradients."""
    segments: list[_Segment] = field(default_factory=list)
    late: dict[str, tuple[_LateCall, _Segment]] = field(default_factory=dict)
    """By name, the calls that may be made again, and the segment of the caller."""
    repeating: list[tuple[ExitStack, StoredTensors | None]] = field(default_factory=list)
    """For each call that is being made again, its modes, and where gradients go that arrive at its outputs only now."""
    bridged: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    """What calls that are made again were given, with golden gradients, until their outputs are there."""
    wanting: set[str] = field(default_factory=set)
    """The keys of the tensors that were handed on and want a gradient."""

    def __post_init__(self) -> None:
        self.found = self.new_store()
        self.names: dict[Tensor, list[str]] = {}
        for name, parameter in self.parameters.items():
            self.names.setdefault(parameter, []).append(name)
        # What was handed on, with its key: the gradient that comes back to it is what the border is judged by.
        self.handed: MutableMapping[Tensor, str] = WeakTensorKeyDictionary()

    def enter(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        step = self.plan.calls.get(call.name)
        if step is None:
            return tensors
        pairs = at_places(step.inputs, self.plan.places[self.side].given[call.name], places)
        self.segments.append(self._segment(step, self._starts(pairs, tensors)))
        return self._handed_on(pairs, tensors)

    def leave(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        step = self.plan.calls.get(call.name)
        if step is None:
            return tensors
        segment = self.segments.pop()
        pairs = self._outputs(step, places)
        with segment.modes, self.errors_with_a_code():
            segment.starts += self._starts(pairs, tensors)
            self._go_back(segment)
        return self._handed_on(pairs, tensors, is_last=not self.segments)

    def raised(self, call: WatchedCall) -> None:
        if call.name in self.plan.calls:
            self.segments.pop().modes.close()

    def enter_again(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        step = self.plan.calls.get(call.name)
        if step is None:
            return tensors
        pairs = at_places(step.inputs, self.plan.places[self.side].given[call.name], places)
        into = None
        if call.name in self.late and torch.is_grad_enabled():
            into = self._count(call.name)
            self.bridged += [
                (tensors[index], like(gradient, tensors[index]))
                for key, index in pairs
                if (gradient := self.gradients.get(key)) is not None and tensors[index].requires_grad
            ]
        self.repeating.append((recorded_and_remembered(record=False), into))
        return self._handed_on(pairs, tensors)

    def leave_again(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        step = self.plan.calls.get(call.name)
        if step is None:
            return tensors
        modes, into = self.repeating.pop()
        modes.close()
        pairs = self._outputs(step, places)
        result = self._handed_on(pairs, tensors)
        wanting = [(key, index) for key, index in pairs if key in self.wanting]
        if into is not None and wanting:
            golden = [result[index] for _, index in wanting]
            note = partial(_note, into, [key for key, _ in wanting])
            given = zip(wanting, GoldenBridge.over(self.bridged, golden, note), strict=True)
            self.bridged.clear()
            for (_, index), tensor in given:
                result[index] = tensor
        return result

    def raised_again(self, call: WatchedCall) -> None:
        if call.name in self.plan.calls:
            self.repeating.pop()[0].close()

    def _outputs(self, step: Call, places: list[Path]) -> list[tuple[str, int]]:
        if self.side == "candidate" and step.name in self.plan.without_outputs:
            return []
        return at_places(step.outputs, self.plan.places[self.side].returned[step.name], places)

    def _segment(self, step: Call, starts: _Starts) -> _Segment:
        """That of a call which is now entered, where the caller's backward pass starts from what it is given."""
        outside = self.segments[-1] if self.segments else None
        if outside is None:
            return _Segment(self.found, recorded_and_remembered(record=False))
        may_count = any(key in self.gradients for key in (*step.inputs, *step.outputs))
        if torch.is_grad_enabled() or torch.is_inference_mode_enabled() or not may_count:
            outside.starts += starts
            return _Segment(outside.found, recorded_and_remembered(record=False))
        late = _LateCall(self.new_store(), starts)
        outside.late.append(late)
        self.late[step.name] = late, outside
        return _Segment(late.found, recorded_and_remembered(record=True))

    def _count(self, name: str) -> StoredTensors:
        """Lets the gradients of a call count that is made again, and says where they go."""
        late, outside = self.late.pop(name)
        late.is_repeated = True
        for key, gradient in late.found.items():
            outside.found.add(key, gradient)
        late.found.clear()
        return outside.found

    def _starts(self, pairs: list[tuple[str, int]], tensors: list[Tensor]) -> _Starts:
        found: _Starts = []
        for key, index in pairs:
            tensor, gradient = tensors[index], self.gradients.get(key)
            is_alike = self.plan.value(key).shape == tensor.shape
            if is_alike and tensor.requires_grad and gradient is not None:
                found.append((get_gradient_edge(tensor), self._as_result(like(gradient, tensor))))
        return found

    def _handed_on(
        self, pairs: list[tuple[str, int]], tensors: list[Tensor], *, is_last: bool = False
    ) -> list[Tensor]:
        """The tensors to go on with; nothing comes after the last ones, so that no gradient comes back to them."""
        result = list(tensors)
        for key, index in pairs:
            result[index] = self._golden(key, tensors[index], is_last)
        return result

    def _golden(self, key: str, tensor: Tensor, is_last: bool) -> Tensor:
        value = self.plan.value(key)
        if value.shape != tensor.shape:
            return tensor
        handed = self._as_result(like(in_form_of(tensor, value), tensor))
        wants = tensor.requires_grad or key in self.flowing or key in self.wanting
        if is_last or not wants:
            return handed
        leaf = wanting_gradient(handed)
        self.handed[leaf] = key
        if leaf.requires_grad:
            self.wanting.add(key)
        return leaf.clone()

    def _as_result(self, golden: Tensor) -> Tensor:
        return self.rounded(golden) if self.rounded and golden.is_floating_point() else golden

    def _go_back(self, segment: _Segment) -> None:
        """Collects the gradients of a segment. A tensor that came past the borders leads into those around it."""
        starts = segment.starts
        if is_reentrant(nodes_behind(edge.node for edge, _ in starts)):
            self._collect(starts, segment.found)
            starts = []
        late = [start for one in segment.late if not one.is_repeated for start in one.starts]
        self._collect([*starts, *late], segment.found)

    def _collect(self, starts: _Starts, found: StoredTensors) -> None:
        ends: dict[str, Tensor] = {}
        nodes = nodes_behind(edge.node for edge, _ in starts)
        for variable in (getattr(node, "variable", None) for node in nodes):
            if isinstance(variable, Tensor):
                keys = [self.handed[variable]] if variable in self.handed else self.names.get(variable, [])
                ends |= dict.fromkeys(keys, variable)
        if self._are_narrow(ends.values()):
            return
        # A graph that came past the borders is gone through again. Compiled code can be gone through only once.
        is_compiled = any("CompiledFunction" in node.name() for node in nodes)
        if is_reentrant(nodes):
            with modes_again():
                gradients = gone_back(starts, {**self.parameters, **ends}, keep_graph=not is_compiled)
            if self._are_narrow(self.parameters[key] for key in gradients if key in self.parameters):
                return
        else:
            with modes_again():
                gradients = gradients_of(starts, ends, keep_graph=not is_compiled)
        for key, gradient in gradients.items():
            found.add(key, gradient)

    def _are_narrow(self, tensors: Iterable[Tensor]) -> bool:
        """Whether some are not in float64, though all is to be."""
        narrow = [tensor for tensor in tensors if self.is_wide and tensor.dtype in NARROW]
        self.narrow += narrow
        return bool(narrow)


def _note(into: StoredTensors, keys: Sequence[str], arriving: Sequence[Tensor | None]) -> None:
    for key, gradient in zip(keys, arriving, strict=True):
        if gradient is not None:
            into.add(key, gradient.detach())
