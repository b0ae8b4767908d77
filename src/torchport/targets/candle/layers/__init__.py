"""The layers: which modules of torch.nn are one constructor of the runtime crate. Importing this fills the table.

A module is taken as a layer if its class is in the table *and* its graph is the one operation that the class stands
for, with weights under the names that the constructor reads. Any other module is written from its operations.
"""

from torchport.capture import graph as g
from torchport.targets.candle.body import UNWATCHED
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.layers import convolution, linear, norms, recurrent
from torchport.targets.candle.layers.activations import activation
from torchport.targets.candle.layers.table import LAYERS, LeafModule, NotALayer, RuntimeLayer

__all__ = ["convolution", "find_layer", "is_layer", "linear", "norms", "recurrent"]


def find_layer(emitter: Emitter, module: g.Module) -> RuntimeLayer | None:
    """The layer that a module is, with its numbers added to the emitter of the struct that holds it, or None."""
    function = LAYERS.get(module.type, activation)
    before = len(emitter.body.numbers)
    try:
        return function(LeafModule(emitter, module))
    except NotALayer:
        del emitter.body.numbers[before:]
        return None


def is_layer(graph: g.Graph, module: g.Module) -> bool:
    return find_layer(Emitter(graph, module, UNWATCHED), module) is not None
