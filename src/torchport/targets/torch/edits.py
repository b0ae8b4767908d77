"""What a user changed in the operations of a graph, and the same change made in the graph of a slice.

A slice has nodes of the same names, which read other values: so an edit is another operation, or another argument that
is not a value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torchport.capture import graph as g

Change = Callable[[g.Node], g.Node]


def changes(generated: g.Graph, edited: g.Graph) -> list[tuple[g.Node, g.Node]]:
    """The nodes that are no longer what was generated, each before and after."""
    found = []
    for key, module in generated.modules.items():
        now = {node.name: node for node in edited.modules[key].nodes} if key in edited.modules else {}
        found += [
            (node, now[node.name])
            for node in module.nodes
            if node.name in now and _words(node) != _words(now[node.name])
        ]
    return found


def carried(made: list[tuple[g.Node, g.Node]], graph: g.Graph) -> g.Graph | None:
    """The graph with the changes made in its nodes; None if none of them is in it."""
    known = {(before.name, before.op, before.source): after for before, after in made}

    def changed(node: g.Node) -> g.Node:
        after = known.get((node.name, node.op, node.source))
        return node if after is None else _as(node, after)

    modules = {
        key: replace(module, nodes=tuple(changed(node) for node in module.nodes))
        for key, module in graph.modules.items()
    }
    result = replace(graph, modules=modules)
    return None if result == graph else result


def _words(node: g.Node) -> tuple[object, ...]:
    """All of a node that is not a value of the graph."""
    return node.op, _without_values(list(node.args)), _without_values(node.kwargs)


def _without_values(arg: g.Arg) -> g.Arg:
    return g.map_args(arg, lambda item: g.Ref("") if isinstance(item, g.Ref) else item)


def _as(node: g.Node, after: g.Node) -> g.Node:
    """The node with the operation and the arguments of another, and with its own values in their places."""
    own = iter(list(g.refs([node.args, node.kwargs])))

    def value(item: g.Arg) -> g.Arg:
        return next(own, item) if isinstance(item, g.Ref) else item

    return replace(
        node, op=after.op, args=g.map_args(after.args, value), kwargs=g.map_args(after.kwargs, value)
    )
