"""What a manifest must hold: the form of its JSON, and that what it names is there.

In: the JSON object, then the graph made of it. Out: nothing, or `Invalid` with the place of the first fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import torch
from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter, ValidationError

from torchport.capture import graph as g


class Invalid(Exception):
    """A fault in a manifest: `place: what`."""


def _is_dtype(name: str) -> str:
    if not isinstance(getattr(torch, name, None), torch.dtype):
        raise ValueError(f"{name!r} is not a dtype of torch")
    return name


def _is_expr(data: Any) -> Any:
    if isinstance(data, list):
        if len(data) < 3 or data[0] not in g.SYM_OPERATIONS:
            raise ValueError(f"{data!r} is not an operation on sizes")
        for operand in data[1:]:
            _is_expr(operand)
    elif type(data) is not int and not isinstance(data, str):
        raise ValueError(f"{data!r} is not a size")
    return data


def _is_arg(data: Any) -> Any:
    """An argument is JSON's own, or an object with one key that says what it is."""
    if isinstance(data, list):
        for item in data:
            _is_arg(item)
    elif isinstance(data, dict):
        if len(data) != 1:
            raise ValueError(f"an argument has {len(data)} kinds: {', '.join(data)}")
        ((word, value),) = data.items()
        _KINDS[word].validate_python(value) if word in _KINDS else _unknown(word)
    return data


def _unknown(word: str) -> None:
    raise ValueError(f"an argument is of the unknown kind {word!r}")


Dtype = Annotated[str, AfterValidator(_is_dtype)]
Expr = Annotated[Any, AfterValidator(_is_expr)]
Arg = Annotated[Any, AfterValidator(_is_arg)]
_STRICT = ConfigDict(strict=True)
_KINDS: dict[str, TypeAdapter] = {
    "ref": TypeAdapter(str | tuple[str, int], config=ConfigDict(strict=False)),
    "sym": TypeAdapter(Expr),
    "float": TypeAdapter(Literal["inf", "-inf", "nan"]),
    "dtype": TypeAdapter(Dtype),
    **{word: TypeAdapter(str, config=_STRICT) for word in ("device", "layout", "memory_format")},
}


class _Sym(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    sym: Expr


class _Meta(BaseModel):
    model_config = _STRICT
    shape: list[int | _Sym]
    dtype: Dtype


class _Input(_Meta):
    name: str
    hint: str | None = None


class _Weight(_Meta):
    kind: Literal["parameter", "buffer", "constant"]
    tied_to: str | None = None


class _Node(BaseModel):
    model_config = _STRICT
    name: str
    op: str
    args: list[Arg]
    kwargs: dict[str, Arg] = {}
    outputs: list[_Meta | None]
    target: str | None = None
    source: str | None = None
    hint: str | None = None


class _Module(BaseModel):
    model_config = _STRICT
    key: str
    type: str
    inputs: list[_Input]
    nodes: list[_Node]
    outputs: list[Arg]
    params: dict[str, str]
    attributes: dict[str, Arg]
    source: str | None


class _Symbol(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    name: str
    input: str
    axis: int
    low: int
    high: int | None


class _Call(BaseModel):
    model_config = _STRICT
    name: str
    inputs: list[str]
    outputs: list[str]


class Manifest(BaseModel):
    """Fields that a later version adds are read over; those here must be there."""

    model_config = _STRICT
    name: str
    root: str
    config: dict[str, Arg]
    symbols: list[_Symbol]
    outputs: list[str]
    weights: dict[str, _Weight]
    modules: list[_Module]
    calls: list[_Call]
    events: list[list[str]]
    aliases: dict[str, str]


def validate_json(data: dict[str, Any]) -> None:
    try:
        Manifest.model_validate(data)
    except (ValidationError, RecursionError) as error:
        if isinstance(error, RecursionError):
            raise Invalid("its arguments: they are nested too deeply") from error
        first = error.errors()[0]
        raise Invalid(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def validate_graph(graph: g.Graph) -> None:
    for place, wrong in _faults(graph):
        raise Invalid(f"{place}: {wrong}")


def _faults(graph: g.Graph) -> Iterator[tuple[str, str]]:
    if "" not in graph.modules:
        yield "modules", "there is no root module"
        return
    yield from _weight_faults(graph)
    inputs = {item.name: item.meta for item in graph.root.inputs}
    for symbol in graph.symbols:
        if symbol.input not in inputs or not 0 <= symbol.axis < inputs[symbol.input].rank:
            yield f"symbols.{symbol.name}", f"the model has no axis {symbol.axis} of {symbol.input!r}"
    if len(graph.output_names) != len(graph.root.outputs):
        yield "outputs", f"there are {len(graph.output_names)} names for {len(graph.root.outputs)} outputs"
    for key, module in graph.modules.items():
        for where, wrong in _module_faults(graph, module):
            yield f"modules.{key or 'root'}.{where}", wrong
    yield from _circles(graph, "", ())


def _weight_faults(graph: g.Graph) -> Iterator[tuple[str, str]]:
    for name, weight in graph.weights.items():
        if not weight.meta.is_static:
            yield f"weights.{name}", "its shape is not fixed"
        if weight.tied_to is not None:
            head = graph.weights.get(weight.tied_to)
            if head is None or head.tied_to is not None or head.meta != weight.meta:
                yield f"weights.{name}", f"it is tied to {weight.tied_to!r}, which is not a weight like it"


def _module_faults(graph: g.Graph, module: g.Module) -> Iterator[tuple[str, str]]:
    known = {symbol.name for symbol in graph.symbols}
    counts = {item.name: 1 for item in module.inputs} | dict.fromkeys(module.params, 1)
    for node_name, weight in module.params.items():
        if weight not in graph.weights:
            yield f"params.{node_name}", f"there is no weight {weight!r}"
    for item in module.inputs:
        yield from ((f"inputs.{item.name}", wrong) for wrong in _unknown_symbols(item.meta.shape, known))
    for node in module.nodes:
        place = f"nodes.{node.name}"
        if node.name in counts:
            yield place, "the name is used twice"
        for ref in g.refs([node.args, node.kwargs]):
            if not 0 <= ref.index < counts.get(ref.name, 0):
                yield place, f"it reads {ref.name!r}[{ref.index}], which nothing before it gives"
        shapes = [meta.shape for meta in node.outputs if meta is not None]
        for wrong in _unknown_symbols([node.args, node.kwargs, shapes], known):
            yield place, wrong
        if node.op == g.CALL:
            yield from ((place, wrong) for wrong in _call_faults(graph, node))
        elif node.op.count(".") != 2:
            yield place, f"{node.op!r} is not the name of an operation"
        counts[node.name] = len(node.outputs)
    for ref in module.outputs:
        if not isinstance(ref, g.Ref) or not 0 <= ref.index < counts.get(ref.name, 0):
            yield "outputs", f"{ref} is not a value of the module"


def _call_faults(graph: g.Graph, node: g.Node) -> Iterator[str]:
    callee = graph.modules.get(node.target or "")
    if node.target is None or callee is None:
        yield f"it calls {node.target!r}, which is not a module of the manifest"
    elif len(callee.inputs) != len(node.args) or not all(isinstance(arg, g.Ref) for arg in node.args):
        yield f"it calls {node.target!r} with {len(node.args)} values, which takes {len(callee.inputs)}"
    elif len(callee.outputs) != len(node.outputs):
        yield f"it takes {len(node.outputs)} values from {node.target!r}, which gives {len(callee.outputs)}"


def _unknown_symbols(data: Any, known: set[str]) -> Iterator[str]:
    if isinstance(data, g.Sym):
        for name in sorted(data.symbols() - known):
            yield f"the size {name!r} is not one of the symbols"
    elif isinstance(data, list | tuple):
        for item in data:
            yield from _unknown_symbols(item, known)
    elif isinstance(data, dict):
        yield from _unknown_symbols(list(data.values()), known)


def _circles(graph: g.Graph, key: str, above: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if key in above:
        yield f"modules.{key or 'root'}", "it calls itself"
        return
    targets = {node.target for node in graph.modules[key].nodes if node.op == g.CALL}
    for target in sorted(target for target in targets if target in graph.modules):
        yield from _circles(graph, target, (*above, key))
