"""A neuron graph in a folder: its structure as JSON that a user can read and edit, its arrays as safetensors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from torchport.capture.arguments import decode, encode
from torchport.capture.weights import FileWeights
from torchport.errors import ManifestError
from torchport.files import write_atomically
from torchport.targets.marble.groups import (
    Array,
    Assembly,
    Border,
    Flow,
    Form,
    FreeSize,
    Group,
    Kind,
    Memory,
    NeuronGraph,
    Port,
    Step,
)
from torchport.trace.writing import write_tensors

STRUCTURE = "neurons.json"
ARRAYS = "model.safetensors"
_VERSION = 1


def save_graph(folder: Path, graph: NeuronGraph, *, file: str = STRUCTURE) -> None:
    data = {"version": _VERSION, **graph_data(graph)}
    write_atomically(folder / file, json.dumps(data, indent=1, allow_nan=False).encode())


def load_graph(folder: Path, *, file: str = STRUCTURE) -> NeuronGraph:
    """The graph in a folder; ManifestError if it cannot be read."""
    path = folder / file
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["version"] != _VERSION:
            raise ValueError(f"its version is {data['version']!r}, and {_VERSION} can be read")
        return graph_from(data)
    except FileNotFoundError as error:
        raise ManifestError("TP0301", f"there is no neuron graph {path}", where=str(path)) from error
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        what = f"{type(error).__name__}: {error}"
        raise ManifestError(
            "TP0302",
            f"the neuron graph cannot be read: {what}",
            where=str(path),
            fix="undo the last edit, or convert the model again",
        ) from error


def save_arrays(folder: Path, arrays: Mapping[str, Tensor]) -> None:
    write_tensors(folder / ARRAYS, arrays, {"format": "pt"})


def load_arrays(folder: Path) -> Mapping[str, Tensor]:
    path = folder / ARRAYS
    return FileWeights(path) if path.is_file() else {}


# to JSON


def graph_data(graph: NeuronGraph) -> dict[str, Any]:
    """The structure as JSON has it."""
    return {
        "name": graph.name,
        "free": [vars(size) for size in graph.free],
        "inputs": [_group(group) for group in graph.inputs],
        "steps": [_step(step) for step in graph.steps],
        "outputs": [_port(port) for port in graph.outputs],
    }


def _port(port: Port) -> Any:
    return [port.group, port.index] if port.index else port.group


def _step(step: Step) -> dict[str, Any]:
    if isinstance(step, Border):
        return {"border": step.key, "value": _port(step.value)}
    if isinstance(step, Memory):
        return {"memory": _group(step.group), "initial": _port(step.initial), "source": _port(step.source)}
    return _flow(step) if isinstance(step, Flow) else _assembly(step)


def _flow(step: Flow) -> dict[str, Any]:
    return {
        "flow": step.key,
        "layer": step.layer,
        "source": step.source,
        "operation": step.operation,
        "args": _arg(step.args),
        "bodies": {role: graph_data(body) for role, body in step.bodies.items()},
        "joint": _group(step.joint),
    }


def _assembly(step: Assembly) -> dict[str, Any]:
    return {
        "assembly": step.key,
        "layer": step.layer,
        "source": step.source,
        "operation": step.operation,
        "args": _arg(step.args),
        "kwargs": {name: _arg(value) for name, value in step.kwargs.items()},
        "groups": [_group(group) for group in step.groups],
        "outputs": [_port(port) for port in step.outputs],
    }


def _group(group: Group) -> dict[str, Any]:
    return {
        "group": group.name,
        "kind": group.kind.value,
        "work": group.work,
        "inputs": [_port(port) for port in group.inputs],
        "results": [[form.dtype, *form.shape] for form in group.results],
        "first": group.first,
        "layer": group.layer,
        "options": {name: _arg(value) for name, value in group.options.items()},
        "weights": group.weights,
        **({"added": list(group.added)} if group.added else {}),
        **({"removed": sorted(group.removed)} if group.removed else {}),
    }


def _arg(arg: Any) -> Any:
    if isinstance(arg, list | tuple):
        return [_arg(item) for item in arg]
    if isinstance(arg, Port):
        return {"value": _port(arg)}
    if isinstance(arg, Array):
        return {"array": arg.name}
    return {"complex": [arg.real, arg.imag]} if isinstance(arg, complex) else encode(arg)


# and back


def graph_from(data: dict[str, Any]) -> NeuronGraph:
    """The structure that JSON has; KeyError, TypeError or ValueError if it has none."""
    return NeuronGraph(
        name=data["name"],
        inputs=tuple(_read_group(group) for group in data["inputs"]),
        steps=tuple(_read_step(step) for step in data["steps"]),
        outputs=tuple(_read_port(port) for port in data["outputs"]),
        free=tuple(FreeSize(**size) for size in data["free"]),
    )


def _read_port(data: Any) -> Port:
    if isinstance(data, str):
        return Port(data)
    group, index = data
    return Port(group, index)


def _read_step(data: dict[str, Any]) -> Step:
    if "border" in data:
        return Border(f"border:{data['border']}", data["border"], _read_port(data["value"]))
    if "memory" in data:
        return Memory(_read_group(data["memory"]), _read_port(data["initial"]), _read_port(data["source"]))
    if "flow" in data:
        return _read_flow(data)
    return Assembly(
        name=f"{data['assembly']}!",
        operation=data["operation"],
        args=tuple(_read_arg(data["args"])),
        kwargs={name: _read_arg(value) for name, value in data["kwargs"].items()},
        groups=tuple(_read_group(group) for group in data["groups"]),
        outputs=tuple(_read_port(port) for port in data["outputs"]),
        layer=data["layer"],
        source=data["source"],
    )


def _read_flow(data: dict[str, Any]) -> Flow:
    return Flow(
        name=f"{data['flow']}!",
        operation=data["operation"],
        args=tuple(_read_arg(data["args"])),
        bodies={role: graph_from(body) for role, body in data["bodies"].items()},
        joint=_read_group(data["joint"]),
        layer=data["layer"],
        source=data["source"],
    )


def _read_group(data: dict[str, Any]) -> Group:
    return Group(
        name=data["group"],
        kind=Kind(data["kind"]),
        work=data["work"],
        inputs=tuple(_read_port(port) for port in data["inputs"]),
        results=tuple(Form(tuple(shape), dtype) for dtype, *shape in data["results"]),
        first=data["first"],
        layer=data["layer"],
        options={name: _read_arg(value) for name, value in data["options"].items()},
        weights=data["weights"],
        added=tuple(data.get("added", ())),
        removed=frozenset(data.get("removed", ())),
    )


def _read_arg(data: Any) -> Any:
    if isinstance(data, list):
        return [_read_arg(item) for item in data]
    if isinstance(data, dict) and "value" in data:
        return _read_port(data["value"])
    if isinstance(data, dict) and "array" in data:
        return Array(data["array"])
    return complex(*data["complex"]) if isinstance(data, dict) and "complex" in data else decode(data)
