"""The recording that a port is proven by: whether it is fit for that, and a new one on other inputs.

Looked at before a port is built and run, because a missing file is found in milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from torchport.capture.assumed import Assumed
from torchport.capture.drawn import has_random
from torchport.capture.eager import on_meta, tensors
from torchport.capture.export import weights_of
from torchport.capture.graph import Dim, Graph
from torchport.capture.manifest import read_manifest
from torchport.capture.plan import make_plan
from torchport.capture.rebuild import sizes_of
from torchport.capture.recorder import Capture, record, record_graph, record_streamed
from torchport.capture.weights import FileWeights
from torchport.errors import CaptureError, RunError, TraceError, UsageError, WeightsError
from torchport.porting.conversion import Converted
from torchport.runs.folder import RunFolder
from torchport.targets.base import Artifact, Resizable, Target
from torchport.trace import safetensors_layout as layout
from torchport.trace.plan import Plan
from torchport.trace.reading import Trace, as_bytes
from torchport.weights.origin import independent

_STORED_FLOATS = ("F", "BF")


def must_have_values(files: RunFolder, artifact: Path) -> None:
    """A model on the meta device is captured without values, so that nothing can be compared but on other inputs."""
    if read_manifest(files.manifest)[1].get("values") is False:
        raise RunError(
            "TP0702",
            "the model was recorded on the meta device, so there are no values to compare with",
            fix=f"the code is in {artifact}; extract its weights with `torchport weights extract`, and give the SPEC "
            "with inputs that have values: torchport check DIR SPEC",
        )


class Subject(NamedTuple):
    """The model that a port was made from, and other inputs than the recorded ones."""

    model: torch.nn.Module | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class OnOtherInputs(NamedTuple):
    """A recording on other inputs in a folder of its own, and the artifact that is proven by it."""

    files: RunFolder
    artifact: Artifact


def on_other_inputs(subject: Subject, port: Converted, beside: RunFolder) -> OnOtherInputs:
    """Records the model on other inputs in `beside`; the port stays as it is, and must fit them.

    If it is the same model at other sizes, the artifact takes these and the weights that the model has. A model on the
    meta device gets its weights out of the checkpoint that the port's are from, a part of it at a time; or, if it has
    them under other names, those that the port loads.
    """
    model = subject.model
    if model is None:
        raise UsageError(
            "TP0801",
            "a port that was opened from files has no model to record other inputs with",
            fix="set port.model first, or call check() without inputs",
        )
    graph, manifest = read_manifest(port.files.manifest)
    stored = port.artifact.stored
    if on_meta(model, subject[1:]) and stored is not None and "export_error" not in manifest:
        return _streamed(model, subject, graph, stored, port.artifact, beside)
    resized = _resized(model, subject, graph, port, beside)
    again, artifact = resized or (_again(model, subject, graph, manifest, port), port.artifact)
    files = beside if resized is None else beside.at_sizes()
    again.save(files.captures, files.name)
    files.write()
    return OnOtherInputs(files, artifact)


def _streamed(
    model: torch.nn.Module,
    subject: Subject,
    graph: Graph,
    stored: Path,
    artifact: Artifact,
    beside: RunFolder,
) -> OnOtherInputs:
    """A recording of a model of which only what runs is in memory."""
    if any(tensor.is_meta for tensor in tensors(subject[1:])):
        raise UsageError(
            "TP0801",
            "the inputs are on the meta device, and so have no values",
            fix="Make the inputs outside of torch.device('meta'); the model may stay there.",
        )
    with independent(stored, graph) as (weights, mapping):
        again = record_streamed(model, graph, weights, subject.args, subject.kwargs)
        replace(again, mapping=mapping).save(beside.captures, beside.name)
        weights.save(beside.captured("weights"))
    beside.write()
    return OnOtherInputs(beside, artifact)


def _again(
    model: torch.nn.Module, subject: Subject, graph: Graph, manifest: Mapping[str, Any], port: Converted
) -> Capture:
    """Golden values of the graph that was captured before."""
    if "export_error" in manifest:
        _must_have_weights_of(port, model, graph, manifest)
        return _watched_again(model, subject, port.target, graph)
    lifted = any(weight.kind == "constant" for weight in graph.weights.values())
    constants = FileWeights(port.files.captured("weights")) if lifted else {}
    weights_of(model, graph, constants)
    _must_have_weights_of(port, model, graph, manifest)
    again = record_graph(model, graph, constants, subject.args, subject.kwargs)
    assumed = Assumed.model_validate(manifest.get("assumed") or {})
    return replace(again, writes=tuple(manifest.get("writes", ())), assumed=assumed)


def _must_have_weights_of(
    port: Converted, model: torch.nn.Module, graph: Graph, manifest: Mapping[str, Any]
) -> None:
    """WeightsError if the model is not the one that the port was made from: that is known before anything is run.

    Buffers that the model writes to are others after each call.
    """
    stored = port.files.captured("weights")
    if not stored.is_file():
        return
    kept = FileWeights(stored)
    own: dict[str, torch.Tensor] = dict(model.named_parameters(remove_duplicate=False))
    own |= dict(model.named_buffers(remove_duplicate=False))
    written = manifest.get("writes", ())
    names = [
        name
        for name in kept
        if name in own and name not in written and graph.weights[name].kind != "constant"
    ]
    others = [name for name in names if not _is_same(own[name], kept[name])]
    if others:
        count = f"{len(others)} of {len(names)} tensors differ"
        raise WeightsError(
            "TP0327", f"these are other weights: {count}, the first is {others[0]!r}", where=str(stored)
        )


def _is_same(tensor: torch.Tensor, kept: torch.Tensor) -> bool:
    """Whether two tensors are the same bit by bit, NaN included; one without values is not looked at."""
    if tensor.is_meta:
        return True
    if tensor.shape != kept.shape or tensor.dtype != kept.dtype:
        return False
    return bool(torch.equal(as_bytes(tensor.detach().cpu()), as_bytes(kept)))


def _resized(
    model: torch.nn.Module, subject: Subject, graph: Graph, port: Converted, beside: RunFolder
) -> tuple[Capture, Artifact] | None:
    """A recording of the same model at other sizes, and the artifact with these; None if the sizes are the same."""
    sizes = sizes_of(model) if isinstance(port.artifact, Resizable) else {}
    if not sizes or not isinstance(port.artifact, Resizable):
        return None
    if all(graph.config.get(name, value) == value for name, value in sizes.items()):
        return None
    again = _recorded(model, subject, port.name, port.target, graph)
    resized = port.artifact.resized(sizes, again.graph, again.weights, beside.sizes)
    return None if resized is None else (again, resized)


def _recorded(model: torch.nn.Module, subject: Subject, name: str, target: Target, graph: Graph) -> Capture:
    return record(
        model,
        subject.args,
        subject.kwargs,
        name=name,
        variants=False,
        decompose=lambda op: not target.supports(op),
        allow_random=has_random(graph),
    )


def _watched_again(model: torch.nn.Module, subject: Subject, target: Target, graph: Graph) -> Capture:
    """A recording of a model that export cannot follow: it must make the same calls."""
    again = _recorded(model, subject, graph.name, target, graph)
    if again.plan.events != make_plan(graph).events:
        raise CaptureError(
            "TP0208", "on these inputs the model calls other layers than those that were recorded"
        )
    return again


def sound(files: RunFolder, stored: Path | None) -> Graph:
    """The graph of a recording, once it is seen that the trace, the truth and the weights are whole."""
    graph, _ = read_manifest(files.manifest)
    _check_trace(files.captured("trace"), graph, make_plan(graph))
    if (truth := files.captured("truth")).is_file():
        Trace(truth).__exit__(None, None, None)
    if stored is not None:
        _check_weights(stored, graph)
    return graph


def _check_trace(path: Path, graph: Graph, plan: Plan) -> None:
    """Every value that the plan of calls names is in the trace, and the inputs have the shapes of the graph."""
    with Trace(path) as trace:
        for call in plan.calls.values():
            missing = [key for key in (*call.inputs, *call.outputs) if not trace.has(key)]
            if missing:
                raise TraceError(
                    "TP0311",
                    f"the trace has no value {missing[0]!r} for the layer {call.name} ({call.type})",
                    where=str(path),
                    fix="record the model again, so that manifest and trace are of one recording",
                )
        root = plan.calls[plan.root]
        for key, item in zip(root.inputs, graph.root.inputs, strict=True):
            shape = trace.shape(key)
            # A complex tensor is stored with an axis for its parts.
            wanted = (*item.meta.shape, 2) if item.meta.dtype.startswith("complex") else item.meta.shape
            if not _fits(shape, wanted):
                raise TraceError(
                    "TP0312",
                    f"{key!r} has the shape {list(shape)} in the trace, and the manifest has "
                    f"{[size if isinstance(size, int) else 'any' for size in wanted]}",
                    where=str(path),
                )


def _fits(shape: tuple[int, ...], expected: tuple[Dim, ...]) -> bool:
    """Free sizes may be any."""
    return len(shape) == len(expected) and all(
        not isinstance(size, int) or size == found for found, size in zip(shape, expected, strict=True)
    )


def _check_weights(path: Path, graph: Graph) -> None:
    """The file that the port loads has every tensor that it reads, in the shape that it reads."""
    wanted = {name: weight for name, weight in graph.weights.items() if weight.tied_to is None}
    if not wanted:
        return
    try:
        there = layout.read_header(path).tensors
    except FileNotFoundError as error:
        raise WeightsError("TP0320", f"there is no weights file {path}", where=str(path)) from error
    except (layout.NotSound, OSError) as error:
        raise WeightsError("TP0320", f"the weights cannot be read: {error}", where=str(path)) from error
    for name, weight in wanted.items():
        if name not in there:
            raise WeightsError("TP0320", f"the weights have no tensor {name!r}", where=str(path))
        shape, dtype = tuple(there[name]["shape"]), there[name]["dtype"]
        is_float = dtype.startswith(_STORED_FLOATS)
        if shape != weight.meta.shape or is_float != ("float" in weight.meta.dtype):
            raise WeightsError(
                "TP0321",
                f"the tensor {name!r} is {dtype} {list(shape)}, and the port reads "
                f"{weight.meta.dtype} {list(weight.meta.shape)}",
                where=str(path),
            )
