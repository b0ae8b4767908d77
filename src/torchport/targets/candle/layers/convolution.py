"""Convolutions and transposed convolutions."""

from __future__ import annotations

from torchport.targets.candle.arguments import Args
from torchport.targets.candle.code import Code, code, joined
from torchport.targets.candle.layers.table import LeafModule, RuntimeLayer, constructor, layer
from torchport.targets.candle.operands import per_axis

_DEFAULTS = {"stride": 1, "padding": 0, "dilation": 1, "output_padding": 0, "groups": 1}


@layer("conv.Conv1d", "conv.Conv2d", "conv.Conv3d")
def conv(leaf: LeafModule) -> RuntimeLayer:
    rank = _rank(leaf)
    a = leaf.args(f"aten.conv{rank}d.default")
    leaf.must_read_input(a, "input")
    out_channels, per_group, *kernel = leaf.weight(a, "weight")
    options = {name: per_axis(a[name], rank) for name in ("stride", "padding", "dilation")}
    suffix = "" if leaf.has_weight(a, "bias") else "_no_bias"
    arguments = [
        leaf.number(per_group * a["groups"], "in_channels"),
        leaf.number(out_channels, "out_channels"),
        leaf.numbers(kernel, "kernel_size"),
        _options(leaf, "ConvConfig", {**options, "groups": a["groups"]}),
    ]
    return RuntimeLayer(f"Conv{rank}d", constructor(f"conv{rank}d{suffix}", *arguments))


@layer("conv.ConvTranspose1d", "conv.ConvTranspose2d", "conv.ConvTranspose3d")
def conv_transpose(leaf: LeafModule) -> RuntimeLayer:
    rank = _rank(leaf)
    a = leaf.args(f"aten.conv_transpose{rank}d.{'default' if rank == 1 else 'input'}")
    leaf.must_read_input(a, "input")
    in_channels, per_group, *kernel = leaf.weight(a, "weight")
    names = ("stride", "padding", "output_padding", "dilation")
    options = {name: per_axis(a[name], rank) for name in names}
    suffix = "" if leaf.has_weight(a, "bias") else "_no_bias"
    arguments = [
        leaf.number(in_channels, "in_channels"),
        leaf.number(per_group * a["groups"], "out_channels"),
        leaf.numbers(kernel, "kernel_size"),
        _options(leaf, "ConvTransposeConfig", {**options, "groups": a["groups"]}),
    ]
    return RuntimeLayer(f"ConvTranspose{rank}d", constructor(f"conv_transpose{rank}d{suffix}", *arguments))


def _rank(leaf: LeafModule) -> int:
    """2 for `Conv2d`."""
    return int(leaf.module.type[-2])


def _options(leaf: LeafModule, type_: str, values: dict[str, list[int] | int]) -> Code:
    """The options that are not the default, for this convolution or for another that shares its struct."""
    items = []
    wanted = _options_set_anywhere(leaf)
    for option, value in values.items():
        if option not in wanted and _is_default(option, value):
            continue
        word = leaf.number(value, option) if isinstance(value, int) else leaf.numbers(value, option)
        items.append(code("{}: {}", option, word))
    if not items:
        return code("nn::{}::default()", type_)
    rest = "" if len(items) == len(values) and type_ != "ConvConfig" else ", ..Default::default()"
    return code("nn::{} {{ {}{} }}", type_, joined(", ", items), rest)


def _options_set_anywhere(leaf: LeafModule) -> set[str]:
    """The options that this convolution, or its sibling in another module of the holder's class, sets."""
    holder = leaf.emitter.module
    local = leaf.module.path.removeprefix(f"{holder.path}.") if holder.path else leaf.module.path
    found = set()
    for module in leaf.emitter.graph.modules.values():
        if module.type == holder.type and module.class_name not in ("Sequential", "ModuleList"):
            sibling = leaf.emitter.graph.modules.get(f"{module.path}.{local}" if module.path else local)
            if sibling is not None and sibling.type == leaf.module.type and len(sibling.nodes) == 1:
                a = Args(sibling.nodes[0])
                found |= {name for name in _DEFAULTS if name in a and not _is_default(name, a[name])}
    return found


def _is_default(option: str, value: list[int] | int) -> bool:
    usual = _DEFAULTS[option]
    return value == usual or (isinstance(value, list) and set(value) == {usual})
