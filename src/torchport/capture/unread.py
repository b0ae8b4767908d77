"""Drops what nobody reads: operations, inputs and outputs of modules, and whole modules.

In: the modules of a graph. Out: the modules that are needed, with inputs in the order of use, and every call to match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from torchport.capture import graph as g

RECURRENT = frozenset({"aten.lstm.input", "aten.gru.input", "aten.rnn_tanh.input", "aten.rnn_relu.input"})
"""Operations of layers that keep all of their outputs, so that each such layer has one form."""


def without_unread(
    modules: dict[str, g.Module], measured: frozenset[str] = frozenset()
) -> dict[str, g.Module]:
    """Drops operations that nobody reads, then inputs and outputs of modules, until nothing is left to drop."""
    while True:
        fewer = {key: _live(module, measured) for key, module in modules.items()}
        fewer = _without_unread_inputs(fewer)
        fewer = _without_unread_outputs(fewer)
        reached = set(g.reached(fewer, ""))
        fewer = {key: module for key, module in fewer.items() if key in reached}
        if fewer == modules:
            return fewer
        modules = fewer


def _dims(node: g.Node) -> set[str]:
    """The free sizes in the shapes of what a node gives."""
    return g.symbols_of([list(meta.shape) for meta in node.outputs if meta is not None])


def _live(module: g.Module, measured: frozenset[str]) -> g.Module:
    """The module without operations and weights that none of its outputs needs.

    `measured` are the sizes that depend on data: an operation is needed for the size of its result, too.
    """
    needed = {ref.name for ref in module.outputs}
    sizes: set[str] = set()
    shown: set[str] = set()
    first: dict[str, set[str]] = {}
    for node in module.nodes:
        first[node.name] = (_dims(node) & measured) - shown
        shown |= first[node.name]
    kept = []
    for node in reversed(module.nodes):
        if node.name in needed or first[node.name] & sizes:
            kept.append(node)
            needed |= {ref.name for ref in g.refs([node.args, node.kwargs])}
            sizes |= (g.symbols_of([node.args, node.kwargs]) | _dims(node)) & measured
    params = {name: weight for name, weight in module.params.items() if name in needed}
    return replace(module, nodes=tuple(reversed(kept)), params=params)


def _without_unread_inputs(modules: dict[str, g.Module]) -> dict[str, g.Module]:
    """Every module but the root and bodies without inputs that it does not read."""
    whole = _with_fixed_signature(modules)
    keep: dict[str, list[int]] = {}
    for key, module in modules.items():
        read = {r.name for node in module.nodes for r in g.refs([node.args, node.kwargs])}
        read |= {ref.name for ref in module.outputs}
        keep[key] = [i for i, item in enumerate(module.inputs) if key in whole or item.name in read]
    return _with_inputs(modules, keep)


def _without_unread_outputs(modules: dict[str, g.Module]) -> dict[str, g.Module]:
    """Every module without outputs that no caller reads. The root, bodies and recurrent layers keep all of theirs."""
    fixed = _with_fixed_signature(modules)
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
        whole = module.nodes and module.nodes[-1].op in RECURRENT
        kept = [i for i in range(len(module.outputs)) if i in read[key]]
        if key in fixed or whole or not kept or len(kept) == len(module.outputs):
            continue
        moved[key] = {old: new for new, old in enumerate(kept)}
        result[key] = replace(module, outputs=tuple(module.outputs[i] for i in kept))
    return with_moved_outputs(result, moved, lambda call: _kept_outputs(call, moved[call.target or ""]))


def _with_fixed_signature(modules: Mapping[str, g.Module]) -> frozenset[str]:
    """The modules whose inputs and outputs stay as they are: the root, and bodies, which take operands by position."""
    return g.body_keys(modules) | {""}


def _kept_outputs(call: g.Node, moved: Mapping[int, int]) -> tuple[g.TensorMeta | None, ...]:
    return tuple(call.outputs[old] for old in moved)


def with_moved_outputs(
    modules: dict[str, g.Module],
    moved: Mapping[str, Mapping[int, int]],
    outputs: Callable[[g.Node], tuple[g.TensorMeta | None, ...]],
) -> dict[str, g.Module]:
    """Every call to match modules whose outputs have moved.

    `moved` has, by the key of the module, where each output that is read now is; `outputs` gives what a call of such a
    module returns now.
    """
    return {key: _with_moved_reads(module, moved, outputs) for key, module in modules.items()}


def _with_moved_reads(
    module: g.Module,
    moved: Mapping[str, Mapping[int, int]],
    outputs: Callable[[g.Node], tuple[g.TensorMeta | None, ...]],
) -> g.Module:
    calls = {node.name: node.target for node in module.nodes if node.op == g.CALL}
    places = {name: moved[target] for name, target in calls.items() if target is not None and target in moved}

    def move(arg: g.Arg) -> g.Arg:
        if isinstance(arg, g.Ref) and arg.name in places:
            return g.Ref(arg.name, places[arg.name][arg.index])
        return arg

    nodes = tuple(
        g.map_node(replace(node, outputs=outputs(node)) if node.name in places else node, move)
        for node in module.nodes
    )
    return replace(module, nodes=nodes, outputs=tuple(move(ref) for ref in module.outputs))


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


def inputs_in_order_of_use(modules: dict[str, g.Module]) -> dict[str, g.Module]:
    """Every module with its inputs in the order in which the innermost operations read them.

    So data comes before masks and tables. The root keeps the order of the model's forward, a body that of its operands.
    """
    fixed = _with_fixed_signature(modules)
    orders: dict[str, list[int]] = {}

    def order(key: str) -> list[int]:
        if key not in orders:
            module = modules[key]
            places = {item.name: i for i, item in enumerate(module.inputs)}
            read: list[int] = []
            for ref in _reads(module):
                place = places.get(ref.name)
                if place is not None and place not in read:
                    read.append(place)
            rest = [i for i in range(len(module.inputs)) if i not in read]
            orders[key] = list(range(len(module.inputs))) if key in fixed else read + rest
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
