"""Rewriting a captured graph: a place in it, what is known there, and operations to put in its stead.

A fault is a function that takes a `Place` and gives the nodes which stand for the operation there, the last one under
its name, or None where it does not apply. It never looks at where the module lies in the model, so that it is planted
just as well when torchport converts the layer by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from torchport.capture.graph import CALL, Arg, Graph, Module, Node, Ref, TensorMeta, Weight, refs

Rewrite = Callable[["Place"], "list[Node] | None"]


@dataclass(frozen=True)
class Site:
    """An operation of a model: its module, also by type, and its name there."""

    module: str
    type: str
    node: str
    op: str


@dataclass(frozen=True)
class Place:
    """An operation, and what a fault may want to know of its surroundings."""

    graph: Graph
    module: Module
    node: Node

    @property
    def op(self) -> str:
        """The name without namespace and overload: `linear`."""
        return self.node.op.split(".")[1]

    @property
    def output(self) -> TensorMeta:
        meta = self.node.outputs[0]
        assert meta is not None
        return meta

    def __getitem__(self, name: str) -> Arg:
        """An argument by its name in the operation's schema."""
        return arguments(self.node).get(name)

    def meta(self, ref: Ref) -> TensorMeta:
        if ref.name in self.module.params:
            return self.graph.weights[self.module.params[ref.name]].meta
        for item in self.module.inputs:
            if item.name == ref.name:
                return item.meta
        node = self.maker(ref)
        assert node is not None
        meta = node.outputs[ref.index]
        assert meta is not None
        return meta

    def maker(self, arg: Arg) -> Node | None:
        """The node that computes a value, unless it comes from outside."""
        if not isinstance(arg, Ref):
            return None
        return next((node for node in self.module.nodes if node.name == arg.name), None)

    def weight(self, arg: Arg) -> Weight | None:
        """The weight that an argument reads directly."""
        if not isinstance(arg, Ref) or arg.name not in self.module.params:
            return None
        return self.graph.weights[self.module.params[arg.name]]

    def is_float(self, arg: Arg) -> bool:
        return isinstance(arg, Ref) and self.meta(arg).is_float

    def has(self, *operations: str) -> bool:
        """Whether the module also has one of these operations."""
        return any(node.op.split(".")[1] in operations for node in self.module.nodes if node.op != CALL)

    def changed(self, op: str | None = None, /, **values: Arg) -> list[Node]:
        """The operation itself with other arguments, or another operation on the same ones."""
        return [changed(self.node, op, **values)]

    def instead(self, op: str, /, *args: Arg, **kwargs: Arg) -> list[Node]:
        """Another operation altogether."""
        return [replace(self.node, op=op, args=args, kwargs=kwargs)]

    def new(self, name: str, op: str, *args: Arg, meta: TensorMeta, **kwargs: Arg) -> Node:
        """A node to put before the operation; `name` is made unique by the operation's own."""
        return Node(f"{self.node.name}_{name}", op, args, kwargs, (meta,), source=self.node.source)

    def first(self) -> Node:
        """The operation as it was, under another name, for what is done to its result afterwards."""
        return replace(self.node, name=f"{self.node.name}_before")


def arguments(node: Node) -> dict[str, Arg]:
    """What is given to the operation, by the names of its schema."""
    names = (argument.name for argument in _schema(node.op).arguments)
    return {**dict(zip(names, node.args, strict=False)), **node.kwargs}


def changed(node: Node, op: str | None = None, /, **values: Arg) -> Node:
    """The node with some arguments replaced; with `op`, those that the other operation has not are dropped."""
    schema = _schema(op or node.op).arguments
    known = {**arguments(node), **values}
    given = [argument for argument in schema if argument.name in known and not argument.kwarg_only]
    last = max((schema.index(argument) for argument in given), default=-1)
    args = tuple(known.get(argument.name, argument.default_value) for argument in schema[: last + 1])
    kwargs = {a.name: known[a.name] for a in schema if a.kwarg_only and a.name in known}
    return replace(node, op=op or node.op, args=args, kwargs=kwargs)


def _schema(op: str) -> Any:
    namespace, name, overload = op.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), name), overload)._schema


def sites(graph: Graph, rewrite: Rewrite) -> Iterator[Site]:
    """Every operation that the fault applies to, and whose result is read."""
    for key, module in graph.modules.items():
        read = {ref.name for ref in refs([[n.args, n.kwargs] for n in module.nodes] + [list(module.outputs)])}
        for node in module.nodes:
            if node.op != CALL and node.name in read and rewrite(Place(graph, module, node)) is not None:
                yield Site(key, module.type, node.name, node.op)


def plant(graph: Graph, rewrite: Rewrite, site: Site) -> Graph:
    """The graph with the fault at the site; unchanged where it has no such operation.

    The layer by itself is a graph of one module, of the same type and with the same names of operations.
    """
    key = site.module if site.module in graph.modules else ""
    module = graph.modules[key]
    node = next((n for n in module.nodes if (n.name, n.op) == (site.node, site.op)), None)
    if module.type != site.type or node is None:
        return graph
    instead = rewrite(Place(graph, module, node))
    if instead is None:
        return graph
    at = module.nodes.index(node)
    nodes = (*module.nodes[:at], *instead, *module.nodes[at + 1 :])
    return replace(graph, modules={**graph.modules, key: replace(module, nodes=nodes)})
