"""The cause of a difference between two PyTorch models: the operation, its line in the candidate, and hypotheses.

In: the two models, and what was compared. Out: subjects of an explanation, one for values and one for gradients.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from torchport.candidates.isolation import Border
from torchport.candidates.scenes import ComparedModels, RewrittenScene
from torchport.candidates.traced_call import TracedCall, traced_backward, traced_forward
from torchport.capture import graph as g
from torchport.errors import CaptureError, ConvertError, TorchportError
from torchport.explain.alignment import Fault
from torchport.explain.explanation import Cause, only_operation
from torchport.explain.rewriting import named_alike, write_rewritten
from torchport.explain.scene import Scene
from torchport.explain.suggest import suggest
from torchport.explain.weights import Others
from torchport.parity.judge import judge
from torchport.parity.result import Divergence, Measured, Operation, Suggestion
from torchport.trace.writing import write_tensors

_MOST_SUSPECTS = 24
"""Each hypothesis about an operation runs all others, so that the time grows with the square of their number."""


@dataclass(frozen=True)
class ComparedValues:
    """The forward pass of a candidate as the subject of an explanation."""

    models: ComparedModels
    golden: Mapping[str, Tensor] = field(default_factory=dict)
    """What the candidate is measured against; empty if that is what a call of the reference computes by itself."""
    observed: Mapping[str, Tensor] = field(default_factory=dict)
    """What the candidate computed in lock-step; empty if that is what its call computes by itself."""
    edits: tuple[str, ...] = ()

    def scene(self, layer: str, key: str) -> Scene | None:
        return _if_it_can_be_seen(partial(self.scene_of, layer, key))

    def scene_of(self, call: str, key: str | None) -> RewrittenScene:
        """The scene of a call; without a key, at the first value that it computes."""
        plan = self.models.plan
        keys = [own for own in Border.of(plan, call).computed if own == key or plan.resolve(own) == own]
        if not keys:
            raise CaptureError("TP0202", f"{call} computes nothing by itself")
        reference = self.models.traced_reference(call, lambda one, names: traced_forward(one, names, keys))
        candidate = self.models.traced_candidate(call, lambda one, names: traced_forward(one, names, keys))
        golden = reference.runnable.outputs()
        if self.golden:
            golden = [self.golden[plan.resolve(own)].detach().cpu() for own in keys]
        observed = {own: self.observed[own].detach().cpu() for own in keys if own in self.observed}
        return self.models.scene(call, key or keys[0], reference, candidate, golden, observed)

    def cause(self, scene: Scene, culprit: Divergence, folder: Path) -> Cause:
        assert isinstance(scene, RewrittenScene)
        fault = fault_of(scene)
        if scene.alignment is not None:
            _write(scene, fault, folder)
        return cause_of(scene, fault, culprit, self.models)

    def set_up(self, scene: Scene, folder: Path) -> None:
        set_up(scene, folder)


@dataclass(frozen=True)
class ComparedGradients:
    """The backward pass of a candidate as the subject of an explanation."""

    models: ComparedModels
    cotangents: Mapping[str, Tensor]
    """The golden gradient at each border of a call."""
    golden: Mapping[str, Tensor]
    """What the candidate's gradients are measured against, by key; a parameter's key is its name."""
    observed: Mapping[str, Tensor]
    """The candidate's gradients, with the graph cut at every border."""
    calls_with: Callable[[str], list[str]]
    """The calls that may use a parameter, in the order of the backward pass."""
    edits: tuple[str, ...] = ()
    traced: dict[str, tuple[TracedCall, TracedCall | None]] = field(default_factory=dict)

    def scene(self, layer: str, key: str) -> Scene | None:
        """Of a parameter that several calls use, the scene of the first call that gets its part of it wrong."""
        if layer in self.models.plan.calls:
            return _if_it_can_be_seen(partial(self.scene_of, layer, key))
        looks = [partial(self.scene_of, call, key) for call in self.calls_with(layer)]
        found = [scene for look in looks if (scene := _if_it_can_be_seen(look)) is not None]
        wrong = (scene for scene in found if _differs(scene, key))
        return next(wrong, found[0] if len(found) == 1 else None)

    def scene_of(self, call: str, key: str) -> RewrittenScene:
        reference, candidate = self._traced(call)
        if key not in reference.outputs:
            raise CaptureError("TP0202", f"no gradient arrives at {key} in the reference")
        outputs = reference.runnable.outputs()
        observed = {
            own: self.observed[own].detach().cpu()
            for own, value in zip(reference.outputs, outputs, strict=True)
            if self._is_whole(own, value)
        }
        if key in self.models.plan.values and key not in observed:
            raise CaptureError("TP0202", f"{call} by itself has other gradients than in the reference")
        scene = self.models.scene(call, key, reference, candidate, outputs, observed)
        if key in self.observed and self.observed[key].numel() == 0 < scene.golden(key).numel():
            return replace(scene, alignment=None, observed=_without(scene.observed, key))
        return scene

    def _traced(self, call: str) -> tuple[TracedCall, TracedCall | None]:
        """The backward pass of a call, in both models; it is traced once."""
        if call not in self.traced:
            reference = self.models.traced_reference(
                call, lambda one, names: traced_backward(one, names, self.cotangents), backward=True
            )
            known = zip(reference.outputs, reference.runnable.outputs(), strict=True)
            shapes = {key: value.shape for key, value in known}
            candidate = self.models.traced_candidate(
                call, lambda one, names: traced_backward(one, names, self.cotangents, shapes), backward=True
            )
            self.traced[call] = reference, candidate
        return self.traced[call]

    def _is_whole(self, key: str, value: Tensor) -> bool:
        """Whether a gradient is that of the whole model, and not the part of it that comes through one call."""
        if key not in self.golden or self.golden[key].shape != value.shape:
            return False
        golden = self.golden[key].detach().cpu()
        return key in self.observed and torch.allclose(golden, value, equal_nan=True)

    def cause(self, scene: Scene, culprit: Divergence, folder: Path) -> Cause:
        """An operation that goes wrong on the way there is the cause of what goes wrong on the way back."""
        assert isinstance(scene, RewrittenScene)
        fault = fault_of(scene)
        if scene.alignment is not None:
            _write(scene, fault, folder)
        forward = self._forward_cause(scene.call, culprit)
        if forward is not None and (forward.operation is not None or forward.suggestions):
            return forward
        return cause_of(scene, fault, culprit, self.models)

    def _forward_cause(self, call: str, culprit: Divergence) -> Cause | None:
        """The cause of a difference in what the call computes, if there is one; None if it computes the same."""
        try:
            scene = ComparedValues(self.models).scene_of(call, None)
        except TorchportError:
            return None
        for key in scene.slice.outputs:
            if _differs(scene, key):
                shown = replace(scene, key=key)
                return cause_of(shown, fault_of(shown), culprit, self.models)
        return None

    def set_up(self, scene: Scene, folder: Path) -> None:
        set_up(scene, folder)


def _if_it_can_be_seen(look: Callable[[], RewrittenScene]) -> RewrittenScene | None:
    try:
        return look()
    except TorchportError:
        return None


def _without(values: Mapping[str, Tensor], key: str) -> dict[str, Tensor]:
    return {other: value for other, value in values.items() if other != key}


def _differs(scene: RewrittenScene, key: str) -> bool:
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


def set_up(scene: Scene, folder: Path) -> None:
    """Leaves a layer by itself in a folder; ConvertError if the candidate's operations cannot be seen."""
    if not isinstance(scene, RewrittenScene) or scene.alignment is None:
        raise ConvertError("TP0401", "the candidate's operations cannot be seen")
    _write(scene, fault_of(scene), folder)


def _write(scene: RewrittenScene, fault: Fault | None, folder: Path) -> None:
    assert scene.alignment is not None
    graph = named_alike(scene.alignment, fault)
    write_rewritten(scene.capture, scene.stored, graph, scene.alignment.candidate.weights, folder)
