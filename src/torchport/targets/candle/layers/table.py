"""The table of layers: a function for each class of torch.nn, and what such a function works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torchport.capture import graph as g
from torchport.targets.candle.arguments import Args
from torchport.targets.candle.code import Code, Parameter, Piece, call, code, joined
from torchport.targets.candle.emit import Emitter

RUNTIME_TYPES = (
    "Linear",
    "Embedding",
    "LayerNorm",
    "RmsNorm",
    "GroupNorm",
    "BatchNorm",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Lstm",
    "Gru",
    "Rnn",
    "Activation",
)
"""The types of the runtime crate's layers, in the order in which they are imported."""


@dataclass(frozen=True)
class RuntimeLayer:
    """A layer of the runtime crate: the type of the field that holds it, and the expression that makes it."""

    type: str
    constructor: Code
    method: str = "forward"


class NotALayer(Exception):
    """The graph of a module is not what its class promises."""


LayerFunction = Callable[["LeafModule"], RuntimeLayer]
LAYERS: dict[str, LayerFunction] = {}
"""Class with its package (`torch.nn.modules.linear.Linear`) → the function that makes the layer."""


def layer(*classes: str) -> Callable[[LayerFunction], LayerFunction]:
    """Registers a function for classes, which are named without `torch.nn.modules`."""

    def decorate(function: LayerFunction) -> LayerFunction:
        for name in (f"torch.nn.modules.{short}" for short in classes):
            if name in LAYERS:
                raise ValueError(f"layer {name} is registered twice")
            LAYERS[name] = function
        return function

    return decorate


def constructor(function: str, *arguments: Piece) -> Code:
    """A call of a constructor, which takes the VarBuilder last."""
    return call(f"nn::{function}", *arguments, Parameter.BUILDER)


@dataclass(frozen=True)
class LeafModule:
    """A module that may be a layer, and the emitter of the struct that would hold it."""

    emitter: Emitter
    module: g.Module

    def args(self, op: str) -> Args:
        """The arguments of the module's only operation."""
        nodes = self.module.nodes
        if len(nodes) != 1 or nodes[0].op != op:
            raise NotALayer
        return Args(nodes[0])

    def weight(self, a: Args, name: str) -> tuple[int, ...]:
        """The shape of the weight that an argument reads, which must bear the argument's name."""
        value = a[name]
        if not isinstance(value, g.Ref):
            raise NotALayer
        full = self.module.params.get(value.name)
        expected = f"{self.module.path}.{name}" if self.module.path else name
        if full != expected:
            raise NotALayer
        weight = self.emitter.graph.weights[full]
        if weight.meta.dtype != "float32":
            raise NotALayer
        return tuple(int(d) for d in weight.meta.shape)  # type: ignore[arg-type]

    def has_weight(self, a: Args, name: str) -> bool:
        """Whether an optional weight is given; if it is, it must bear the argument's name."""
        if a[name] is None:
            return False
        self.weight(a, name)
        return True

    def must_read_input(self, a: Args, name: str) -> None:
        """Raises unless the argument is the module's own and only input."""
        if len(self.module.inputs) != 1 or a[name] != g.Ref(self.module.inputs[0].name):
            raise NotALayer

    def number(
        self, value: int | float, role: str, kind: str = "usize", *, axis_of: tuple[str, int] | None = None
    ) -> Code:
        """A number that the constructor reads; `axis_of` is the weight and the axis that it is the length of."""
        place = None
        if axis_of is not None:
            weight, axis = axis_of
            place = f"{self.module.path}.{weight}[{axis}]" if self.module.path else f"{weight}[{axis}]"
        return self.emitter.slot(value, role, kind, new=True, place=place)

    def numbers(self, values: list[int], role: str) -> Code:
        """Numbers of one role as an array."""
        return code("[{}]", joined(", ", [self.number(value, role) for value in values]))
