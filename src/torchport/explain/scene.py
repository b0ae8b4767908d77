"""The culprit and all that is known of it: its own operations, what was recorded, and what the port made of it.

In: the directory of a run. Out: a `Scene`, in which every hypothesis about the culprit can be tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import safetensors
import torch

from torchport.capture.export import Exported
from torchport.capture.graph import Graph
from torchport.capture.plan import Plan, make_plan
from torchport.capture.recorder import Capture
from torchport.capture.values import with_values
from torchport.capture.weights import as_weights
from torchport.errors import WeightsError
from torchport.explain.slice import Slice, own_operations, with_stand_ins
from torchport.runs.folder import RunFolder
from torchport.trace.reading import Trace


@dataclass(frozen=True)
class Evidence:
    """Where the values of a run are, and the graph that they are of."""

    graph: Graph
    trace: Path
    lockstep: Path
    weights: Path
    """The weights as they were recorded."""
    stored: Path
    """The weights as the candidate loads them."""

    @classmethod
    def of(cls, files: RunFolder, graph: Graph, stored: Path | None) -> Evidence:
        recorded = files.captured("weights")
        return cls(graph, files.captured("trace"), files.record("lockstep"), recorded, stored or recorded)


@dataclass(frozen=True)
class Scene:
    slice: Slice
    capture: Capture
    """The slice as a recording of its own, with the value of every operation."""
    observed: dict[str, torch.Tensor]
    """What the port computed in lock-step, by the key in the model's trace."""
    stored: dict[str, torch.Tensor]
    """The weights as the port loads them, by their names in the slice."""
    key: str
    """The value at which it showed; the first that it computes, where it showed in none of these."""

    @property
    def plan(self) -> Plan:
        return self.capture.plan

    @property
    def inputs(self) -> list[torch.Tensor]:
        root = self.plan.root
        return [self.capture.golden[f"{root}<{index}"] for index in range(len(self.slice.inputs))]

    def here(self, key: str) -> str:
        """The key in the slice's own trace of an output of the slice."""
        index = self.slice.outputs.index(key)
        return self.plan.resolve(self.plan.calls[self.plan.root].outputs[index])

    def golden(self, key: str) -> torch.Tensor:
        return self.capture.golden[self.here(key)]


def look_at(evidence: Evidence, call: str, key: str, *, stand_ins: bool = False) -> Scene | None:
    """The scene of a call; None where the call computes nothing by itself, or cannot have stand-ins."""
    graph, plan = evidence.graph, make_plan(evidence.graph)
    with Trace(evidence.trace) as golden, Trace(evidence.lockstep) as lockstep:
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
        observed = {name: lockstep.get(name).clone() for name in part.outputs if name in lockstep}
    recorded = _read(evidence.weights, part.weights) | given
    stored = _read(evidence.stored, part.weights) | given
    stored = {name: _as(tensor, recorded[name]) for name, tensor in stored.items()}
    shown = key if key in part.outputs else part.outputs[0]
    return Scene(part, as_capture(part.graph, recorded, inputs, outputs), observed, stored, shown)


def as_capture(
    graph: Graph,
    weights: dict[str, torch.Tensor],
    inputs: list[torch.Tensor],
    outputs: list[torch.Tensor],
) -> Capture:
    """A recording of a slice: what each of its operations computes, and the truth of it. It must give `outputs`."""
    plan = make_plan(graph)
    golden, truth = with_values(Exported(graph, weights), plan, inputs, outputs, ops=True)
    return Capture(graph, plan, as_weights(weights), golden, truth)


def _read(path: Path, names: dict[str, str]) -> dict[str, torch.Tensor]:
    """Those tensors that are there; without weights there is no file."""
    if not names or not path.is_file():
        return {}
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            there = set(file.keys())
            return {local: file.get_tensor(name) for local, name in names.items() if name in there}
    except safetensors.SafetensorError as error:
        raise WeightsError("TP0320", f"the weights cannot be read: {error}", where=str(path)) from error


def _as(tensor: torch.Tensor, recorded: torch.Tensor) -> torch.Tensor:
    """A target may store a type that it lacks as another."""
    return tensor.to(recorded.dtype) if tensor.shape == recorded.shape else tensor
