"""The state while a graph inside another is written: a body of control flow becomes a block of its module's code.

In: the emitter of the code around, and how the body's operands are written there. Out: the statements of the block.
Fields, numbers and sizes are those of the module; values and names are the block's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from torchport.capture import graph as g
from torchport.targets.candle.body import UNWATCHED, Value
from torchport.targets.candle.code import Code
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.module.inputs import add_weights


class Scope(Emitter):
    """A block that is not shown to a checker: how often it runs depends on values."""

    def __init__(self, outer: Emitter, module: g.Module, operands: Sequence[Value], held: Iterable[str] = ()):
        """`held` are names that the block must not give to anything else, not even after their last use in it."""
        super().__init__(outer.graph, module, UNWATCHED)
        self.body, self.sizes, self.path = outer.body, outer.sizes, outer.path
        self.weight_fields, self._field_names = outer.weight_fields, outer._field_names
        self._binding_numbers = outer._binding_numbers
        self._bindings = dict(outer._bindings)
        self._held = frozenset(held)
        self.lines: list[Code] = []
        self.outside = {g.Ref(item.name) for item in module.inputs}
        """The values that belong to the code around, so that the block cannot give them away."""
        for item, value in zip(module.inputs, operands, strict=True):
            self.values[g.Ref(item.name)] = value
            self.learn(g.Ref(item.name), item.meta)
        self._take_sizes_over(outer)
        add_weights(self)

    def _take_sizes_over(self, outer: Emitter) -> None:
        """Sizes that depend on data, and that the code around can read, are read there."""
        metas = [item.meta for item in self.module.inputs]
        metas += [meta for node in self.module.nodes for meta in node.outputs if meta is not None]
        for dim in (dim for meta in metas for dim in meta.shape if isinstance(dim, g.Sym)):
            for name in dim.symbols() & outer.measured.keys():
                outer.size(g.Sym(name))
        self._data_sizes, self.measured, self._lets = (
            outer._data_sizes,
            dict(outer.measured),
            set(outer._lets),
        )

    def write(self, *statements: Code) -> None:
        self.lines.extend(statements)

    def is_own(self, ref: g.Ref) -> bool:
        return super().is_own(ref) and ref not in self.outside

    def given_away(self, refs: Sequence[g.Ref]) -> list[Code]:
        """The results of the block, which are evaluated one after another."""
        values = [self.values[ref] for ref in refs]
        results = []
        for index, (ref, value) in enumerate(zip(refs, values, strict=True)):
            is_read_later = any(value.reads & later.reads for later in values[index + 1 :])
            is_free = value.form == "expr" or (self.is_own(ref) and not is_read_later)
            results.append(value.code if is_free else value.code.cloned)
        return results

    def is_live(self, name: str) -> bool:
        return name in self._held or super().is_live(name)


def needed_part(module: g.Module, outputs: Sequence[int]) -> g.Module:
    """A body without the operations that only serve other outputs than these."""
    kept = tuple(module.outputs[index] for index in outputs)
    wanted = {ref.name for ref in kept}
    nodes = []
    for node in reversed(module.nodes):
        if node.name in wanted:
            nodes.append(node)
            wanted |= {ref.name for ref in g.refs([node.args, node.kwargs])}
    params = {name: weight for name, weight in module.params.items() if name in wanted}
    return replace(module, nodes=tuple(reversed(nodes)), outputs=kept, params=params)


def read_inputs(module: g.Module) -> set[int]:
    """The positions of the inputs that a body reads."""
    read = {ref.name for node in module.nodes for ref in g.refs([node.args, node.kwargs])}
    read |= {ref.name for ref in module.outputs}
    return {index for index, item in enumerate(module.inputs) if item.name in read}


def is_flow_layer(modules: Mapping[str, g.Module], node: g.Node) -> bool:
    """Whether a node calls a module that is nothing but control flow, which has no struct of its own."""
    if node.op != g.CALL or node.target is None:
        return False
    nodes = modules[node.target].nodes
    return len(nodes) == 1 and bool(nodes[0].bodies)
