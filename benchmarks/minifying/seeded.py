"""Twenty faults, each in a graph of 50 to 500 operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch

from benchmarks.minifying.faulty import Faulty
from benchmarks.minifying.graphs import Graph, random_graph, stack
from torchport.debug.constraints.base import CheckedGraph, Constraint, Found
from torchport.debug.minifier import Minifier


class Aligned(Constraint):
    """The last axis is a multiple of 8."""

    name = "alignment of the last axis"

    def check(self, graph: CheckedGraph) -> Iterator[Found]:
        for node in graph.operations:
            if node.tensors and node.tensors[0].shape and node.tensors[0].shape[-1] % 8:
                yield self.violated_by(node, f"the last axis of {node.tensors[0].shape} is no multiple of 8")


class NoConvolution(Constraint):
    name = "no convolution"

    def check(self, graph: CheckedGraph) -> Iterator[Found]:
        for node in graph.operations:
            if node.op == "aten.convolution.default":
                yield self.violated_by(node, "convolutions are not supported")


@dataclass(frozen=True)
class Seeded:
    name: str
    kind: str
    graph: Callable[[], Graph]
    backend: Faulty | None = None
    constraint: Constraint | None = None

    def minifier(self, graph: Graph) -> Minifier:
        module, inputs = graph
        has_gradients = self.kind == "wrong gradient"
        given = [
            value.clone().requires_grad_(has_gradients and value.is_floating_point()) for value in inputs
        ]
        if self.constraint is not None:
            return Minifier(module, given, constraints=[self.constraint])
        return Minifier(module, given, backend=self.backend, through_dynamo=False)


def _stack(kind: str, blocks: int, dtype: torch.dtype = torch.float32) -> Callable[[], Graph]:
    return partial(stack, kind, blocks, dtype)


def _random(operations: int, seed: int, *special: str) -> Callable[[], Graph]:
    return partial(random_graph, operations, seed, special)


def _wrong(name: str, graph: Callable[[], Graph], backend: Faulty) -> Seeded:
    return Seeded(name, "wrong value", graph, backend)


SEEDED = [
    _wrong(
        "lowering of wide addmm",
        _stack("mlp", 8),
        Faulty("aten.addmm.default", "last column zero", least_size=32),
    ),
    _wrong("lowering of convolution", _stack("cnn", 10), Faulty("aten.convolution.default", "scaled")),
    _wrong("lowering of bmm", _stack("transformer", 4), Faulty("aten.bmm.default", "last column zero")),
    _wrong("lowering of erf", _random(120, 1, "erf"), Faulty("aten.erf.default", "scaled")),
    _wrong(
        "lowering of cumsum", _random(300, 2, "cumsum"), Faulty("aten.cumsum.default", "last column zero")
    ),
    _wrong(
        "lowering of float64",
        _stack("mlp", 20, torch.float64),
        Faulty("aten.gelu.default", "half precision", dtype=torch.float64),
    ),
    _wrong(
        "decomposition of layer_norm",
        _stack("mlp", 12),
        Faulty("aten.native_layer_norm.default", "large eps"),
    ),
    _wrong("decomposition of gelu", _stack("transformer", 6), Faulty("aten.gelu.default", "tanh gelu")),
    _wrong(
        "decomposition of batch_norm",
        _stack("cnn", 16),
        Faulty("aten.native_batch_norm.default", "large eps"),
    ),
    _wrong(
        "fusion of pow and sqrt",
        _random(250, 5, "square_sqrt"),
        Faulty("aten.sqrt.default", "swapped rows", after="aten.pow.Tensor_Scalar"),
    ),
    _wrong(
        "fusion of mul and softmax",
        _stack("transformer", 9),
        Faulty("aten._softmax.default", "scaled", after="aten.mul.Tensor"),
    ),
    Seeded(
        "gradient of gelu", "wrong gradient", _stack("mlp", 10), Faulty("aten.gelu.default", "wrong gradient")
    ),
    Seeded(
        "gradient of softmax",
        "wrong gradient",
        _stack("transformer", 3),
        Faulty("aten._softmax.default", "wrong gradient"),
    ),
    Seeded(
        "gradient of erf",
        "wrong gradient",
        _random(150, 3, "erf"),
        Faulty("aten.erf.default", "wrong gradient"),
    ),
    Seeded(
        "exception in softmax",
        "exception",
        _stack("transformer", 8),
        Faulty("aten._softmax.default", "raises"),
    ),
    Seeded(
        "graph refused",
        "exception",
        _random(400, 7, "expm1_log1p"),
        Faulty("aten.log1p.default", "refuses", after="aten.expm1.default"),
    ),
    Seeded(
        "crash in wide addmm", "crash", _stack("mlp", 15), Faulty("aten.addmm.default", "dies", least_size=32)
    ),
    Seeded(
        "crash in a fusion",
        "crash",
        _random(350, 4, "expm1_log1p"),
        Faulty("aten.log1p.default", "aborts", after="aten.expm1.default"),
    ),
    Seeded("alignment", "constraint", _stack("transformer", 7), constraint=Aligned()),
    Seeded("denied convolution", "constraint", _stack("cnn", 12), constraint=NoConvolution()),
]
