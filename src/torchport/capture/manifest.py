"""The manifest file: a Graph with its calls as versioned JSON, and back.

Arguments keep their types: a reference, a symbolic size or a dtype is an object with one key that says which,
everything else is JSON's own. `docs/manifest.md` describes the format.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torchport.capture import graph as g
from torchport.capture.plan import Plan, make_plan
from torchport.capture.schema import Invalid, validate_graph, validate_json
from torchport.errors import CaptureError, ManifestError
from torchport.files import write_atomically

SCHEMA = 1
_WORDS: dict[str, type[Any]] = {
    "dtype": g.Dtype,
    "device": g.Device,
    "layout": g.Layout,
    "memory_format": g.MemoryFormat,
}


def write_manifest(path: Path, graph: g.Graph, *, extra: dict[str, Any]) -> None:
    data = {"schema": SCHEMA, **extra, **encode(graph, make_plan(graph))}
    write_atomically(path, json.dumps(data, indent=1, allow_nan=False).encode())


def read_manifest(path: Path) -> tuple[g.Graph, dict[str, Any]]:
    """The graph of a manifest, and the whole JSON object."""
    data = _load(path)
    version = data.get("schema")
    if type(version) is not int or version < 1:
        raise ManifestError("TP0305", f"the manifest's schema version is {version!r}", where=str(path))
    if version > SCHEMA:
        raise ManifestError(
            "TP0304",
            f"the manifest is of schema {version}; this torchport reads up to {SCHEMA}",
            where=str(path),
            fix="upgrade torchport, or record the model again with this version",
        )
    try:
        validate_json(data)
        graph = decode(data)
        validate_graph(graph)
    except Invalid as wrong:
        raise ManifestError(
            "TP0305", f"the manifest is wrong at {wrong}", where=str(path), fix="record the model again"
        ) from wrong
    return graph, data


def _load(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ManifestError("TP0301", f"there is no manifest {path}", where=str(path)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError("TP0302", f"the manifest cannot be read: {error}", where=str(path)) from error
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        code, what = ("TP0303", "ends too early") if _is_cut(text, error) else ("TP0302", "is not JSON")
        raise ManifestError(code, f"the manifest {what}: {error}", where=f"{path}:{error.lineno}") from error
    except RecursionError as error:
        raise ManifestError("TP0302", "the manifest is nested too deeply", where=str(path)) from error
    if not isinstance(data, dict):
        raise ManifestError("TP0305", "the manifest is not a JSON object", where=str(path))
    return data


def _is_cut(text: str, error: json.JSONDecodeError) -> bool:
    """Whether the text would have been JSON, had it gone on."""
    if not text.strip():
        return True
    if not text.lstrip().startswith("{"):
        return False
    rest = text[error.pos :].strip()
    begun = any(word.startswith(rest) for word in ("true", "false", "null", "-"))
    escape = error.msg.startswith(("Invalid \\", "Invalid control")) and error.pos >= len(text) - 6
    return begun or escape or len(rest) <= 1 or error.msg.startswith("Unterminated string")


def encode(graph: g.Graph, plan: Plan) -> dict[str, Any]:
    return {
        "name": graph.name,
        "root": plan.root,
        "config": {k: _encode(v) for k, v in graph.config.items()},
        "symbols": [asdict(symbol) for symbol in graph.symbols],
        "outputs": list(graph.output_names),
        "weights": {
            name: {**_encode_meta(w.meta), "kind": w.kind, **({"tied_to": w.tied_to} if w.tied_to else {})}
            for name, w in graph.weights.items()
        },
        "modules": [_encode_module(module) for module in graph.modules.values()],
        "calls": [{k: v for k, v in asdict(call).items() if v is not None} for call in plan.calls.values()],
        "events": [list(event) for event in plan.events],
        "aliases": plan.aliases,
    }


def decode(data: dict[str, Any]) -> g.Graph:
    return g.Graph(
        name=data["name"],
        modules={m["key"]: _decode_module(m) for m in data["modules"]},
        weights={
            name: g.Weight(_decode_meta(w), w["kind"], w.get("tied_to"))
            for name, w in data["weights"].items()
        },
        symbols=tuple(g.Symbol(**symbol) for symbol in data["symbols"]),
        output_names=tuple(data["outputs"]),
        config={k: _decode(v) for k, v in data["config"].items()},
    )


def _encode_module(module: g.Module) -> dict[str, Any]:
    return {
        "key": module.key,
        "type": module.type,
        "inputs": [
            {"name": i.name, **_encode_meta(i.meta), **({"hint": i.hint} if i.hint else {})}
            for i in module.inputs
        ],
        "nodes": [_encode_node(node) for node in module.nodes],
        "outputs": _encode(list(module.outputs)),
        "params": module.params,
        "attributes": {k: _encode(v) for k, v in module.attributes.items()},
        "source": module.source,
    }


def _decode_module(data: dict[str, Any]) -> g.Module:
    return g.Module(
        key=data["key"],
        type=data["type"],
        inputs=tuple(g.Input(i["name"], _decode_meta(i), i.get("hint")) for i in data["inputs"]),
        nodes=tuple(_decode_node(node) for node in data["nodes"]),
        outputs=tuple(_decode(data["outputs"])),
        params=data["params"],
        attributes={k: _decode(v) for k, v in data["attributes"].items()},
        source=data["source"],
    )


def _encode_node(node: g.Node) -> dict[str, Any]:
    optional = {"target": node.target, "source": node.source, "hint": node.hint}
    return {
        "name": node.name,
        "op": node.op,
        "args": _encode(list(node.args)),
        **({"kwargs": {k: _encode(v) for k, v in node.kwargs.items()}} if node.kwargs else {}),
        "outputs": [None if m is None else _encode_meta(m) for m in node.outputs],
        **{k: v for k, v in optional.items() if v is not None},
    }


def _decode_node(data: dict[str, Any]) -> g.Node:
    return g.Node(
        name=data["name"],
        op=data["op"],
        args=tuple(_decode(data["args"])),
        kwargs={k: _decode(v) for k, v in data.get("kwargs", {}).items()},
        outputs=tuple(None if m is None else _decode_meta(m) for m in data["outputs"]),
        target=data.get("target"),
        source=data.get("source"),
        hint=data.get("hint"),
    )


def _encode_meta(meta: g.TensorMeta) -> dict[str, Any]:
    return {"shape": [_encode(dim) for dim in meta.shape], "dtype": meta.dtype}


def _decode_meta(data: dict[str, Any]) -> g.TensorMeta:
    return g.TensorMeta(tuple(_decode(dim) for dim in data["shape"]), data["dtype"])


def must_be_typed(graph: g.Graph) -> None:
    """A number that export took out of a tensor is not an argument that a graph can hold."""
    for module in graph.modules.values():
        for node in module.nodes:
            if not _is_typed([*node.args, *node.kwargs.values()]):
                raise CaptureError(
                    "TP0202",
                    f"{node.op} takes a number that is read from a tensor (.item() or float(tensor))",
                    where=node.source or module.key or None,
                    fix="keep the value a tensor: leave .item() out",
                )


def _is_typed(arg: g.Arg) -> bool:
    """Whether an argument, or everything in it, has a form in the manifest."""
    if isinstance(arg, list | tuple):
        return all(_is_typed(item) for item in arg)
    return arg is None or isinstance(arg, (bool, int, float, str, g.Ref, g.Sym, *_WORDS.values()))


def _encode(arg: g.Arg) -> Any:
    if isinstance(arg, g.Ref):
        return {"ref": [arg.name, arg.index]} if arg.index else {"ref": arg.name}
    if isinstance(arg, g.Sym):
        return {"sym": _encode_expr(arg.expr)}
    for word, kind in _WORDS.items():
        if isinstance(arg, kind):
            return {word: arg.name}
    if isinstance(arg, float) and not math.isfinite(arg):
        return {"float": str(arg)}
    if isinstance(arg, list | tuple):
        return [_encode(item) for item in arg]
    if arg is None or isinstance(arg, bool | int | float | str):
        return arg
    raise TypeError(f"an argument of type {type(arg).__name__} has no form in the manifest")


def _decode(data: Any) -> g.Arg:
    if isinstance(data, list):
        return [_decode(item) for item in data]
    if not isinstance(data, dict):
        return data
    ((word, value),) = data.items()
    if word == "ref":
        return g.Ref(*value) if isinstance(value, list) else g.Ref(value)
    if word == "sym":
        return g.Sym(_decode_expr(value))
    return float(value) if word == "float" else _WORDS[word](value)


def _encode_expr(expr: g.Expr) -> Any:
    return [expr[0], *map(_encode_expr, expr[1:])] if isinstance(expr, tuple) else expr


def _decode_expr(data: Any) -> g.Expr:
    return (data[0], *map(_decode_expr, data[1:])) if isinstance(data, list) else data
