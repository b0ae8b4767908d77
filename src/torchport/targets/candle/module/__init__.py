"""Writes one module as a struct: its children and weights as fields, its nodes as `forward`.

In: a module of the graph, and the structs of the modules that it calls. Out: its `Body`.
"""

from __future__ import annotations

from collections.abc import Mapping

from torchport.capture import graph as g
from torchport.targets.candle.body import Body, Written
from torchport.targets.candle.code import code, joined
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.layers import find_layer
from torchport.targets.candle.layers.table import RuntimeLayer
from torchport.targets.candle.module.children import add_children, name_after_class
from torchport.targets.candle.module.entrance import guard_entrance
from torchport.targets.candle.module.inputs import add_weights, declare_inputs
from torchport.targets.candle.module.nodes import write_nodes
from torchport.targets.candle.module.result import write_result
from torchport.targets.candle.module.taken_sizes import take_sizes
from torchport.targets.candle.struct import Placed


def write_module(graph: g.Graph, module: g.Module, placed: Mapping[str, Placed], written: Written) -> Body:
    e = Emitter(graph, module, written)
    declare_inputs(e)
    layer = find_layer(e, module) if module.key == "" else None
    if layer is not None:
        _write_layer(e, layer)
        return e.body
    children = add_children(e, placed)
    add_weights(e)
    if module.key == "":
        guard_entrance(e)
    write_nodes(e, children)
    write_result(e)
    take_sizes(e)
    return e.body


def _write_layer(e: Emitter, layer: RuntimeLayer) -> None:
    """A model that is one layer becomes a struct that holds this layer."""
    body = e.body
    body.is_layer = True
    body.outputs = len(e.module.outputs)
    body.calls_module_trait = layer.method == "forward" and body.outputs == 1
    name = e.add_field(name_after_class(e.module), layer.type, layer.constructor)
    body.result = code("self.{}.{}({})", name, layer.method, joined(", ", body.inputs))
