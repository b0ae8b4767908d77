"""The layers: which torch.nn modules are one constructor of the runtime crate.

A module is taken as a layer when its class is in the table *and* its graph is the one operation that the class stands
for, with weights under the names that the constructor reads. Anything else is generated from its operations.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from torchport.capture import graph as g
from torchport.targets.candle import rust
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.ops.layers import per_axis
from torchport.targets.candle.registry import Args

VB = "\x05"
"""Where the VarBuilder goes in a constructor."""


@dataclass(frozen=True)
class Layer:
    type: str
    constructor: str
    """With slots of the struct that holds the layer, and VB for its VarBuilder."""
    method: str = "forward"


class NotALayer(Exception):
    """The module's graph is not what its class promises."""


LayerFunction = Callable[["Leaf"], Layer]
LAYERS: dict[str, LayerFunction] = {}


@dataclass(frozen=True)
class Leaf:
    """A leaf module, and the emitter of the struct that will hold it."""

    emitter: Emitter
    module: g.Module

    def args(self, op: str) -> Args:
        """The arguments of the module's only operation."""
        nodes = self.module.nodes
        if len(nodes) != 1 or nodes[0].op != op:
            raise NotALayer
        return Args(nodes[0])

    def weight(self, a: Args, name: str, key: str | None = None) -> tuple[int, ...]:
        """The shape of the weight that an argument reads, which must bear its usual name."""
        value = a[name]
        if not isinstance(value, g.Ref):
            raise NotALayer
        full = self.module.params.get(value.name)
        expected = f"{self.module.path}.{key or name}" if self.module.path else (key or name)
        if full != expected:
            raise NotALayer
        weight = self.emitter.graph.weights[full]
        if weight.meta.dtype != "float32":
            raise NotALayer
        return tuple(int(d) for d in weight.meta.shape)  # type: ignore[arg-type]

    def has(self, a: Args, name: str) -> bool:
        if a[name] is None:
            return False
        self.weight(a, name)
        return True

    def data(self, a: Args, name: str) -> None:
        """The argument must be the module's own input."""
        if len(self.module.inputs) != 1 or a[name] != g.Ref(self.module.inputs[0].name):
            raise NotALayer

    def number(self, value: int | float, role: str, kind: str = "usize") -> str:
        return self.emitter.slot(value, role, kind, new=True)

    def numbers(self, values: list[int], role: str) -> str:
        return f"[{', '.join(self.number(v, role) for v in values)}]"


def layer(*types: str) -> Callable[[LayerFunction], LayerFunction]:
    def decorate(function: LayerFunction) -> LayerFunction:
        for name in types:
            if name in LAYERS:
                raise ValueError(f"layer {name} is registered twice")
            LAYERS[f"torch.nn.modules.{name}"] = function
        return function

    return decorate


def find_layer(emitter: Emitter, module: g.Module) -> Layer | None:
    function = LAYERS.get(module.type, _activation)
    before = len(emitter.body.slots)
    try:
        return function(Leaf(emitter, module))
    except NotALayer:
        del emitter.body.slots[before:]
        return None


def is_layer(graph: g.Graph, module: g.Module) -> bool:
    return find_layer(Emitter(graph, module, "none"), module) is not None


@layer("linear.Linear")
def linear(leaf: Leaf) -> Layer:
    a = leaf.args("aten.linear.default")
    leaf.data(a, "input")
    out_features, in_features = leaf.weight(a, "weight")
    suffix = "" if leaf.has(a, "bias") else "_no_bias"
    sizes = f"{leaf.number(in_features, 'in_features')}, {leaf.number(out_features, 'out_features')}"
    return Layer("Linear", f"nn::linear{suffix}({sizes}, {VB})?")


@layer("sparse.Embedding")
def embedding(leaf: Leaf) -> Layer:
    a = leaf.args("aten.embedding.default")
    leaf.data(a, "indices")
    count, size = leaf.weight(a, "weight")
    sizes = f"{leaf.number(count, 'num_embeddings')}, {leaf.number(size, 'embedding_dim')}"
    return Layer("Embedding", f"nn::embedding({sizes}, {VB})?")


@layer("normalization.LayerNorm")
def layer_norm(leaf: Leaf) -> Layer:
    a = leaf.args("aten.layer_norm.default")
    leaf.data(a, "input")
    shape = a["normalized_shape"]
    if a["weight"] is None:
        suffix = "_no_affine"
    else:
        leaf.weight(a, "weight")
        suffix = "" if leaf.has(a, "bias") else "_no_bias"
    sizes = [leaf.number(size, "normalized_shape") for size in shape]
    words = sizes[0] if len(sizes) == 1 else f"({', '.join(sizes)})"
    return Layer(
        "LayerNorm", f"nn::layer_norm{suffix}({words}, {leaf.number(a['eps'], 'eps', 'f64')}, {VB})?"
    )


@layer("normalization.RMSNorm")
def rms_norm(leaf: Leaf) -> Layer:
    a = leaf.args("aten.rms_norm.default")
    leaf.data(a, "input")
    leaf.weight(a, "weight")
    sizes = [leaf.number(size, "normalized_shape") for size in a["normalized_shape"]]
    words = sizes[0] if len(sizes) == 1 else f"({', '.join(sizes)})"
    eps = 2.0**-23 if a["eps"] is None else a["eps"]
    return Layer("RmsNorm", f"nn::rms_norm({words}, {leaf.number(eps, 'eps', 'f64')}, {VB})?")


@layer("normalization.GroupNorm")
def group_norm(leaf: Leaf) -> Layer:
    a = leaf.args("aten.group_norm.default")
    leaf.data(a, "input")
    if not leaf.has(a, "bias"):
        raise NotALayer
    (channels,) = leaf.weight(a, "weight")
    groups = leaf.number(a["num_groups"], "num_groups")
    eps = leaf.number(a["eps"], "eps", "f64")
    return Layer(
        "GroupNorm", f"nn::group_norm({groups}, {leaf.number(channels, 'num_channels')}, {eps}, {VB})?"
    )


@layer("batchnorm.BatchNorm1d", "batchnorm.BatchNorm2d", "batchnorm.BatchNorm3d")
def batch_norm(leaf: Leaf) -> Layer:
    a = leaf.args("aten._native_batch_norm_legit_no_training.default")
    leaf.data(a, "input")
    (features,) = leaf.weight(a, "running_mean")
    leaf.weight(a, "running_var")
    suffix = "" if leaf.has(a, "weight") and leaf.has(a, "bias") else "_no_affine"
    if suffix and (a["weight"] is not None or a["bias"] is not None):
        raise NotALayer
    count, eps = leaf.number(features, "num_features"), leaf.number(a["eps"], "eps", "f64")
    return Layer("BatchNorm", f"nn::batch_norm{suffix}({count}, {eps}, {VB})?")


_CONV_DEFAULTS = {"stride": 1, "padding": 0, "dilation": 1, "output_padding": 0, "groups": 1}


def _is_default(option: str, value: list[int] | int) -> bool:
    usual = _CONV_DEFAULTS[option]
    return value == usual or (isinstance(value, list) and set(value) == {usual})


def _set_anywhere(leaf: Leaf) -> set[str]:
    """The options that this convolution, or its sibling in another module of the holder's class, sets."""
    holder = leaf.emitter.module
    local = leaf.module.path.removeprefix(f"{holder.path}.") if holder.path else leaf.module.path
    found = set()
    for module in leaf.emitter.graph.modules.values():
        if module.type == holder.type and module.class_name not in ("Sequential", "ModuleList"):
            sibling = leaf.emitter.graph.modules.get(f"{module.path}.{local}" if module.path else local)
            if sibling is not None and sibling.type == leaf.module.type and len(sibling.nodes) == 1:
                a = Args(sibling.nodes[0])
                found |= {o for o in _CONV_DEFAULTS if o in a.values and not _is_default(o, a[o])}
    return found


def _conv_config(leaf: Leaf, name: str, values: dict[str, list[int] | int]) -> str:
    """Only the options that are not the default, here or where the same struct is used again."""
    items = []
    wanted = _set_anywhere(leaf)
    for option, value in values.items():
        if option not in wanted and _is_default(option, value):
            continue
        word = leaf.number(value, option) if isinstance(value, int) else leaf.numbers(value, option)
        items.append(f"{option}: {word}")
    if not items:
        return f"nn::{name}::default()"
    rest = "" if len(items) == len(values) and name != "ConvConfig" else ", ..Default::default()"
    return f"nn::{name} {{ {', '.join(items)}{rest} }}"


@layer("conv.Conv1d", "conv.Conv2d", "conv.Conv3d")
def conv(leaf: Leaf) -> Layer:
    rank = int(leaf.module.type[-2])
    a = leaf.args(f"aten.conv{rank}d.default")
    leaf.data(a, "input")
    out_channels, per_group, *kernel = leaf.weight(a, "weight")
    groups = a["groups"]
    options = {n: per_axis(a[n], rank) for n in ("stride", "padding", "dilation")}
    suffix = "" if leaf.has(a, "bias") else "_no_bias"
    words = [
        leaf.number(per_group * groups, "in_channels"),
        leaf.number(out_channels, "out_channels"),
        leaf.numbers(kernel, "kernel_size"),
        _conv_config(leaf, "ConvConfig", {**options, "groups": groups}),
    ]
    return Layer(f"Conv{rank}d", f"nn::conv{rank}d{suffix}({', '.join(words)}, {VB})?")


@layer("conv.ConvTranspose1d", "conv.ConvTranspose2d", "conv.ConvTranspose3d")
def conv_transpose(leaf: Leaf) -> Layer:
    rank = int(leaf.module.type[-2])
    a = leaf.args(f"aten.conv_transpose{rank}d.{'default' if rank == 1 else 'input'}")
    leaf.data(a, "input")
    in_channels, per_group, *kernel = leaf.weight(a, "weight")
    groups = a["groups"]
    options = {n: per_axis(a[n], rank) for n in ("stride", "padding", "output_padding", "dilation")}
    suffix = "" if leaf.has(a, "bias") else "_no_bias"
    words = [
        leaf.number(in_channels, "in_channels"),
        leaf.number(per_group * groups, "out_channels"),
        leaf.numbers(kernel, "kernel_size"),
        _conv_config(leaf, "ConvTransposeConfig", {**options, "groups": groups}),
    ]
    return Layer(f"ConvTranspose{rank}d", f"nn::conv_transpose{rank}d{suffix}({', '.join(words)}, {VB})?")


_RECURRENT = {
    "LSTM": ("aten.lstm.input", "Lstm", "lstm"),
    "GRU": ("aten.gru.input", "Gru", "gru"),
}


@layer("rnn.LSTM", "rnn.GRU")
def recurrent(leaf: Leaf) -> Layer:
    op, type_, function = _RECURRENT[leaf.module.class_name]
    node = leaf.module.nodes[-1]
    if node.op != op:
        raise NotALayer
    a = Args(node)
    states = a["hx"] if isinstance(a["hx"], list) else [a["hx"]]
    inputs = [g.Ref(item.name) for item in leaf.module.inputs]
    zeros = {n.name for n in leaf.module.nodes if n.op in ("aten.zeros.default", "aten.new_zeros.default")}
    others = [n for n in leaf.module.nodes[:-1] if n.name not in zeros]
    given = states != [] and [a["input"], *states] == inputs
    blank = inputs == [a["input"]] and all(state.name in zeros for state in states)
    if others or not (given or blank):
        raise NotALayer
    own = leaf.module.attributes
    if a["dropout"] and a["train"]:
        raise NotALayer
    _recurrent_weights(leaf, a)
    config = [f"num_layers: {leaf.number(a['num_layers'], 'num_layers')}"]
    config += [f"{name}: true" for name in ("bidirectional", "batch_first") if a[name]]
    config += [] if a["has_biases"] else ["bias: false"]
    projection = int(own.get("proj_size", 0) or 0)
    config += [f"proj_size: {leaf.number(projection, 'proj_size')}"] if projection else []
    sizes = (
        f"{leaf.number(own['input_size'], 'input_size')}, {leaf.number(own['hidden_size'], 'hidden_size')}"
    )
    options = f"nn::RnnConfig {{ {', '.join(config)}, ..Default::default() }}"
    method = "forward_with_state" if given else "forward"
    return Layer(type_, f"nn::{function}({sizes}, {options}, {VB})?", method)


def _recurrent_weights(leaf: Leaf, a: Args) -> None:
    """The weights come in torch's order and under torch's names, in the dtype that constructors read."""
    names = [leaf.module.params[ref.name] for ref in a["params"]]
    if any(leaf.emitter.graph.weights[name].meta.dtype != "float32" for name in names):
        raise NotALayer
    kinds = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if a["has_biases"] else [])]
    kinds += ["weight_hr"] if leaf.module.attributes.get("proj_size") else []
    prefix = f"{leaf.module.path}." if leaf.module.path else ""
    expected = [
        f"{prefix}{kind}_l{index}{suffix}"
        for index in range(a["num_layers"])
        for suffix in ("", "_reverse")[: 2 if a["bidirectional"] else 1]
        for kind in kinds
    ]
    if names != expected:
        raise NotALayer


def _plain(leaf: Leaf, a: Args) -> str:
    return a.node.op.split(".")[1]


def _gelu(leaf: Leaf, a: Args) -> str:
    return "gelu_tanh" if a["approximate"] == "tanh" else "gelu"


def _relu6(leaf: Leaf, a: Args) -> str:
    if (a["min_val"], a["max_val"]) != (0, 6):
        raise NotALayer
    return "relu6"


def _elu(leaf: Leaf, a: Args) -> str:
    if (a["scale"], a["input_scale"]) != (1, 1):
        raise NotALayer
    return f"elu({leaf.number(a['alpha'], 'alpha', 'f64')}, "


def _leaky_relu(leaf: Leaf, a: Args) -> str:
    return f"leaky_relu({leaf.number(a['negative_slope'], 'slope', 'f64')}, "


def _softplus(leaf: Leaf, a: Args) -> str:
    numbers = [leaf.number(a[name], name, "f64") for name in ("beta", "threshold")]
    return f"softplus({', '.join(numbers)}, "


_ACTIVATIONS: dict[str, Callable[[Leaf, Args], str]] = {
    **{
        f"aten.{name}.default": _plain
        for name in ("relu", "silu", "sigmoid", "tanh", "mish", "hardswish", "hardsigmoid")
    },
    "aten.gelu.default": _gelu,
    "aten.hardtanh.default": _relu6,
    "aten.elu.default": _elu,
    "aten.leaky_relu.default": _leaky_relu,
    "aten.softplus.default": _softplus,
}


def _activation(leaf: Leaf) -> Layer:
    """A module of any class whose whole graph is one activation function."""
    nodes = leaf.module.nodes
    function = _ACTIVATIONS.get(nodes[0].op) if len(nodes) == 1 else None
    if function is None or not leaf.module.inputs or not leaf.module.inputs[0].meta.is_float:
        raise NotALayer
    a = Args(nodes[0])
    leaf.data(a, "self")
    text = function(leaf, a)
    return Layer("Activation", f"nn::{text}{VB})" if "(" in text else f"nn::{text}({VB})")


_USUAL_NAMES = {"ReLU": "relu", "SiLU": "silu", "GELU": "gelu", "LeakyReLU": "leaky_relu", "ReLU6": "relu6"}


def field_name(module: g.Module) -> str:
    """A name for a child that has only a number (`0` of an nn.Sequential)."""
    name = _USUAL_NAMES.get(module.class_name, rust.snake(module.class_name))
    return "norm" if name.startswith("batch_norm") else re.sub(r"^(conv|conv_transpose)\d?d$", r"\1", name)
