"""The culprit again, by itself, with every operation watched: so that the answer is an operation and a line.

What a user changed in the port's source is made in the small port as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from torchport.capture.graph import Node, Ref
from torchport.errors import TorchportError
from torchport.explain.edits import Edit, carried
from torchport.explain.scene import Scene
from torchport.parity.result import Operation
from torchport.porting.port import Port
from torchport.runs.report import Report
from torchport.trace.reading import Trace
from torchport.trace.writing import write_tensors

_SAME = 0.05
"""The share of an error that may be missing where two errors are called the same."""


@dataclass(frozen=True)
class Drilled:
    """What came of the culprit as a port of its own."""

    operation: Operation | None
    reproduced: bool
    """Whether it computes, by itself, the very values that it computes in the model."""


def drill(scenes: Iterable[Scene], model: Port, folder: Path, edits: list[Edit]) -> Drilled | None:
    """Ports the scenes of the culprit to `folder`, until one fails as the model does; None where none can be ported."""
    best: Drilled | None = None
    for scene in scenes:
        for found in _attempts(scene, model, folder, edits):
            if found.reproduced:
                return found
            best = best or found
    return best


def _attempts(scene: Scene, model: Port, folder: Path, edits: list[Edit]) -> Iterator[Drilled]:
    try:
        port = port_of(scene, model, folder)
    except TorchportError:
        return
    for _ in _variants(port, edits):
        try:
            report = port.check(explain=False)
        except TorchportError:
            continue
        yield Drilled(_operation(scene, report), _is_same(scene, port))


def _variants(port: Port, edits: list[Edit]) -> Iterator[None]:
    """The port's source with the edits made in it, one way after the other, then as it was generated."""
    if port.source is not None and edits:
        generated = port.source.read_text()
        for source in carried(edits, generated):
            port.source.write_text(source)
            yield
        port.source.write_text(generated)
    yield


def port_of(scene: Scene, model: Port, folder: Path) -> Port:
    """The slice as a port, with the weights that the model's port loads."""
    port = Port(scene.capture.name, model.target, folder, capture=scene.capture)
    scene.capture.save(port.captures)
    weights = folder / "stored.safetensors"
    write_tensors(weights, {**scene.capture.weights, **scene.stored}, {"format": "pt"})
    port.convert(weights if scene.capture.weights else None, "ops", {})
    return port


def _operation(scene: Scene, report: Report) -> Operation | None:
    found = report.first_divergence
    if found is None or found.kind != "own" or found.key is None:
        return None
    node = _node(scene, found.key)
    if node is None:
        return None
    return Operation(
        node=node.name, op=node.op, source=node.source, reason=found.reason, metrics=found.metrics
    )


def _node(scene: Scene, key: str) -> Node | None:
    """The operation that computed the value of a key in the slice's trace."""
    nodes = {node.name: node for node in scene.slice.nodes}
    if "/" in key:
        return nodes.get(key.rpartition("/")[2])
    call = scene.plan.calls[scene.plan.root]
    if key not in call.outputs:
        return None
    ref: Ref = scene.slice.graph.root.outputs[call.outputs.index(key)]
    return nodes.get(ref.name)


def _is_same(scene: Scene, port: Port) -> bool:
    """Whether the small port, unguided, computes what the model's port computed at the culprit."""
    if scene.key not in scene.observed:
        return False
    with Trace(port.folder / "run" / "chained.safetensors") as chained:
        here = scene.here(scene.key)
        if here not in chained:
            return False
        return unexplained(scene.golden(scene.key), scene.observed[scene.key], chained.get(here)) < _SAME


def unexplained(golden: torch.Tensor, candidate: torch.Tensor, predicted: torch.Tensor) -> float:
    """The share of the squared error of `candidate` that `predicted` does not have; 1 where it says nothing.

    NaN and Inf must be at the same places, or nothing is explained.
    """
    if candidate.shape != predicted.shape:
        return 1.0
    if golden.shape != candidate.shape:
        golden = torch.zeros_like(candidate)
    g, c, p = (tensor.detach().double().flatten() for tensor in (golden, candidate, predicted))
    if not _alike(c, p):
        return 1.0
    finite = torch.isfinite(g) & torch.isfinite(c) & torch.isfinite(p)
    total, left = (c - g)[finite].square().sum().item(), (c - p)[finite].square().sum().item()
    if total == 0.0:
        # All of the error is in NaN and Inf; the prediction must have some where the golden value has none.
        return 0.0 if left == 0.0 and not _alike(g, c) else 1.0
    return left / total


def _alike(first: torch.Tensor, second: torch.Tensor) -> bool:
    odd = ~torch.isfinite(first) | ~torch.isfinite(second)
    return torch.equal(
        torch.nan_to_num(first[odd], 0.5, 2.0, -2.0), torch.nan_to_num(second[odd], 0.5, 2.0, -2.0)
    )
