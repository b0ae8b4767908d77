"""Whether the files of a port are fit to prove anything: the trace has every layer, the weights every tensor.

Looked at before a port is built and run, because a missing file is found in milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import safetensors

from torchport.capture.graph import Dim, Graph
from torchport.capture.plan import Plan
from torchport.errors import TraceError, WeightsError
from torchport.trace.reading import Trace


@dataclass(frozen=True)
class Evidence:
    """Where the files of a run are."""

    graph: Graph
    trace: Path
    lockstep: Path
    weights: Path
    """As they were recorded."""
    stored: Path
    """As the port loads them."""


_STORED_FLOATS = ("F", "BF")


def check_trace(path: Path, graph: Graph, plan: Plan) -> None:
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


def check_truth(path: Path) -> None:
    """The truth is there or not; a broken one is an error."""
    if path.is_file():
        Trace(path).__exit__(None, None, None)


def check_weights(path: Path, graph: Graph) -> None:
    """The file that the port loads has every tensor that it reads, in the shape that it reads."""
    wanted = {name: weight for name, weight in graph.weights.items() if weight.tied_to is None}
    if not wanted:
        return
    try:
        with safetensors.safe_open(path, framework="pt") as file:
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
