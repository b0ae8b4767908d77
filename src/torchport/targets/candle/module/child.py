"""A child of a module: how the struct of its parent holds it, and how it is called."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torchport.capture import graph as g
from torchport.targets.candle.body import ChildCall, Value
from torchport.targets.candle.code import Code, InputName, Parameter, Piece, code, joined
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.layers import find_layer
from torchport.targets.candle.layers.table import RuntimeLayer
from torchport.targets.candle.struct import Struct


@dataclass(frozen=True)
class Vector:
    """A field that is a Vec, and the keys of the children that are its items, in their order."""

    name: str
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Child:
    """A module that another module calls, as the struct of the caller holds it."""

    place: str
    """The expression that holds it: `self.dense`, `self.layers[1]`."""
    method: str
    is_plain: bool
    """Whether it takes one tensor and gives one, so that its method is `forward` of candle's `Module`."""
    sizes: tuple[str, ...]
    """Free sizes that its method is given beside tensors."""
    vector: Vector | None

    @staticmethod
    def of_struct(struct: Struct, place: str, vector: Vector | None = None) -> Child:
        return Child(place, "forward", struct.is_plain, struct.sizes, vector)

    @staticmethod
    def of_layer(layer: RuntimeLayer, module: g.Module, place: str, vector: Vector | None = None) -> Child:
        is_plain = layer.method == "forward" and len(module.outputs) == 1
        return Child(place, layer.method, is_plain, (), vector)

    def given_sizes(self, e: Emitter) -> list[Code]:
        """The free sizes that the caller hands over."""
        return [e.size(g.Sym(symbol)) for symbol in self.sizes]


def layer_of(e: Emitter, key: str) -> RuntimeLayer:
    """The layer that a child is which has no struct of its own."""
    layer = find_layer(e, e.graph.modules[key])
    assert layer is not None
    return layer


def name_within(parent: g.Module, key: str) -> str:
    """The path of a child as its parent sees it: `attention.dense`."""
    return key.removeprefix(f"{parent.key}.") if parent.key else key


def builder_at(path: Piece) -> Code:
    """The VarBuilder for the weights under a path, which is an expression."""
    return code("{}.pp({})", Parameter.BUILDER, path)


def struct_constructor(struct: Struct, arguments: Iterable[Piece], builder: Code) -> Code:
    config = [Parameter.CONFIG] if struct.uses_config else []
    return code("{}::new({})?", struct.name, joined(", ", [*arguments, *config, builder]))


def note_call(e: Emitter, node: g.Node) -> None:
    """Notes what the arguments are called here, so that the child can call its inputs the same."""
    assert node.target is not None
    e.body.calls.append(ChildCall(node.target, tuple(_name_of(e.values[arg]) for arg in node.args)))


def _name_of(value: Value) -> str | InputName | None:
    if value.form == "expr":
        return value.hint
    (name,) = value.code.removeprefix("self.").parts
    assert isinstance(name, str | InputName)
    return name
