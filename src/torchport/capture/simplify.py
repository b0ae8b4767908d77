"""Makes a captured graph say the same thing in fewer and steadier words.

Values do not change: what is dropped computes nothing (copies, full slices, asserts). Names become local to
each module and inputs come in the order of use, so that equal modules have equal graphs.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from torchport.capture import graph as g

_COPIES = frozenset(
    f"aten.{name}.default"
    for name in ("clone", "alias", "detach", "contiguous", "lift_fresh_copy", "lift_fresh", "_to_copy")
) | {"aten.to.dtype", "aten.type_as.default"}
_RESHAPE = "aten.reshape.default"
_VIEWS = frozenset({"aten.view.default", "aten._unsafe_view.default"})
"""Become a reshape: memory layout is not part of what a model computes, and copies are dropped."""
_ASSERTS = frozenset(
    {
        "aten._assert_tensor_metadata.default",
        "aten._assert_async.msg",
        "aten._assert_scalar.default",
        "aten.sym_constrain_range_for_size.default",
    }
)
HANDLED = _COPIES | _VIEWS | _ASSERTS
"""Operations that are dropped or rewritten here, so that no target need know them."""
_RECURRENT = frozenset({"aten.lstm.input", "aten.gru.input", "aten.rnn_tanh.input", "aten.rnn_relu.input"})


def simplify(graph: g.Graph) -> g.Graph:
    modules = {key: _without_identities(module, graph.weights) for key, module in graph.modules.items()}
    modules = _without_empty_calls(modules)
    modules = _whole_recurrent_outputs(modules)
    modules = _without_dead(modules)
    modules = _in_order_of_use(modules)
    modules = {key: _renamed(module) for key, module in modules.items()}
    used = {name for module in modules.values() for name in module.params.values()}
    weights = {name: weight for name, weight in graph.weights.items() if name in used}
    return replace(graph, modules=modules, weights=_first_tied(weights))


def _first_tied(weights: dict[str, g.Weight]) -> dict[str, g.Weight]:
    """Ties point to a weight that is still there."""
    heads: dict[str, str] = {}
    result = {}
    for name, weight in weights.items():
        identity = weight.tied_to or name
        head = heads.setdefault(identity, name)
        result[name] = replace(weight, tied_to=None if head == name else head)
    return result


def _without_identities(module: g.Module, weights: dict[str, g.Weight]) -> g.Module:
    metas = {item.name: item.meta for item in module.inputs}
    metas |= {name: weights[weight].meta for name, weight in module.params.items()}
    same: dict[g.Ref, g.Ref] = {}
    hints: dict[str, str] = {}
    nodes: list[g.Node] = []
    for node in module.nodes:
        if node.op in _ASSERTS:
            continue
        node = g.map_node(node, _substitute(same))
        if node.op in _VIEWS:
            node = replace(node, op=_RESHAPE)
        source = node.args[0] if node.args and isinstance(node.args[0], g.Ref) else None
        before = metas.get(source.name) if source and source.index == 0 else None
        if source is not None and before is not None and _is_identity(node, before):
            same[g.Ref(node.name)] = source
            if node.hint:
                hints[source.name] = node.hint
            continue
        if node.outputs and node.outputs[0] is not None:
            metas[node.name] = node.outputs[0]
        nodes.append(node)
    outputs = tuple(same.get(ref, ref) for ref in module.outputs)
    named = tuple(replace(node, hint=hints.get(node.name, node.hint)) for node in nodes)
    return replace(module, nodes=named, outputs=outputs)


def _substitute(same: dict[g.Ref, g.Ref]) -> Callable[[g.Arg], g.Arg]:
    return lambda arg: same.get(arg, arg) if isinstance(arg, g.Ref) else arg


def _is_identity(node: g.Node, before: g.TensorMeta) -> bool:
    after = node.outputs[0] if len(node.outputs) == 1 else None
    if after != before:
        return False
    if node.op in _COPIES or node.op in (_RESHAPE, "aten.expand.default"):
        return True
    if node.op == "aten.slice.Tensor":
        defaults: list[g.Arg] = [0, sys.maxsize, 1]
        given = list(node.args[2:])
        start, end, step = given + defaults[len(given) :]
        return start in (0, None) and step == 1 and end in (None, sys.maxsize)
    if node.op in ("aten.add.Tensor", "aten.sub.Tensor") and not before.is_float:
        return len(node.args) == 2 and node.args[1] == 0 and not isinstance(node.args[1], bool | g.Ref)
    return False


def _without_empty_calls(modules: dict[str, g.Module]) -> dict[str, g.Module]:
    """A call of a module that only hands its inputs on is replaced by what was given."""

    def through(node: g.Node) -> list[g.Ref] | None:
        if node.op != g.CALL or node.target is None:
            return None
        callee = modules[node.target]
        places = {item.name: i for i, item in enumerate(callee.inputs)}
        if callee.nodes or any(ref.name not in places for ref in callee.outputs):
            return None
        return [node.args[places[ref.name]] for ref in callee.outputs]

    changed = True
    while changed:
        changed = False
        for key, module in modules.items():
            same: dict[g.Ref, g.Ref] = {}
            kept = []
            for node in module.nodes:
                node = g.map_node(node, _substitute(same))
                given = through(node)
                if given is None:
                    kept.append(node)
                else:
                    same.update({g.Ref(node.name, i): ref for i, ref in enumerate(given)})
            if same:
                changed = True
                outputs = tuple(same.get(ref, ref) for ref in module.outputs)
                modules = {**modules, key: replace(module, nodes=tuple(kept), outputs=outputs)}
    return modules


def _whole_recurrent_outputs(modules: dict[str, g.Module]) -> dict[str, g.Module]:
    """A recurrent layer returns all that its operation computes, whichever part the caller reads."""
    moved: dict[str, list[int]] = {}
    result = dict(modules)
    for key, module in modules.items():
        node = module.nodes[-1] if module.nodes else None
        if node is None or node.op not in _RECURRENT or {r.name for r in module.outputs} != {node.name}:
            continue
        moved[key] = [ref.index for ref in module.outputs]
        whole = tuple(g.Ref(node.name, i) for i in range(len(node.outputs)))
        result[key] = replace(module, outputs=whole)
    if not moved:
        return result
    return {key: _with_moved_outputs(module, result, moved) for key, module in result.items()}


def _with_moved_outputs(
    module: g.Module, modules: dict[str, g.Module], moved: dict[str, list[int]]
) -> g.Module:
    places = {n.name: moved[n.target] for n in module.nodes if n.op == g.CALL and n.target in moved}

    def move(arg: g.Arg) -> g.Arg:
        if isinstance(arg, g.Ref) and arg.name in places:
            return g.Ref(arg.name, places[arg.name][arg.index])
        return arg

    nodes = []
    for node in module.nodes:
        if node.op == g.CALL and node.target in moved:
            inner = modules[node.target].nodes[-1]
            node = replace(node, outputs=inner.outputs)
        nodes.append(g.map_node(node, move))
    return replace(module, nodes=tuple(nodes), outputs=tuple(move(ref) for ref in module.outputs))


def _without_dead(modules: dict[str, g.Module]) -> dict[str, g.Module]:
    """Drops operations that nobody reads, then inputs that nobody needs, until nothing changes."""
    while True:
        fewer = {key: _live(module) for key, module in modules.items()}
        fewer = _without_unread_inputs(fewer)
        fewer = _without_unread_outputs(fewer)
        reached = set(_reachable(fewer, ""))
        fewer = {key: module for key, module in fewer.items() if key in reached}
        if fewer == modules:
            return fewer
        modules = fewer


def _live(module: g.Module) -> g.Module:
    needed = {ref.name for ref in module.outputs}
    kept = []
    for node in reversed(module.nodes):
        if node.name in needed:
            kept.append(node)
            needed |= {ref.name for ref in g.refs([node.args, node.kwargs])}
    params = {name: weight for name, weight in module.params.items() if name in needed}
    return replace(module, nodes=tuple(reversed(kept)), params=params)


def _without_unread_inputs(modules: dict[str, g.Module]) -> dict[str, g.Module]:
    keep: dict[str, list[int]] = {}
    for key, module in modules.items():
        read = {r.name for node in module.nodes for r in g.refs([node.args, node.kwargs])}
        read |= {ref.name for ref in module.outputs}
        keep[key] = [i for i, item in enumerate(module.inputs) if key == "" or item.name in read]
    return _with_inputs(modules, keep)


def _without_unread_outputs(modules: dict[str, g.Module]) -> dict[str, g.Module]:
    read: dict[str, set[int]] = {key: set() for key in modules}
    for module in modules.values():
        targets = {node.name: node.target for node in module.nodes if node.op == g.CALL}
        everything = [[node.args, node.kwargs] for node in module.nodes]
        for ref in g.refs([everything, list(module.outputs)]):
            target = targets.get(ref.name)
            if target is not None:
                read[target].add(ref.index)
    moved: dict[str, dict[int, int]] = {}
    result = dict(modules)
    for key, module in modules.items():
        whole = module.nodes and module.nodes[-1].op in _RECURRENT
        kept = [i for i in range(len(module.outputs)) if i in read[key]]
        if key == "" or whole or not kept or len(kept) == len(module.outputs):
            continue
        moved[key] = {old: new for new, old in enumerate(kept)}
        result[key] = replace(module, outputs=tuple(module.outputs[i] for i in kept))
    if not moved:
        return modules
    return {key: _renumbered(module, moved) for key, module in result.items()}


def _renumbered(module: g.Module, moved: dict[str, dict[int, int]]) -> g.Module:
    places = {n.name: moved[n.target] for n in module.nodes if n.op == g.CALL and n.target in moved}

    def move(arg: g.Arg) -> g.Arg:
        if isinstance(arg, g.Ref) and arg.name in places:
            return g.Ref(arg.name, places[arg.name][arg.index])
        return arg

    nodes = [
        replace(node, outputs=tuple(node.outputs[old] for old in places[node.name]))
        if node.name in places
        else node
        for node in (g.map_node(node, move) for node in module.nodes)
    ]
    return replace(module, nodes=tuple(nodes), outputs=tuple(move(ref) for ref in module.outputs))


def _reachable(modules: dict[str, g.Module], key: str) -> Iterator[str]:
    yield key
    for node in modules[key].nodes:
        if node.op == g.CALL and node.target is not None:
            yield from _reachable(modules, node.target)


def _with_inputs(modules: dict[str, g.Module], order: dict[str, list[int]]) -> dict[str, g.Module]:
    """Every module with only the inputs that `order` names, in that order, and every call to match."""
    result = {}
    for key, module in modules.items():
        nodes = tuple(
            replace(node, args=tuple(node.args[i] for i in order[node.target]))
            if node.op == g.CALL and node.target is not None
            else node
            for node in module.nodes
        )
        result[key] = replace(module, nodes=nodes, inputs=tuple(module.inputs[i] for i in order[key]))
    return result


def _in_order_of_use(modules: dict[str, g.Module]) -> dict[str, g.Module]:
    """Inputs in the order in which the innermost operations read them: data before masks and tables."""
    orders: dict[str, list[int]] = {}

    def order(key: str) -> list[int]:
        if key not in orders:
            module = modules[key]
            places = {item.name: i for i, item in enumerate(module.inputs)}
            seen: list[int] = []
            for ref in _reads(module):
                place = places.get(ref.name)
                if place is not None and place not in seen:
                    seen.append(place)
            rest = [i for i in range(len(module.inputs)) if i not in seen]
            orders[key] = list(range(len(module.inputs))) if key == "" else seen + rest
        return orders[key]

    def _reads(module: g.Module) -> Iterator[g.Ref]:
        for node in module.nodes:
            if node.op == g.CALL and node.target is not None:
                yield from (node.args[i] for i in order(node.target))
            else:
                yield from g.refs([node.args, node.kwargs])
        yield from module.outputs

    for key in modules:
        order(key)
    return _with_inputs(modules, orders)


def _renamed(module: g.Module) -> g.Module:
    """Names count within the module: the same module elsewhere has the same names."""
    names: dict[str, str] = {}
    for index, item in enumerate(module.inputs):
        names[item.name] = item.name if module.key == "" else f"input_{index}"
    taken = set(names.values())
    counts: Counter[str] = Counter()

    def fresh(base: str) -> str:
        name = base
        while name in taken:
            counts[base] += 1
            name = f"{base}_{counts[base]}"
        taken.add(name)
        return name

    for old, weight in module.params.items():
        names[old] = fresh("w_" + weight.removeprefix(module.path + "."))
    for node in module.nodes:
        base = node.target.removeprefix(module.key + ".") if node.target else node.op.split(".")[1]
        names[node.name] = fresh(base.replace(".", "_").partition("@")[0])

    def rename(arg: g.Arg) -> g.Arg:
        return g.Ref(names[arg.name], arg.index) if isinstance(arg, g.Ref) else arg

    return replace(
        module,
        inputs=tuple(replace(item, name=names[item.name]) for item in module.inputs),
        nodes=tuple(replace(g.map_node(node, rename), name=names[node.name]) for node in module.nodes),
        outputs=tuple(rename(ref) for ref in module.outputs),
        params={names[old]: weight for old, weight in module.params.items()},
    )
