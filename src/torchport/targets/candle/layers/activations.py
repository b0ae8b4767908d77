"""Activation functions as layers."""

from __future__ import annotations

from collections.abc import Callable

from torchport.targets.candle.arguments import Args
from torchport.targets.candle.code import Code, Parameter, code, joined
from torchport.targets.candle.layers.table import LeafModule, NotALayer, RuntimeLayer

Constructor = tuple[str, list[Code]]
"""The name of a constructor of the runtime crate, and its numbers."""


def activation(leaf: LeafModule) -> RuntimeLayer:
    """A module of any class whose whole graph is one activation function."""
    nodes = leaf.module.nodes
    function = _ACTIVATIONS.get(nodes[0].op) if len(nodes) == 1 else None
    if function is None or not leaf.module.inputs or not leaf.module.inputs[0].meta.is_float:
        raise NotALayer
    a = Args(nodes[0])
    leaf.must_read_input(a, "self")
    name, numbers = function(leaf, a)
    return RuntimeLayer("Activation", code("nn::{}({})", name, joined(", ", [*numbers, Parameter.BUILDER])))


def _of_same_name(leaf: LeafModule, a: Args) -> Constructor:
    return a.node.op.split(".")[1], []


def _gelu(leaf: LeafModule, a: Args) -> Constructor:
    return "gelu_tanh" if a["approximate"] == "tanh" else "gelu", []


def _relu6(leaf: LeafModule, a: Args) -> Constructor:
    if (a["min_val"], a["max_val"]) != (0, 6):
        raise NotALayer
    return "relu6", []


def _elu(leaf: LeafModule, a: Args) -> Constructor:
    if (a["scale"], a["input_scale"]) != (1, 1):
        raise NotALayer
    return "elu", [leaf.number(a["alpha"], "alpha", "f64")]


def _leaky_relu(leaf: LeafModule, a: Args) -> Constructor:
    return "leaky_relu", [leaf.number(a["negative_slope"], "slope", "f64")]


def _softplus(leaf: LeafModule, a: Args) -> Constructor:
    return "softplus", [leaf.number(a[name], name, "f64") for name in ("beta", "threshold")]


_ACTIVATIONS: dict[str, Callable[[LeafModule, Args], Constructor]] = {
    **{
        f"aten.{name}.default": _of_same_name
        for name in ("relu", "silu", "sigmoid", "tanh", "mish", "hardswish", "hardsigmoid")
    },
    "aten.gelu.default": _gelu,
    "aten.hardtanh.default": _relu6,
    "aten.elu.default": _elu,
    "aten.leaky_relu.default": _leaky_relu,
    "aten.softplus.default": _softplus,
}
