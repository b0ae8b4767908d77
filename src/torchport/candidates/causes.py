"""From a suspect to the cause: the operation that is wrong, its line in the candidate, and hypotheses.

In: a suspect with the operations of the reference and the candidate side by side. Out: the cause, and the layer by
itself in a folder.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from torchport.candidates.suspects import ComparedModels, RewrittenSuspect
from torchport.capture import graph as g
from torchport.errors import ConvertError
from torchport.explain.explanation import Cause, only_operation
from torchport.explain.faults import Fault, find_fault
from torchport.explain.rewriting import named_alike, write_rewritten
from torchport.explain.suggest import suggest
from torchport.explain.weights import Others
from torchport.explain.what_if import WrongValue
from torchport.parity.judge import judge
from torchport.parity.result import Divergence, Measured, Operation, Suggestion
from torchport.trace.plan import operation_key
from torchport.trace.residual import widened
from torchport.trace.writing import write_tensors

_MOST_SUSPECTS = 40
"""Each hypothesis about an operation runs all others, so that the time grows with the square of their number."""
_SMALL = 2**18
"""Elements of a value, on an average, below which threads cost more than they bring."""


@contextmanager
def one_thread_if_small(suspect: RewrittenSuspect) -> Iterator[None]:
    """Hypotheses run thousands of operations, and on small tensors threads only wait for each other."""
    values = suspect.capture.golden.values()
    before = torch.get_num_threads()
    if sum(value.numel() for value in values) > _SMALL * len(values):
        yield
        return
    try:
        torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(before)


def differs(suspect: RewrittenSuspect, key: str) -> bool:
    """Whether the candidate's value is further from the truth than the rule allows."""
    if key not in suspect.observed:
        return False
    golden, distance = suspect.golden(key), suspect.capture.truth.get(suspect.here(key))
    truth = None if distance is None else widened(golden) + widened(distance)
    return not judge(golden, suspect.observed[key], truth)[1].passed


def fault_of(suspect: RewrittenSuspect) -> Fault | None:
    """The operation that is for certain at fault, as far as the values tell."""
    if suspect.alignment is None or suspect.key not in suspect.observed:
        return None
    output = suspect.slice.outputs.index(suspect.key)
    return find_fault(suspect.alignment, output, suspect.observed[suspect.key])


def cause_of(
    suspect: RewrittenSuspect, fault: Fault | None, culprit: Divergence, models: ComparedModels
) -> Cause:
    """The operation at fault or, if that is not certain, the one that the best hypothesis is about."""
    operation = _operation(suspect, fault, culprit) if fault else only_operation(suspect)
    with _weights_of_others(suspect, models) as others:
        known = operation.node if operation else _suspect(suspect)
        suggestions = suggest(suspect, known, others, _wrong_value(suspect, fault))
    if operation is None and suggestions:
        operation = _operation_of(suspect, suggestions[0])
    if operation is not None and operation.source is None:
        operation = operation.model_copy(update={"source": culprit.source})
    return Cause(operation, suggestions)


def _wrong_value(suspect: RewrittenSuspect, fault: Fault | None) -> WrongValue | None:
    """The value that is for certain another in the candidate."""
    if fault is None or suspect.alignment is None:
        return None
    return WrongValue(fault.result, suspect.alignment.computed[fault.counterpart])


def _suspect(suspect: RewrittenSuspect) -> str | None:
    """None if hypotheses are to be tried about all operations; the last one if that would take too long."""
    nodes = suspect.slice.nodes
    return nodes[-1].name if len(nodes) > _MOST_SUSPECTS else None


def _operation_of(suspect: RewrittenSuspect, suggestion: Suggestion) -> Operation | None:
    """The operation that a hypothesis is about. A mere factor may come from any that has no number to be wrong."""
    for node in suspect.slice.nodes:
        if node.name == suggestion.node and (suggestion.kind != "scale" or _has_a_number(node)):
            reason = "the hypothesis about it explains the difference"
            return Operation(node=node.name, op=node.op, source=node.source, reason=reason, metrics=None)
    return None


def _has_a_number(node: g.Node) -> bool:
    values = [*node.args, *node.kwargs.values()]
    return any(isinstance(value, float) for value in values) or "scaled_dot_product" in node.op


def _operation(suspect: RewrittenSuspect, fault: Fault, culprit: Divergence) -> Operation:
    """With the line of the candidate that stands for it, where the fault is mended, or else the reference's."""
    assert suspect.alignment is not None
    lines = {node.name: node.source for node in suspect.alignment.candidate.graph.root.nodes}
    key = operation_key(suspect.plan.root, fault.node.name)
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
def _weights_of_others(suspect: RewrittenSuspect, models: ComparedModels) -> Iterator[Others]:
    """The weights of the reference that may have been taken for one of the suspect."""
    shapes = {tensor.shape for tensor in suspect.capture.weights.values()}
    alike = {name: tensor for name, tensor in models.known.tensors.items() if tensor.shape in shapes}
    with tempfile.TemporaryDirectory(prefix="torchport-") as folder:
        path = Path(folder) / "weights.safetensors"
        if any(name in suspect.stored for name in suspect.capture.weights):
            write_tensors(path, alike, {"schema": "1"})
        yield Others(path)


def set_up(suspect: RewrittenSuspect, folder: Path) -> None:
    """Leaves a layer by itself in a folder; ConvertError if the candidate's operations cannot be seen."""
    if suspect.alignment is None:
        raise ConvertError("TP0401", "the candidate's operations cannot be seen")
    write_slice(suspect, fault_of(suspect), folder)


def write_slice(suspect: RewrittenSuspect, fault: Fault | None, folder: Path) -> None:
    assert suspect.alignment is not None
    graph = named_alike(suspect.alignment, fault)
    write_rewritten(suspect.capture, suspect.stored, graph, suspect.alignment.candidate.weights, folder)
