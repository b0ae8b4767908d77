"""The recording that a port is proven by: whether it is fit for that, and a new one on other inputs.

Looked at before a port is built and run, because a missing file is found in milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import torch

from torchport.capture.eager import on_meta, tensors
from torchport.capture.graph import Dim, Graph
from torchport.capture.manifest import read_manifest
from torchport.capture.plan import make_plan
from torchport.capture.rebuild import sizes_of
from torchport.capture.recorder import Capture, record, record_graph, record_streamed
from torchport.capture.weights import FileWeights
from torchport.errors import CaptureError, RunError, TraceError, UsageError, WeightsError
from torchport.runs.folder import RunFolder
from torchport.targets.base import Artifact, Resizable, Target
from torchport.trace.plan import Plan
from torchport.trace.reading import Trace
from torchport.weights.loaded import LoadedWeights

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


def record_again(
    model: torch.nn.Module | None,
    files: RunFolder,
    target: Target,
    artifact: Artifact,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> RunFolder:
    """Golden values for other inputs, beside those of the capture; the port stays as it is, and must fit them.

    A model on the meta device gets the weights that the port loads, a part of it at a time.
    """
    if model is None:
        raise UsageError(
            "TP0801",
            "a port that was opened from files has no model to record other inputs with",
            fix="set port.model first, or call check() without inputs",
        )
    graph, manifest = read_manifest(files.manifest)
    if on_meta(model, (args, kwargs)) and artifact.stored is not None and "export_error" not in manifest:
        return _filled(model, files, graph, artifact.stored, args, kwargs)
    if "export_error" in manifest:
        again = _watched_again(model, files.name, target, graph, args, kwargs)
    else:
        lifted = any(weight.kind == "constant" for weight in graph.weights.values())
        constants = FileWeights(files.captured("weights")) if lifted else {}
        again = record_graph(model, graph, constants, args, kwargs)
    others = files.on_other_inputs()
    again.save(others.captures, others.recording)
    return others


def _filled(
    model: torch.nn.Module,
    files: RunFolder,
    graph: Graph,
    stored: Path,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> RunFolder:
    if any(tensor.is_meta for tensor in tensors((args, dict(kwargs)))):
        raise UsageError(
            "TP0801",
            "the inputs are on the meta device, and so have no values",
            fix="Make the inputs outside of torch.device('meta'); the model may stay there.",
        )
    weights = LoadedWeights(stored, graph)
    again = record_streamed(model, graph, weights, args, kwargs)
    others = files.on_other_inputs()
    again.save(others.captures, others.recording)
    weights.save(others.captured("weights"))
    return others


def record_resized(
    model: torch.nn.Module | None,
    files: RunFolder,
    target: Target,
    artifact: Artifact,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> tuple[RunFolder, Artifact] | None:
    """A recording of the same model at other sizes, and the artifact with these; None if the sizes are the same."""
    sizes = {} if model is None else sizes_of(model)
    if model is None or not sizes or not isinstance(artifact, Resizable):
        return None
    known = read_manifest(files.manifest)[0].config
    if all(known.get(name, value) == value for name, value in sizes.items()):
        return None
    again = record(
        model,
        args,
        kwargs,
        name=files.name,
        variants=False,
        decompose=lambda op: not target.supports(op),
    )
    resized = artifact.resized(sizes, again.graph, again.weights)
    if resized is None:
        return None
    others = files.on_other_inputs()
    again.save(others.captures, others.recording)
    return others, resized


def _watched_again(
    model: torch.nn.Module,
    name: str,
    target: Target,
    graph: Graph,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Capture:
    """A recording of a model that export cannot follow: it must make the same calls."""
    again = record(
        model, args, kwargs, name=name, variants=False, decompose=lambda op: not target.supports(op)
    )
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
            if not _fits(shape, item.meta.shape):
                raise TraceError(
                    "TP0312",
                    f"{key!r} has the shape {list(shape)} in the trace, and the manifest has "
                    f"{[size if isinstance(size, int) else 'any' for size in item.meta.shape]}",
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
        with safetensors.safe_open(path, framework="np") as file:
            there = set(file.keys())
            for name, weight in wanted.items():
                if name not in there:
                    raise WeightsError("TP0320", f"the weights have no tensor {name!r}", where=str(path))
                found = file.get_slice(name)
                shape, dtype = tuple(found.get_shape()), str(found.get_dtype())
                is_float = dtype.startswith(_STORED_FLOATS)
                if shape != weight.meta.shape or is_float != ("float" in weight.meta.dtype):
                    raise WeightsError(
                        "TP0321",
                        f"the tensor {name!r} is {dtype} {list(shape)}, and the port reads "
                        f"{weight.meta.dtype} {list(weight.meta.shape)}",
                        where=str(path),
                    )
    except FileNotFoundError as error:
        raise WeightsError("TP0320", f"there is no weights file {path}", where=str(path)) from error
    except (safetensors.SafetensorError, OSError) as error:
        raise WeightsError("TP0320", f"the weights cannot be read: {error}", where=str(path)) from error
