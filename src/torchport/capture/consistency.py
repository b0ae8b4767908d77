"""What must agree within a graph: that all it names is there, and that no module calls itself.

In: a graph that was read from a file. Out: its faults, each with the place where it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torchport.capture import graph as g
from torchport.capture import operations
from torchport.capture.control_flow import CONTROL_FLOW


def faults(graph: g.Graph) -> Iterator[tuple[str, str]]:
    """The place of each fault, and what is wrong there."""
    if "" not in graph.modules:
        yield "modules", "there is no root module"
        return
    yield from _weight_faults(graph)
    inputs = {item.name: item.meta for item in graph.root.inputs}
    for symbol in graph.symbols:
        if symbol.input not in inputs or not 0 <= symbol.axis < inputs[symbol.input].rank:
            yield f"symbols.{symbol.name}", f"the model has no axis {symbol.axis} of {symbol.input!r}"
    known = {symbol.name for symbol in graph.symbols}
    for number, condition in enumerate(graph.conditions):
        for one in condition.alternatives:
            if one.relation not in g.RELATIONS:
                yield f"conditions.{number}", f"{one.relation!r} is not a relation of sizes"
            yield from ((f"conditions.{number}", wrong) for wrong in _unknown_symbols(list(one.sides), known))
    if len(graph.output_names) != len(graph.root.outputs):
        yield "outputs", f"there are {len(graph.output_names)} names for {len(graph.root.outputs)} outputs"
    bodies = g.body_keys(graph.modules)
    for key, module in graph.modules.items():
        for where, wrong in _module_faults(graph, module):
            yield f"modules.{key or 'root'}.{where}", wrong
        if key in bodies and any(node.op in (g.CALL, g.UNKNOWN) for node in module.nodes):
            yield f"modules.{key}", "a body of control flow calls modules, or is not known"
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
    known = {symbol.name for symbol in graph.symbols} | graph.measured
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
        yield from ((place, wrong) for wrong in _body_faults(graph, node))
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


def _body_faults(graph: g.Graph, node: g.Node) -> Iterator[str]:
    kind = CONTROL_FLOW.get(node.op)
    if set(node.bodies) != set(kind.roles if kind is not None else ()):
        yield f"it has the bodies {sorted(node.bodies)}, which are not those of {node.op!r}"
        return
    if kind is None:
        return
    if len(node.args) != len(operations.arguments(node.op)) or node.kwargs:
        yield f"it has {len(node.args)} operands, and {node.op!r} has others"
        return
    expected = kind.signatures([_count(arg) for arg in node.args], len(node.outputs))
    for role, key in node.bodies.items():
        body = graph.modules.get(key)
        if body is None:
            yield f"its body {key!r} is not a module of the manifest"
        elif (len(body.inputs), len(body.outputs)) != expected[role]:
            yield f"its body {key!r} takes {len(body.inputs)} values and gives {len(body.outputs)}"


def _count(arg: g.Arg) -> int:
    """How many values an operand of control flow is."""
    return len(list(g.refs(arg)))


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
    targets |= {body for node in graph.modules[key].nodes for body in node.bodies.values()}
    for target in sorted(target for target in targets if target in graph.modules):
        yield from _circles(graph, target, (*above, key))
