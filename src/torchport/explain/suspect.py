"""A layer under suspicion: its own operations, the values that were recorded, and what the candidate computed.

In: the values of a run. Out: a `Suspect`, on which every hypothesis about the layer can be tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

from torchport.capture.export import Exported
from torchport.capture.graph import Graph
from torchport.capture.plan import Plan, make_plan
from torchport.capture.recorder import Capture
from torchport.capture.values import with_values
from torchport.capture.weights import FileWeights, as_weights
from torchport.explain.slice import Slice, own_operations, with_stand_ins
from torchport.runs.folder import RunFolder
from torchport.trace.plan import input_keys
from torchport.trace.reading import Trace

_MOST_AROUND = 12


@dataclass(frozen=True)
class RunValues:
    """Where the values of a run are, and the graph that they are of."""

    graph: Graph
    trace: Path
    lockstep: Path
    weights: Path
    """The weights as they were recorded."""
    stored: Path
    """The weights as the candidate loads them."""

    @classmethod
    def of(cls, files: RunFolder, graph: Graph, stored: Path | None) -> RunValues:
        recorded = files.captured("weights")
        return cls(graph, files.captured("trace"), files.record("lockstep"), recorded, stored or recorded)


@dataclass(frozen=True)
class Suspect:
    """A layer that differs, with everything that is needed to compute it again."""

    slice: Slice
    capture: Capture
    """The slice as a recording of its own, with the value of every operation."""
    observed: dict[str, torch.Tensor]
    """The values that the candidate computed in lock-step, by their keys in the model's trace."""
    stored: dict[str, torch.Tensor]
    """The weights as the candidate loads them, by their names in the slice."""
    key: str
    """The key of the value that differs; if the slice does not compute that one, of the first that it computes."""
    around: Mapping[str, torch.Tensor] = field(default_factory=dict, kw_only=True)
    """Golden values that the call is given, or that calls inside it return, and that its own operations do not read."""

    @property
    def plan(self) -> Plan:
        return self.capture.plan

    @property
    def inputs(self) -> list[torch.Tensor]:
        return [self.capture.golden[key] for key in input_keys(self.plan.root, len(self.slice.inputs))]

    @property
    def other_weights(self) -> Mapping[str, torch.Tensor]:
        """Weights of the candidate that the layer of the reference does not read, by their names."""
        return {}

    def here(self, key: str) -> str:
        """The key in the slice's own trace of an output of the slice."""
        index = self.slice.outputs.index(key)
        return self.plan.resolve(self.plan.calls[self.plan.root].outputs[index])

    def golden(self, key: str) -> torch.Tensor:
        return self.capture.golden[self.here(key)]


def find_suspect(values: RunValues, call: str, key: str, *, stand_ins: bool = False) -> Suspect | None:
    """A call as a suspect; None if the call computes nothing by itself, or cannot have stand-ins."""
    graph, plan = values.graph, make_plan(values.graph)
    with Trace(values.trace) as golden, Trace(values.lockstep) as lockstep:
        root = plan.calls[plan.root]
        shapes = {
            item.name: tuple(golden.get(own).shape)
            for item, own in zip(graph.root.inputs, root.inputs, strict=True)
        }
        cut = with_stand_ins if stand_ins else own_operations
        part = cut(graph, plan, call, graph.bindings(shapes))
        if part is None:
            return None
        given = {name: golden.get(own).clone() for name, own in part.given.items()}
        inputs = [golden.get(name).clone() for name in part.inputs]
        outputs = [golden.get(name).clone() for name in part.outputs]
        unread = [own for own in _around(plan, call) if own not in part.inputs and own in golden]
        around = {own: golden.get(own).clone() for own in unread[:_MOST_AROUND]}
        observed = {name: lockstep.get(name).clone() for name in part.outputs if name in lockstep}
    recorded = _read(values.weights, part.weights) | given
    stored = _read(values.stored, part.weights) | given
    stored = {name: _as(tensor, recorded[name]) for name, tensor in stored.items()}
    shown = key if key in part.outputs else part.outputs[0]
    capture = as_capture(part.graph, recorded, inputs, outputs)
    return Suspect(part, capture, observed, stored, shown, around=around)


def _around(plan: Plan, name: str) -> list[str]:
    """The keys of what a call is given and of what the calls inside it return."""
    inside = (call for call in plan.calls.values() if call.parent == name)
    keys = [*plan.calls[name].inputs, *(key for call in inside for key in call.outputs)]
    return [key for key in dict.fromkeys(keys) if plan.resolve(key) == key]


def as_capture(
    graph: Graph,
    weights: dict[str, torch.Tensor],
    inputs: list[torch.Tensor],
    outputs: list[torch.Tensor],
) -> Capture:
    """A recording of a slice: what each of its operations computes, and the truth of it. It must give `outputs`."""
    plan = make_plan(graph)
    values = with_values(Exported(graph, weights), plan, inputs, outputs, ops=True)
    return Capture(graph, plan, as_weights(weights), values.golden, values.truth)


def _read(path: Path, names: dict[str, str]) -> dict[str, torch.Tensor]:
    """Those tensors that are there; without weights there is no file."""
    if not names or not path.is_file():
        return {}
    there = FileWeights(path)
    return {local: there.read(name) for local, name in names.items() if name in there}


def _as(tensor: torch.Tensor, recorded: torch.Tensor) -> torch.Tensor:
    """A target may store a type that it lacks as another."""
    return tensor.to(recorded.dtype) if tensor.shape == recorded.shape else tensor
