"""Makes graphs of samples: many at once are one model, which is captured as a user's model is."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from torchport.capture import graph as g
from torchport.capture.export import export
from torchport.targets.candle.target import TARGET

from .sample import Sample, results

# What cannot be captured is a verdict, not a fault to log.
logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)
BLOCK = 100
"""Samples that are captured together: more are not faster."""
NOTHING = "it has no operation"


class Call(nn.Module):
    """A sample as a module, so that it is a module of its own in the graph."""

    def __init__(self, sample: Sample):
        super().__init__()
        self.sample = sample

    def forward(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        return results(self.sample.call(*tensors))


class Calls(nn.Module):
    """Many samples as one model, each with its own inputs."""

    def __init__(self, samples: Sequence[Sample]):
        super().__init__()
        self.counts = [len(sample.tensors) for sample in samples]
        self.calls = nn.ModuleList([Call(sample) for sample in samples])

    def forward(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        outputs, start = [], 0
        for call, count in zip(self.calls, self.counts, strict=True):
            outputs += call(*tensors[start : start + count])
            start += count
        return outputs


@dataclass(frozen=True)
class Captured:
    """The graph of one sample."""

    graph: g.Graph
    module: g.Module
    """Its constants are inputs, too."""
    inputs: list[torch.Tensor]
    """The tensors of the module's inputs."""
    outputs: list[int | None]
    """For each tensor that the sample gives, the output of the module that it is; None if it is an input."""

    @property
    def operations(self) -> set[str]:
        return {node.op for node in self.module.nodes}


def capture(samples: Sequence[Sample]) -> list[Captured | str]:
    """The graph of each sample, or why there is none."""
    found: list[Captured | str] = []
    for start in range(0, len(samples), BLOCK):
        found += _captured(samples[start : start + BLOCK])
    return found


def _captured(samples: Sequence[Sample]) -> list[Captured | str]:
    """The samples of a block that no export can follow are left out of it first; then it is halved while it fails."""
    told = {index: why for index, sample in enumerate(samples) if (why := _not_traceable(sample))}
    rest = [index for index in range(len(samples)) if index not in told]
    graphs = dict(zip(rest, _halving([samples[index] for index in rest]), strict=True))
    return [told[index] if index in told else graphs[index] for index in range(len(samples))]


def _not_traceable(sample: Sample) -> str | None:
    try:
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            sample.call(*[mode.from_tensor(tensor) for tensor in sample.tensors])
    except Exception as error:  # whatever an operation raises
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
    return None


def _halving(samples: Sequence[Sample]) -> list[Captured | str]:
    if not samples:
        return []
    try:
        return _export(samples)
    except Exception as error:  # whatever torch.export raises
        if len(samples) == 1:
            return [f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"[:300]]
    middle = len(samples) // 2
    return _halving(samples[:middle]) + _halving(samples[middle:])


def _export(samples: Sequence[Sample]) -> list[Captured | str]:
    tensors = [tensor for sample in samples for tensor in sample.tensors]
    exported = export(
        Calls(samples), tuple(tensors), {}, name="rows", wish={}, decompose=lambda op: not TARGET.supports(op)
    )
    graph, root = exported.graph, exported.graph.root
    names = [item.name for item in root.inputs]
    given: dict[str, Any] = dict(zip(names, tensors, strict=True))
    calls = {node.name: node for node in root.nodes if node.op == g.CALL}
    found: list[Captured | str] = []
    position = 0
    for index, sample in enumerate(samples):
        count = len(sample_outputs(sample))
        outputs = root.outputs[position : position + count]
        position += count
        found.append(_own_graph(graph, calls, outputs, given, f"calls.{index}", exported.weights))
    return found


def sample_outputs(sample: Sample) -> list[torch.Tensor]:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        return results(sample.call(*[mode.from_tensor(tensor) for tensor in sample.tensors]))


def _own_graph(
    graph: g.Graph,
    calls: dict[str, g.Node],
    outputs: Sequence[g.Ref],
    given: dict[str, torch.Tensor],
    key: str,
    weights: Any,
) -> Captured | str:
    node = next((node for node in calls.values() if node.target == key), None)
    if node is None:
        return NOTHING
    if any(ref.name != node.name and ref.name not in given for ref in outputs):
        return "part of it is outside its module"
    module = graph.modules[key]
    inputs = [given[ref.name] for ref in node.args]
    constants = [g.Input(name, graph.weights[weight].meta) for name, weight in module.params.items()]
    inputs += [weights[weight] for weight in module.params.values()]
    if not module.inputs and not constants:
        constants = [g.Input("device", g.TensorMeta((), "float32"))]
        inputs = [torch.zeros(())]
    alone = replace(module, inputs=(*module.inputs, *constants), params={})
    places = [ref.index if ref.name == node.name else None for ref in outputs]
    return Captured(graph, alone, inputs, places)
