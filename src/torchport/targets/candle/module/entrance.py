"""The first lines of the model's `forward`: what must be so of its inputs for the graph to stand for the model.

The program holds its inputs against the table in `main.rs` before; who calls the model from Rust is told here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchport.capture import graph as g
from torchport.capture import operations
from torchport.targets.base import Todo
from torchport.targets.candle.body import Unsupported
from torchport.targets.candle.code import Code, code
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.operands import number
from torchport.targets.candle.sizes import may_be_negative

_HELD_BY_WEIGHTS = {
    "aten.linear.default": ("input", -1, "weight"),
    "aten.conv1d.default": ("input", 1, "weight"),
    "aten.conv1d.padding": ("input", 1, "weight"),
    "aten.conv2d.default": ("input", 1, "weight"),
    "aten.conv2d.padding": ("input", 1, "weight"),
    "aten.conv3d.default": ("input", 1, "weight"),
    "aten.batch_norm.default": ("input", 1, "weight"),
    "aten.layer_norm.default": ("input", -1, "weight"),
}
"""Operation → an argument, the axis of it that a weight has too, and that weight: with another length it fails."""


def guard_entrance(e: Emitter) -> None:
    """Writes a check for each fixed axis that no weight holds, for each limit of a free size, and each condition."""
    held = set(_held(e.graph, ""))
    for item in e.module.inputs:
        for axis, size in enumerate(item.meta.shape):
            if isinstance(size, int) and (item.name, axis) not in held:
                name = e.values[g.Ref(item.name)].code
                e.write(code("ops::expect_length({}, {}, {})?;", name, axis, e.slot(size, None)))
    for symbol in e.graph.symbols:
        if symbol.low > 1:
            e.write(_ensured([_relation(e, g.Sym(symbol.name), ">=", symbol.low)]))
        if symbol.high is not None:
            e.write(_ensured([_relation(e, g.Sym(symbol.name), "<=", symbol.high)]))
    for condition in e.graph.conditions:
        if not condition.is_limit:
            _write_condition(e, condition)


def _write_condition(e: Emitter, condition: g.Condition) -> None:
    try:
        relations = [_relation(e, one.left, one.relation, one.right) for one in condition.alternatives]
        e.write(_ensured(relations))
    except Unsupported as unsupported:
        reason = f"the port stands for the model where {condition}: {unsupported}".replace('"', "'")
        layer = e.graph.root.class_name
        e.body.todos.append(Todo(op="condition", layer=layer, source=condition.source, reason=reason))
        e.write(code("// TODO(torchport): {}", reason), code('torchport_runtime::todo("{}")?;', reason))


def _ensured(relations: Sequence[Code]) -> Code:
    """A line that refuses inputs of which no relation is so."""
    return code(f"ensure!({' || '.join('{}' for _ in relations)});", *relations)


def _relation(e: Emitter, left: g.Dim, relation: str, right: g.Dim) -> Code:
    is_signed = any((isinstance(dim, int) and dim < 0) or _is_signed(dim) for dim in (left, right))
    kind = "i64" if is_signed else "usize"
    return code("{} {} {}", number(e, left, None, kind), relation, number(e, right, None, kind))


def _is_signed(dim: g.Dim) -> bool:
    """Whether a size may be negative, or is not written as a length."""
    return isinstance(dim, g.Sym) and may_be_negative(dim.expr)


def _held(graph: g.Graph, key: str) -> Iterator[tuple[str, int]]:
    """The axes of a module's inputs that must have their length, because an operation with a weight reads them."""
    module = graph.modules[key]
    ranks = {item.name: item.meta.rank for item in module.inputs}
    for node in module.nodes:
        if node.op == g.CALL and node.target is not None:
            inner = graph.modules[node.target]
            inside = list(_held(graph, node.target))
            for item, arg in zip(inner.inputs, node.args, strict=True):
                if isinstance(arg, g.Ref) and arg.name in ranks:
                    yield from ((arg.name, axis) for name, axis in inside if name == item.name)
        elif node.op in _HELD_BY_WEIGHTS:
            name, axis, weight = _HELD_BY_WEIGHTS[node.op]
            given = operations.given(node.op, node.args, node.kwargs)
            read, held = given.get(name), given.get(weight)
            is_held = isinstance(held, g.Ref) and held.name in module.params
            if is_held and isinstance(read, g.Ref) and read.name in ranks:
                yield read.name, axis % ranks[read.name]
