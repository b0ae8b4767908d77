"""Makes a captured graph say the same in fewer nodes, and in the same way for equal modules.

In: a graph as torch made it. Out: one that computes the same values. What is dropped computes nothing (copies, full
slices, asserts) or is never read. Names become local to each module, and inputs come in the order of use.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from torchport.capture import graph as g
from torchport.capture.unread import RECURRENT, inputs_in_order_of_use, with_moved_outputs, without_unread

_COPIES = frozenset(
    f"aten.{name}.default"
    for name in ("clone", "alias", "detach", "contiguous", "lift_fresh_copy", "lift_fresh", "_to_copy")
) | {"aten.to.dtype", "aten.type_as.default"}
_RESHAPE = "aten.reshape.default"
_VIEWS = frozenset({"aten.view.default", "aten._unsafe_view.default"})
"""Operations that become a reshape: memory layout is not part of what a model computes, and copies are dropped."""
_ASSERTS = frozenset(
    {
        "aten._assert_tensor_metadata.default",
        "aten._assert_async.default",
        "aten._assert_async.msg",
        "aten._assert_scalar.default",
        "aten.sym_constrain_range_for_size.default",
    }
)
HANDLED = _COPIES | _VIEWS | _ASSERTS
"""Operations that are dropped or rewritten here, so that no target needs to know them."""


def simplify(graph: g.Graph) -> g.Graph:
    modules = {key: _without_identities(module, graph.weights) for key, module in graph.modules.items()}
    modules = _without_empty_calls(modules)
    modules = _whole_recurrent_outputs(modules)
    modules = without_unread(modules, graph.measured)
    modules = inputs_in_order_of_use(modules)
    modules = {key: _renamed(module) for key, module in modules.items()}
    used = {name for module in modules.values() for name in module.params.values()}
    weights = {name: weight for name, weight in graph.weights.items() if name in used}
    return replace(graph, modules=modules, weights=_first_tied(weights))


def _first_tied(weights: dict[str, g.Weight]) -> dict[str, g.Weight]:
    """The weights that are left, with ties that point to a weight that is still there."""
    heads: dict[str, str] = {}
    result = {}
    for name, weight in weights.items():
        identity = weight.tied_to or name
        head = heads.setdefault(identity, name)
        result[name] = replace(weight, tied_to=None if head == name else head)
    return result


def _without_identities(module: g.Module, weights: dict[str, g.Weight]) -> g.Module:
    """The module without operations that return their operand as it is, and without asserts."""
    metas = {g.Ref(item.name): item.meta for item in module.inputs}
    metas |= {g.Ref(name): weights[weight].meta for name, weight in module.params.items()}
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
        before = metas.get(source) if source is not None else None
        if source is not None and before is not None and _is_identity(node, before):
            same[g.Ref(node.name)] = source
            if node.hint and source.index == 0:
                hints[source.name] = node.hint
            continue
        metas |= {g.Ref(node.name, i): meta for i, meta in enumerate(node.outputs) if meta is not None}
        nodes.append(node)
    outputs = tuple(same.get(ref, ref) for ref in module.outputs)
    named = tuple(replace(node, hint=hints.get(node.name, node.hint)) for node in nodes)
    return replace(module, nodes=named, outputs=outputs)


def _substitute(same: dict[g.Ref, g.Ref]) -> Callable[[g.Arg], g.Arg]:
    return lambda arg: same.get(arg, arg) if isinstance(arg, g.Ref) else arg


def _is_identity(node: g.Node, before: g.TensorMeta) -> bool:
    """Whether an operation returns its first operand, which has the shape and dtype `before`, as it is."""
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
    """Calls of modules that only hand their inputs on are replaced by what was given to them."""

    def handed_on(node: g.Node) -> list[g.Ref] | None:
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
                given = handed_on(node)
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
    """Every recurrent layer returns all that its operation computes, whichever part the caller reads."""
    moved: dict[str, dict[int, int]] = {}
    result = dict(modules)
    for key, module in modules.items():
        node = module.nodes[-1] if module.nodes else None
        if node is None or node.op not in RECURRENT or {r.name for r in module.outputs} != {node.name}:
            continue
        moved[key] = {old: ref.index for old, ref in enumerate(module.outputs)}
        whole = tuple(g.Ref(node.name, i) for i in range(len(node.outputs)))
        result[key] = replace(module, outputs=whole)
    return with_moved_outputs(result, moved, lambda call: result[call.target or ""].nodes[-1].outputs)


def _renamed(module: g.Module) -> g.Module:
    """The module with names that are counted within it, so that an equal module elsewhere has the same names."""
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
