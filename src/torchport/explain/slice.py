"""A part of a captured graph as a model of its own: the operations of one call, or some of these.

In: a graph and the name of a call in its trace. Out: a `Slice`. Its inputs are values that were recorded, those that
come from the calls inside included, so that nothing else has to run. Its sizes are those of the recording.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torchport.capture import graph as g
from torchport.capture.plan import Plan


@dataclass(frozen=True)
class Slice:
    """The graph of one module, and the trace keys of its inputs and outputs."""

    graph: g.Graph
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: dict[str, str]
    """Name in the slice → name in the model."""
    given: dict[str, str] = field(default_factory=dict)
    """Weights that stand for the outputs of the calls inside → the trace key of each of these outputs."""

    @property
    def nodes(self) -> tuple[g.Node, ...]:
        """The operations, without the calls of other modules."""
        return tuple(node for node in self.graph.root.nodes if node.op != g.CALL)

    @property
    def has_calls(self) -> bool:
        """Whether there are stand-ins for calls among the operations."""
        return len(self.nodes) < len(self.graph.root.nodes)


_Outside = dict[g.Ref, tuple[g.Input, str]]
"""Values that a slice does not compute itself → the input that each becomes if it is read, and its trace key."""


def own_operations(graph: g.Graph, plan: Plan, name: str, bindings: Mapping[str, int]) -> Slice | None:
    """The operations that the call `name` makes between the calls inside it, or None if it makes none."""
    call = plan.calls[name]
    module = _module_with_fixed_sizes(graph, call.module, bindings)
    children = (child for child in plan.calls.values() if child.parent == name)
    sources: _Outside = {
        g.Ref(item.name): (item, key) for item, key in zip(module.inputs, call.inputs, strict=True)
    }
    nodes: list[g.Node] = []
    read_outside: list[tuple[g.Ref, str]] = []
    for node in module.nodes:
        if node.op != g.CALL:
            nodes.append(node)
            continue
        child = next(children)
        read_outside += zip(node.args, child.inputs, strict=True)
        for index, key in enumerate(child.outputs):
            sources[g.Ref(node.name, index)] = (_as_input(node, index), key)
    read_outside += zip(module.outputs, call.outputs, strict=True)
    own = {node.name for node in nodes}
    # A value that is read twice has the key of its first reader, and the outputs are in the order of last reading.
    outputs = {
        ref: key for ref, key in reversed(read_outside) if ref.name in own and plan.resolve(key) == key
    }
    if not outputs:
        return None
    outputs = dict(reversed(outputs.items()))
    return _assembled(graph, module, nodes, sources, outputs, bindings)


def with_stand_ins(graph: g.Graph, plan: Plan, name: str, bindings: Mapping[str, int]) -> Slice | None:
    """The same operations with the calls among them: each becomes a module that gives what was recorded.

    Code that is generated from it reads like that of the model, so that edits of the one fit the other. None if a
    module is called twice, because a stand-in cannot give two values.
    """
    flat = own_operations(graph, plan, name, bindings)
    if flat is None:
        return None
    call = plan.calls[name]
    module = _module_with_fixed_sizes(graph, call.module, bindings)
    needed = upstream(module.nodes, {ref.name for ref in flat.graph.root.outputs})
    children = (child for child in plan.calls.values() if child.parent == name)
    stand_ins: dict[str, g.Module] = {}
    weights = dict(flat.graph.weights)
    given: dict[str, str] = {}
    nodes: list[g.Node] = []
    for node in module.nodes:
        child = next(children) if node.op == g.CALL else None
        if node.name not in needed:
            continue
        if child is None:
            nodes.append(node)
            continue
        assert node.target is not None
        key = node.target.removeprefix(f"{module.key}.").partition("@")[0]
        if key in stand_ins:
            return None
        stand_in = _stand_in(key, _module_with_fixed_sizes(graph, node.target, bindings))
        stand_ins[key] = stand_in
        weights |= {
            weight: g.Weight(_meta(node, index), "buffer")
            for index, weight in enumerate(stand_in.params.values())
        }
        given |= dict(zip(stand_in.params.values(), child.outputs, strict=True))
        nodes.append(replace(node, target=key))
    root = replace(
        module, key="", nodes=tuple(nodes), outputs=flat.graph.root.outputs, params=flat.graph.root.params
    )
    whole = replace(flat.graph, modules={**flat.graph.modules, "": root, **stand_ins}, weights=weights)
    return Slice(whole, tuple(call.inputs), flat.outputs, flat.weights, given)


def _stand_in(key: str, module: g.Module) -> g.Module:
    """A module that has its outputs as weights of its own, and returns these."""
    params = {f"given_{index}": f"{key}.given_{index}" for index in range(len(module.outputs))}
    outputs = tuple(g.Ref(name) for name in params)
    return g.Module(key, f"{module.type}Given", module.inputs, (), outputs, params, source=module.source)


def upstream(nodes: Iterable[g.Node], names: Iterable[str]) -> set[str]:
    """The names of those nodes on which the named values depend, their own nodes included."""
    reads = {node.name: {ref.name for ref in g.refs([node.args, node.kwargs])} for node in nodes}
    waiting, found = list(names), set()
    while waiting:
        name = waiting.pop()
        if name in reads and name not in found:
            found.add(name)
            waiting += reads[name]
    return found


def downstream(nodes: Iterable[g.Node], name: str) -> set[str]:
    """The names of the nodes that depend on a value, its own included; nodes come in the order in which they run."""
    found = {name}
    for node in nodes:
        if any(ref.name in found for ref in g.refs([node.args, node.kwargs])):
            found.add(node.name)
    return found


def some_operations(whole: Slice, names: Iterable[str], keys: Mapping[g.Ref, str]) -> Slice:
    """The nodes `names` of a slice. Their inputs are the values that they read of the other nodes.

    Their outputs are the values that the other nodes, or the outputs of the slice, read of them. `keys` has the key
    under which the value of each node was recorded.
    """
    chosen = set(names)
    root = whole.graph.root
    nodes = [node for node in root.nodes if node.name in chosen]
    others = [node for node in root.nodes if node.name not in chosen]
    sources: _Outside = {
        g.Ref(item.name): (item, key) for item, key in zip(root.inputs, whole.inputs, strict=True)
    }
    for node in others:
        for ref in _outputs(node):
            sources[ref] = (_as_input(node, ref.index), keys[ref])
    read = {ref for node in others for ref in g.refs([node.args, node.kwargs])} | set(root.outputs)
    outputs = {ref: keys[ref] for node in nodes for ref in _outputs(node) if ref in read}
    part = _assembled(whole.graph, root, nodes, sources, outputs, {})
    return replace(part, weights={name: whole.weights[name] for name in part.weights})


def _outputs(node: g.Node) -> list[g.Ref]:
    return [g.Ref(node.name, index) for index, meta in enumerate(node.outputs) if meta is not None]


def _as_input(node: g.Node, index: int) -> g.Input:
    """An output of a node as an input of a slice that does not have the node."""
    return g.Input(input_name(g.Ref(node.name, index)), _meta(node, index), node.hint)


def input_name(ref: g.Ref) -> str:
    """The name of a value as an input of a slice that does not compute it."""
    return f"{ref.name}_output_{ref.index}" if ref.index else ref.name


def _meta(node: g.Node, index: int) -> g.TensorMeta:
    meta = node.outputs[index]
    assert meta is not None
    return meta


def _assembled(
    graph: g.Graph,
    module: g.Module,
    nodes: list[g.Node],
    sources: _Outside,
    outputs: dict[g.Ref, str],
    bindings: Mapping[str, int],
) -> Slice:
    """The nodes as a graph of one module. All inputs stay if all nodes of the module do, else those that are read."""
    whole = len(nodes) == len(module.nodes)
    read = {ref for node in nodes for ref in g.refs([node.args, node.kwargs])}
    inputs = [source for ref, source in sources.items() if whole or ref in read]
    renamed = {ref: g.Ref(item.name) for ref, (item, _) in sources.items()}

    def rename(arg: g.Arg) -> g.Arg:
        return renamed.get(arg, arg) if isinstance(arg, g.Ref) else arg

    names_read = {ref.name for ref in read}
    params = {name: weight for name, weight in module.params.items() if name in names_read}
    prefix = f"{module.path}." if module.path else ""
    bodies = _bodies(graph, nodes, bindings)
    used = [*params.values(), *(weight for body in bodies.values() for weight in body.params.values())]
    local = {weight: weight.removeprefix(prefix) for weight in used}
    root = replace(
        module,
        key="",
        inputs=tuple(item for item, _ in inputs),
        nodes=tuple(g.map_node(node, rename) for node in nodes),
        outputs=tuple(outputs),
        params={name: local[weight] for name, weight in params.items()},
    )
    bodies = {
        key: replace(body, params={name: local[weight] for name, weight in body.params.items()})
        for key, body in bodies.items()
    }
    weights = {own: replace(graph.weights[weight], tied_to=None) for weight, own in local.items()}
    names = tuple(f"output_{index}" for index in range(len(outputs)))
    return Slice(
        g.Graph(graph.name, {"": root, **bodies}, weights, (), names, graph.config),
        tuple(key for _, key in inputs),
        tuple(outputs.values()),
        {own: _stored_name(graph, weight) for weight, own in local.items()},
    )


def _bodies(graph: g.Graph, nodes: Iterable[g.Node], bindings: Mapping[str, int]) -> dict[str, g.Module]:
    """The bodies of the control flow among some nodes, and the bodies therein, with every free size as recorded."""
    return {
        key: _module_with_fixed_sizes(graph, key, bindings)
        for node in nodes
        for body in node.bodies.values()
        for key in g.reached(graph.modules, body)
    }


def _stored_name(graph: g.Graph, weight: str) -> str:
    """The name under which a weight is stored: its own, or that of the weight to which it is tied."""
    return graph.weights[weight].tied_to or weight


def _module_with_fixed_sizes(graph: g.Graph, key: str, bindings: Mapping[str, int]) -> g.Module:
    """A module of the graph with every free size as it was recorded."""
    return g.Module(**_fixed(vars(graph.modules[key]), bindings))


def _fixed(value: Any, bindings: Mapping[str, int]) -> Any:
    if isinstance(value, g.Sym):
        return value.evaluate(bindings)
    if isinstance(value, list | tuple):
        return type(value)(_fixed(item, bindings) for item in value)
    if isinstance(value, dict):
        return {key: _fixed(item, bindings) for key, item in value.items()}
    if isinstance(value, g.Node | g.Input | g.TensorMeta):
        return replace(value, **{key: _fixed(item, bindings) for key, item in vars(value).items()})
    return value
