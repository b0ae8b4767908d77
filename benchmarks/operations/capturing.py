"""Makes graphs of samples: many at once are one model, which is captured as a user's model is."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

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
    def operations(self) -> list[str]:
        return [node.op for node in self.module.nodes]


def capture(samples: Sequence[Sample]) -> list[Captured | str]:
    """The graph of each sample, or why there is none."""
    found: list[Captured | str] = []
    for start in range(0, len(samples), BLOCK):
        found += _captured(samples[start : start + BLOCK])
    return found


def _captured(samples: Sequence[Sample]) -> list[Captured | str]:
    """The samples of a block that no export can follow are left out of it first; then it is halved while it fails."""
    traced = [_traced(sample) for sample in samples]
    rest = [(sample, count) for sample, count in zip(samples, traced, strict=True) if isinstance(count, int)]
    graphs = iter(_halving(rest))
    return [next(graphs) if isinstance(count, int) else count for count in traced]


def _traced(sample: Sample) -> int | str:
    """How many tensors a sample gives, or why it cannot be traced."""
    try:
        with FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv()) as mode:
            return len(
                results(
                    sample.call(*[mode.from_tensor(tensor, static_shapes=True) for tensor in sample.tensors])
                )
            )
    except Exception as error:  # whatever an operation raises
        return _said(error)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')}"[:300]


def _halving(samples: Sequence[tuple[Sample, int]]) -> list[Captured | str]:
    if not samples:
        return []
    try:
        return _export(samples)
    except Exception as error:  # whatever torch.export raises
        if len(samples) == 1:
            return [_said(error)]
    middle = len(samples) // 2
    return _halving(samples[:middle]) + _halving(samples[middle:])


def _export(samples: Sequence[tuple[Sample, int]]) -> list[Captured | str]:
    tensors = [tensor for sample, _ in samples for tensor in sample.tensors]
    model = Calls([sample for sample, _ in samples])
    exported = export(
        model, tuple(tensors), {}, name="rows", wish={}, decompose=lambda op: not TARGET.supports(op)
    )
    graph, root = exported.graph, exported.graph.root
    given = dict(zip([item.name for item in root.inputs], tensors, strict=True))
    calls = {node.target: node for node in root.nodes if node.op == g.CALL}
    outputs = iter(root.outputs)
    return [
        _own_graph(graph, calls.get(f"calls.{index}"), list(islice(outputs, count)), given, exported.weights)
        for index, (_, count) in enumerate(samples)
    ]


def _own_graph(
    graph: g.Graph,
    node: g.Node | None,
    outputs: Sequence[g.Ref],
    given: Mapping[str, torch.Tensor],
    weights: Mapping[str, torch.Tensor],
) -> Captured | str:
    """The module that a node of the root calls, with what is given to it."""
    if node is None or node.target is None:
        return NOTHING
    if any(ref.name != node.name and ref.name not in given for ref in outputs):
        return "part of it is outside its module"
    module = graph.modules[node.target]
    inputs = [given[ref.name] for ref in node.args]
    constants = [g.Input(name, graph.weights[weight].meta) for name, weight in module.params.items()]
    inputs += [weights[weight] for weight in module.params.values()]
    if not module.inputs and not constants:
        # What makes a tensor from nothing asks an input for the device.
        constants, inputs = [g.Input("device", g.TensorMeta((), "float32"))], [torch.zeros(())]
    alone = replace(module, inputs=(*module.inputs, *constants), params={})
    places = [ref.index if ref.name == node.name else None for ref in outputs]
    return Captured(graph, alone, inputs, places)
