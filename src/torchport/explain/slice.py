"""A part of a captured graph as a model of its own: what one call computes itself, or some of its operations.

Its inputs are values that were recorded, also those that come from the calls inside, so that nothing else has to run.
Its sizes are those of the recording.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torchport.capture import graph as g
from torchport.capture.plan import Plan


@dataclass(frozen=True)
class Slice:
    """A graph of one module without calls, and the trace keys of what goes in and comes out."""

    graph: g.Graph
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: dict[str, str]
    """Name in the slice → name in the model."""
    given: dict[str, str] = field(default_factory=dict)
    """Weights that stand for what the calls inside give → the trace key of that."""

    @property
    def nodes(self) -> tuple[g.Node, ...]:
        """The operations."""
        return tuple(node for node in self.graph.root.nodes if node.op != g.CALL)


def own_operations(graph: g.Graph, plan: Plan, name: str, bindings: Mapping[str, int]) -> Slice | None:
    """What the call `name` computes between the calls that it makes; None where that is nothing."""
    call = plan.calls[name]
    module = g.Module(**_fixed(vars(graph.modules[call.module]), bindings))
    children = iter([child for child in plan.calls.values() if child.parent == name])
    given = {g.Ref(item.name): (item, key) for item, key in zip(module.inputs, call.inputs, strict=True)}
    nodes, wanted = [], []
    for node in module.nodes:
        if node.op != g.CALL:
            nodes.append(node)
            continue
        child = next(children)
        wanted += list(zip(node.args, child.inputs, strict=True))
        for index, key in enumerate(child.outputs):
            meta = node.outputs[index]
            assert meta is not None
            given[g.Ref(node.name, index)] = (_given(node, index, meta), key)
    wanted += list(zip(module.outputs, call.outputs, strict=True))
    own = {node.name for node in nodes}
    outputs = {ref: key for ref, key in reversed(wanted) if ref.name in own and plan.resolve(key) == key}
    if not outputs:
        return None
    outputs = dict(reversed(outputs.items()))
    whole = len(nodes) == len(module.nodes)
    return _assemble(graph, module, nodes, given, outputs, keep_inputs=whole)


def with_stand_ins(graph: g.Graph, plan: Plan, name: str, bindings: Mapping[str, int]) -> Slice | None:
    """The same with the calls in it: each is a module that gives what was recorded, whatever it is handed.

    Code that is generated from it reads like that of the model, so that edits of the one fit the other. None where
    a module is called twice, which cannot give two things.
    """
    flat = own_operations(graph, plan, name, bindings)
    if flat is None:
        return None
    call = plan.calls[name]
    module = g.Module(**_fixed(vars(graph.modules[call.module]), bindings))
    needed = upstream(module.nodes, {ref.name for ref in flat.graph.root.outputs})
    children = iter([child for child in plan.calls.values() if child.parent == name])
    modules: dict[str, g.Module] = {}
    given: dict[str, str] = {}
    nodes = []
    for node in module.nodes:
        child = next(children) if node.op == g.CALL else None
        if node.name not in needed:
            continue
        if child is not None:
            assert node.target is not None
            key = node.target.removeprefix(f"{module.key}.").partition("@")[0]
            if key in modules:
                return None
            modules[key], stored = _stand_in(
                key, g.Module(**_fixed(vars(graph.modules[node.target]), bindings))
            )
            given |= dict(zip(stored, child.outputs, strict=True))
            node = replace(node, target=key)
        nodes.append(node)
    weights = dict(flat.graph.weights)
    for key, stand_in in modules.items():
        outputs = next(node.outputs for node in nodes if node.target == key)
        for weight, meta in zip(stand_in.params.values(), outputs, strict=True):
            assert meta is not None
            weights[weight] = g.Weight(meta, "buffer")
    root = replace(
        module, key="", nodes=tuple(nodes), outputs=flat.graph.root.outputs, params=flat.graph.root.params
    )
    made = replace(flat.graph, modules={"": root, **modules}, weights=weights)
    return Slice(made, tuple(call.inputs), flat.outputs, flat.weights, given)


def _stand_in(key: str, module: g.Module) -> tuple[g.Module, list[str]]:
    """A module that gives weights of its own, and the names of these."""
    params = {f"given_{index}": f"{key}.given_{index}" for index in range(len(module.outputs))}
    outputs = tuple(g.Ref(name) for name in params)
    made = g.Module(key, f"{module.type}Given", module.inputs, (), outputs, params, source=module.source)
    return made, list(params.values())


def upstream(nodes: Iterable[g.Node], names: Iterable[str]) -> set[str]:
    """The operations on which values depend, and these themselves."""
    reads = {node.name: {ref.name for ref in g.refs([node.args, node.kwargs])} for node in nodes}
    waiting, found = list(names), set()
    while waiting:
        name = waiting.pop()
        if name in reads and name not in found:
            found.add(name)
            waiting += reads[name]
    return found


def some_operations(whole: Slice, names: Iterable[str], keys: Mapping[g.Ref, str]) -> Slice:
    """The nodes `names` of a slice; what they read of the others is given, what the others read comes out.

    `keys` says under which key the value of each node was recorded.
    """
    chosen = set(names)
    root = whole.graph.root
    nodes = [node for node in root.nodes if node.name in chosen]
    given = {g.Ref(i.name): (i, key) for i, key in zip(root.inputs, whole.inputs, strict=True)}
    for node in root.nodes:
        if node.name in chosen:
            continue
        for index, meta in enumerate(node.outputs):
            if meta is not None:
                ref = g.Ref(node.name, index)
                given[ref] = (_given(node, index, meta), keys[ref])
    read = {ref for node in root.nodes if node.name not in chosen for ref in g.refs([node.args, node.kwargs])}
    read |= set(root.outputs)
    outputs = {}
    for node in nodes:
        for index, meta in enumerate(node.outputs):
            ref = g.Ref(node.name, index)
            if meta is not None and ref in read:
                outputs[ref] = keys[ref]
    made = _assemble(whole.graph, root, nodes, given, outputs, keep_inputs=len(nodes) == len(root.nodes))
    return replace(made, weights={name: whole.weights[name] for name in made.weights})


def _given(node: g.Node, index: int, meta: g.TensorMeta) -> g.Input:
    return g.Input(f"{node.name}_output_{index}" if index else node.name, meta, node.hint)


def _assemble(
    graph: g.Graph,
    module: g.Module,
    nodes: list[g.Node],
    given: dict[g.Ref, tuple[g.Input, str]],
    outputs: dict[g.Ref, str],
    *,
    keep_inputs: bool,
) -> Slice:
    read = {ref for node in nodes for ref in g.refs([node.args, node.kwargs])}
    inputs = [pair for ref, pair in given.items() if keep_inputs or ref in read]
    renamed = {ref: g.Ref(item.name) for ref, (item, _) in given.items()}

    def rename(arg: g.Arg) -> g.Arg:
        return renamed.get(arg, arg) if isinstance(arg, g.Ref) else arg

    used = {ref.name for ref in read}
    params = {node: weight for node, weight in module.params.items() if node in used}
    prefix = f"{module.path}." if module.path else ""
    local = {weight: weight.removeprefix(prefix) for weight in params.values()}
    root = replace(
        module,
        key="",
        inputs=tuple(item for item, _ in inputs),
        nodes=tuple(g.map_node(node, rename) for node in nodes),
        outputs=tuple(outputs),
        params={node: local[weight] for node, weight in params.items()},
    )
    weights = {local[name]: replace(graph.weights[name], tied_to=None) for name in local}
    names = tuple(f"output_{index}" for index in range(len(outputs)))
    made = g.Graph(graph.name, {"": root}, weights, (), names, graph.config)
    return Slice(
        made,
        tuple(key for _, key in inputs),
        tuple(outputs.values()),
        {name: _head(graph, weight) for weight, name in local.items()},
    )


def _head(graph: g.Graph, name: str) -> str:
    """The name under which a weight is stored."""
    return graph.weights[name].tied_to or name


def _fixed(value: Any, bindings: Mapping[str, int]) -> Any:
    """The same with every free size as it was recorded."""
    if isinstance(value, g.Sym):
        return value.evaluate(bindings)
    if isinstance(value, list | tuple):
        return type(value)(_fixed(item, bindings) for item in value)
    if isinstance(value, dict):
        return {key: _fixed(item, bindings) for key, item in value.items()}
    if isinstance(value, g.Node | g.Input | g.TensorMeta):
        return replace(value, **{key: _fixed(item, bindings) for key, item in vars(value).items()})
    return value
