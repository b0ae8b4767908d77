"""What reads a weight: products and lookups, and where a recording has what a product multiplies the weight with.

In: a captured graph. Out: every use of a weight, with the keys of the values that it is multiplied with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from torchport.capture.graph import CALL, Graph, Module, Node, Ref, TensorMeta, refs, value_metas
from torchport.capture.plan import make_plan
from torchport.trace.plan import Call

LOOKUP = "aten.embedding.default"


class _Product(NamedTuple):
    """Which arguments of an operation are the weight and what it is multiplied with."""

    weight: int
    given: int
    inputs_first: bool = False
    """Whether the weight has an axis for its inputs before that for its outputs."""


_PRODUCTS = {
    "aten.linear.default": _Product(weight=1, given=0),
    "aten.addmm.default": _Product(weight=2, given=1, inputs_first=True),
    "aten.mm.default": _Product(weight=1, given=0, inputs_first=True),
    "aten.matmul.default": _Product(weight=1, given=0, inputs_first=True),
}
_KEEP_ROWS = {
    "aten.alias.default",
    "aten.clone.default",
    "aten.contiguous.default",
    "aten.detach.default",
    "aten.view.default",
    "aten.reshape.default",
    "aten._unsafe_view.default",
    "aten.flatten.using_ints",
    "aten.unflatten.int",
    "aten.unsqueeze.default",
    "aten.squeeze.default",
    "aten.squeeze.dim",
    "aten.squeeze.dims",
}
"""Operations that give the rows of their first argument in the same order, if those have the same width after."""
_MOVE_ROWS = {"aten.transpose.int", "aten.permute.default"}
"""Operations that give the same rows in another order, if the last axis stays the last."""


@dataclass(frozen=True)
class Use:
    """An operation that reads a weight."""

    module: Module
    operation: str
    """What reads it, said so that it is none of the products if the weight is not what is multiplied with."""
    is_product: bool = False
    inputs_first: bool = False
    given: tuple[str, ...] | None = None
    """The keys of what the weight is multiplied with in the calls of the module; None if no recording has it."""

    @property
    def is_lookup(self) -> bool:
        return self.operation == LOOKUP


@dataclass(frozen=True)
class Uses:
    """The uses of the weights of a graph."""

    graph: Graph

    def of(self, name: str) -> Iterator[Use]:
        """Every use of a weight under any of its names."""
        names = {name} | {other for other, weight in self.graph.weights.items() if weight.tied_to == name}
        for module in self.graph.modules.values():
            here = {local for local, full in module.params.items() if full in names}
            if here & {ref.name for ref in refs(list(module.outputs))}:
                yield Use(module, "the outputs")
            for node in module.nodes if here else ():
                read = [ref for ref in refs([list(node.args), node.kwargs]) if ref.name in here]
                if read:
                    yield self._use(module, node, read)

    def _use(self, module: Module, node: Node, read: list[Ref]) -> Use:
        if node.op == LOOKUP and read == [_argument(node, 0, "weight")]:
            return Use(module, node.op)
        product = _PRODUCTS.get(node.op)
        if product is None:
            return Use(module, f"{node.op} in another way" if node.op == LOOKUP else node.op)
        if read != [_argument(node, product.weight, "weight")]:
            return Use(module, f"{node.op} in another way")
        given = self._keys(module, node.args[product.given])
        return Use(module, node.op, is_product=True, inputs_first=product.inputs_first, given=given)

    def _keys(self, module: Module, value: object) -> tuple[str, ...] | None:
        """The keys under which a recording has a value of a module, of every call of it."""
        calls = self._calls[module.key]
        source = _source(module, value, value_metas(module, self.graph.weights))
        if source is None or not calls:
            return None
        for place, item in enumerate(module.inputs):
            if source == Ref(item.name):
                return tuple(call.inputs[place] for call in calls)
        children = [node.name for node in module.nodes if node.op == CALL]
        if source.name not in children:
            return None
        place = children.index(source.name)
        return tuple(self._children[call.name][place].outputs[source.index] for call in calls)

    @cached_property
    def _calls(self) -> Mapping[str, list[Call]]:
        """The calls of each module by its key."""
        found: dict[str, list[Call]] = defaultdict(list)
        for call in make_plan(self.graph).calls.values():
            found[call.module].append(call)
        return found

    @cached_property
    def _children(self) -> Mapping[str, list[Call]]:
        """The calls that each call makes, in order."""
        found: dict[str, list[Call]] = defaultdict(list)
        for calls in make_plan(self.graph).calls.values():
            if calls.parent is not None:
                found[calls.parent].append(calls)
        return found


def _argument(node: Node, place: int, name: str) -> object:
    return node.args[place] if len(node.args) > place else node.kwargs.get(name)


def _source(module: Module, value: object, metas: Mapping[Ref, TensorMeta]) -> Ref | None:
    """The value that has the same rows and that no operation made: an input of the module, or what a call gave."""
    nodes = {node.name: node for node in module.nodes}
    while isinstance(value, Ref) and (node := nodes.get(value.name)) is not None and node.op != CALL:
        if not node.args or not isinstance(node.args[0], Ref):
            return None
        before, after = metas.get(node.args[0]), metas.get(value)
        if before is None or after is None or not _has_rows_of(node, before, after):
            return None
        value = node.args[0]
    return value if isinstance(value, Ref) else None


def _has_rows_of(node: Node, before: TensorMeta, after: TensorMeta) -> bool:
    if not before.shape or not after.shape or before.shape[-1] != after.shape[-1]:
        return False
    if node.op in _KEEP_ROWS:
        return True
    if node.op not in _MOVE_ROWS:
        return False
    last = before.rank - 1
    if node.op == "aten.permute.default":
        return bool(node.args[1][-1] % before.rank == last)
    return all(axis % before.rank != last for axis in node.args[1:3])
