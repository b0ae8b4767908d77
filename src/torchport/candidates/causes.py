"""From the scene of a culprit to its cause: the operation that is wrong, its line in the candidate, and hypotheses.

In: a scene, in which the reference's operations and the candidate's are side by side. Out: the cause, and the layer by
itself in a folder.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from torchport.candidates.scenes import ComparedModels, RewrittenScene
from torchport.capture import graph as g
from torchport.errors import ConvertError
from torchport.explain.alignment import Fault
from torchport.explain.explanation import Cause, only_operation
from torchport.explain.rewriting import named_alike, write_rewritten
from torchport.explain.suggest import suggest
from torchport.explain.weights import Others
from torchport.parity.judge import judge
from torchport.parity.result import Divergence, Measured, Operation, Suggestion
from torchport.trace.writing import write_tensors

_MOST_SUSPECTS = 40
"""Each hypothesis about an operation runs all others, so that the time grows with the square of their number."""
_SMALL = 2**18
"""Elements of a value, on an average, below which threads cost more than they bring."""


@contextmanager
def one_thread_if_small(scene: RewrittenScene) -> Iterator[None]:
    """Hypotheses run thousands of operations, and on small tensors threads only wait for each other."""
    values = scene.capture.golden.values()
    before = torch.get_num_threads()
    if sum(value.numel() for value in values) > _SMALL * len(values):
        yield
        return
    try:
        torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(before)


def differs(scene: RewrittenScene, key: str) -> bool:
    """Whether the candidate's value is further from the truth than the rule allows."""
    if key not in scene.observed:
        return False
    golden, distance = scene.golden(key), scene.capture.truth.get(scene.here(key))
    truth = None if distance is None else golden.double() + distance.double()
    return not judge(golden, scene.observed[key], truth)[1].passed


def fault_of(scene: RewrittenScene) -> Fault | None:
    """The operation that is for certain at fault, as far as the values tell."""
    if scene.alignment is None or scene.key not in scene.observed:
        return None
    return scene.alignment.fault(scene.slice.outputs.index(scene.key), scene.observed[scene.key])


def cause_of(
    scene: RewrittenScene, fault: Fault | None, culprit: Divergence, models: ComparedModels
) -> Cause:
    """The operation at fault or, if that is not certain, the one that the best hypothesis is about."""
    operation = _operation(scene, fault, culprit) if fault else only_operation(scene)
    with _weights_of_others(scene, models) as others:
        suggestions = suggest(scene, operation.node if operation else _suspect(scene), others)
    if operation is None and suggestions:
        operation = _operation_of(scene, suggestions[0])
    if operation is not None and operation.source is None:
        operation = operation.model_copy(update={"source": culprit.source})
    return Cause(operation, suggestions)


def _suspect(scene: RewrittenScene) -> str | None:
    """None if hypotheses are to be tried about all operations; the last one if that would take too long."""
    nodes = scene.slice.nodes
    return nodes[-1].name if len(nodes) > _MOST_SUSPECTS else None


def _operation_of(scene: RewrittenScene, suggestion: Suggestion) -> Operation | None:
    """The operation that a hypothesis is about. A mere factor may come from any that has no number to be wrong."""
    for node in scene.slice.nodes:
        if node.name == suggestion.node and (suggestion.kind != "scale" or _has_a_number(node)):
            reason = "the hypothesis about it explains the difference"
            return Operation(node=node.name, op=node.op, source=node.source, reason=reason, metrics=None)
    return None


def _has_a_number(node: g.Node) -> bool:
    values = [*node.args, *node.kwargs.values()]
    return any(isinstance(value, float) for value in values) or "scaled_dot_product" in node.op


def _operation(scene: RewrittenScene, fault: Fault, culprit: Divergence) -> Operation:
    """With the line of the candidate that stands for it, where the fault is mended, or else the reference's."""
    assert scene.alignment is not None
    lines = {node.name: node.source for node in scene.alignment.candidate.graph.root.nodes}
    key = f"{scene.plan.root}/{fault.node.name}"
    reason = fault.verdict.reason or culprit.reason
    if fault.additional is not None:
        reason = f"the candidate computes it in addition: {reason}"
    return Operation(
        node=fault.node.name,
        op=(fault.additional or fault.node).op,
        source=lines.get(fault.counterpart.name) or fault.node.source,
        reason=reason,
        metrics=Measured(**dict(fault.metrics), key=key, **fault.verdict._asdict()),
    )


@contextmanager
def _weights_of_others(scene: RewrittenScene, models: ComparedModels) -> Iterator[Others]:
    """The weights of the reference that may have been taken for one of the scene."""
    shapes = {tensor.shape for tensor in scene.capture.weights.values()}
    alike = {name: tensor for name, tensor in models.known.tensors.items() if tensor.shape in shapes}
    with tempfile.TemporaryDirectory(prefix="torchport-") as folder:
        path = Path(folder) / "weights.safetensors"
        if any(name in scene.stored for name in scene.capture.weights):
            write_tensors(path, alike, {"schema": "1"})
        yield Others(path)


def set_up(scene: RewrittenScene, folder: Path) -> None:
    """Leaves a layer by itself in a folder; ConvertError if the candidate's operations cannot be seen."""
    if scene.alignment is None:
        raise ConvertError("TP0401", "the candidate's operations cannot be seen")
    write_slice(scene, fault_of(scene), folder)


def write_slice(scene: RewrittenScene, fault: Fault | None, folder: Path) -> None:
    assert scene.alignment is not None
    graph = named_alike(scene.alignment, fault)
    write_rewritten(scene.capture, scene.stored, graph, scene.alignment.candidate.weights, folder)
