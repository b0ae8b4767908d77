"""What may be wrong with one operation: the hypotheses, each with the value that the operation would then have.

Most follow from the operation's schema alone: another axis, a flag the other way, a number that is fitted, an operand
left out. The rest are tables of operations that are taken for each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from torchport.explain.trial import Bound


@dataclass(frozen=True)
class Guess:
    """A hypothesis. With a `span`, `compute` takes a number between its ends that is to be fitted."""

    kind: str
    text: str
    """What is said of it; `{value}` stands for the number that was fitted."""
    compute: Callable[..., Any]
    span: tuple[float, float] | None = None


Source = Callable[[Bound], Iterator[Guess]]
_SOURCES: list[Source] = []


def source(function: Source) -> Source:
    """Registers hypotheses; the first to be registered are the first to be believed."""
    _SOURCES.append(function)
    return function


def guesses_about(bound: Bound) -> Iterator[Guess]:
    for function in _SOURCES:
        yield from function(bound)


_WORDS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "approximate": ("gelu_tanh", ("none", "tanh")),
    "rounding_mode": ("rounding_mode", (None, "trunc", "floor")),
    "mode": ("pad_mode", ("constant", "reflect", "replicate", "circular")),
}
"""Argument → kind of hypothesis, and the values that it can have."""
_FLAGS = {
    "is_causal": "causal",
    "align_corners": "align_corners",
    "count_include_pad": "pad",
    "ceil_mode": "pad",
}
_STEPS = {"stride": "stride", "dilation": "dilation", "padding": "pad", "pad": "pad", "output_padding": "pad"}
_NUMBERS = {"eps": (1e-14, 1e-1), "scale": (1e-4, 1e4)}
_NOT_A_NUMBER = {"dim", "dim0", "dim1", "p", "fill_value", "dropout_p", "momentum"}


@source
def another_word(b: Bound) -> Iterator[Guess]:
    """A word such as the approximation of gelu."""
    for name, (kind, words) in _WORDS.items():
        if name in b.args:
            for word in words:
                if word != b[name]:
                    text = f"{name} is {word!r} where the model has {b[name]!r}"
                    yield Guess(kind, text, lambda name=name, word=word: b(**{name: word}))


@source
def another_flag(b: Bound) -> Iterator[Guess]:
    for name, value in b.args.items():
        if isinstance(value, bool) and name in _FLAGS:
            text = f"{name} is {not value} where the model has {value}"
            yield Guess(_FLAGS[name], text, lambda name=name, value=value: b(**{name: not value}))


@source
def another_number(b: Bound) -> Iterator[Guess]:
    """An epsilon, a scale or another number, fitted to what the port computed."""
    for name, value in b.args.items():
        if name in _NUMBERS and (value is None or isinstance(value, float)):
            default = value is None
            was = "its default" if default else f"{value:g}"
            text = f"{name} is {{value}} where the model has {was}"
            yield Guess(name, text, lambda x, name=name: b(**{name: x}), _NUMBERS[name])
        elif isinstance(value, float) and name not in _NOT_A_NUMBER and value:
            kind = "eps" if 0 < value < 1e-2 else "scale" if name == "other" else "number"
            low, high = (1e-14, 1e-1) if kind == "eps" else (abs(value) * 1e-4, abs(value) * 1e4)
            sign = 1.0 if value > 0 else -1.0
            text = f"{name} is {{value}} where the model has {value:g}"
            yield Guess(kind, text, lambda x, name=name, sign=sign: b(**{name: sign * x}), (low, high))


@source
def another_step(b: Bound) -> Iterator[Guess]:
    """Stride, dilation and padding: none, one more, one less, the other way round."""
    for name, kind in _STEPS.items():
        value = b.get(name)
        if not isinstance(value, list) or not all(isinstance(item, int) for item in value):
            continue
        plain = 0 if kind == "pad" else 1
        tried = [[plain] * len(value), value[::-1], *([item + by for item in value] for by in (1, -1))]
        for index in range(len(value)):
            tried += [[*value[:index], value[index] + by, *value[index + 1 :]] for by in (1, -1)]
        for other in _others(tried, value):
            text = f"{name} is {other} where the model has {value}"
            yield Guess(kind, text, lambda name=name, other=other: b(**{name: other}))


_PAD_MODES = ("reflect", "replicate", "circular")


@source
def padded_otherwise(b: Bound) -> Iterator[Guess]:
    """A convolution whose padding is not zeros, or is all on one side; or that lost its dilation and kept its size."""
    name = b.node.op.split(".")[1]
    if name not in ("conv1d", "conv2d", "conv3d") or not isinstance(b.get("padding"), list):
        return
    axes = b["weight"].ndim - 2
    padding, dilation = (_per_axis(b[option], axes) for option in ("padding", "dilation"))
    if any(padding):
        both = [size for size in reversed(padding) for _ in range(2)]
        for mode in _PAD_MODES:
            text = f"it is padded by {mode!r} where the model pads with zeros"
            yield Guess("pad_mode", text, lambda m=mode: _padded(b, both, m))
        for side, text in ((0, "in front"), (1, "at the end")):
            one = [2 * size if at == side else 0 for size in reversed(padding) for at in range(2)]
            yield Guess("pad", f"all of the padding is {text}", lambda o=one: _padded(b, o, "constant"))
    if max(dilation) > 1:
        kernel = b["weight"].shape[2:]
        less = [p - (d - 1) * (k - 1) // 2 for p, d, k in zip(padding, dilation, kernel, strict=True)]
        if min(less) >= 0:
            text = f"dilation is 1 and padding {less}, where the model has {dilation} and {padding}"
            yield Guess("dilation", text, lambda: b(dilation=[1] * axes, padding=less))


def _per_axis(value: list[int], axes: int) -> list[int]:
    return value if len(value) == axes else value * axes


def _padded(b: Bound, pad: list[int], mode: str) -> torch.Tensor:
    axes = b["weight"].ndim - 2
    return b(input=torch.nn.functional.pad(b["input"], pad, mode=mode), padding=[0] * axes)


@source
def another_axis(b: Bound) -> Iterator[Guess]:
    rank = max((tensor.ndim for tensor in b.tensors.values()), default=0)
    if rank == 0 and isinstance(b.get("tensors"), list) and b["tensors"]:
        rank = b["tensors"][0].ndim
    for name in ("dim", "dim0", "dim1", "axis"):
        value = b.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            for other in range(rank):
                if other != value % max(rank, 1):
                    text = f"{name} is {other} where the model has {value}"
                    yield Guess("axis", text, lambda name=name, other=other: b(**{name: other}))
    for name in ("dim", "dims"):
        value = b.get(name)
        if isinstance(value, list) and 0 < len(value) <= rank <= 5:
            here = tuple(item % rank for item in value)
            many = itertools.permutations if name == "dims" else itertools.combinations
            for axes in many(range(rank), len(value)):
                if axes != here:
                    text = f"{name} is {list(axes)} where the model has {value}"
                    yield Guess("axis", text, lambda name=name, axes=axes: b(**{name: list(axes)}))


@source
def off_by_one(b: Bound) -> Iterator[Guess]:
    for name in ("diagonal", "start", "end", "index", "shifts", "step"):
        value = b.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            for by in (1, -1):
                kind = "causal" if name == "diagonal" else "off_by_one"
                text = f"{name} is {value + by} where the model has {value}"
                yield Guess(kind, text, lambda name=name, n=value + by: b(**{name: n}))
        elif isinstance(value, list) and name == "shifts":
            other = [-item for item in value]
            text = f"shifts is {other} where the model has {value}"
            yield Guess("off_by_one", text, lambda other=other: b(shifts=other))


_LEFT_OUT = {"bias": "bias", "weight": "scale", "attn_mask": "mask"}


@source
def operand_left_out(b: Bound) -> Iterator[Guess]:
    optional = {a.name for a in b.overload._schema.arguments if str(a.type).startswith("Optional[Tensor")}
    for name in b.tensors:
        if name in optional:
            kind = _LEFT_OUT.get(name, "dropped_operand")
            yield Guess(kind, f"{name} is not applied", lambda name=name: b(**{name: None}))


@source
def swapped(b: Bound) -> Iterator[Guess]:
    """Two operands in each other's place."""
    for first, second in itertools.combinations(b.tensors, 2):
        if b[first].shape == b[second].shape and b[first].dtype == b[second].dtype:
            running = {first, second} == {"running_mean", "running_var"}
            kind = "statistics_swapped" if running else "swapped_operands"
            text = f"{b.called(first)} and {b.called(second)} are swapped"
            yield Guess(kind, text, lambda a=first, c=second: b(**{a: b[c], c: b[a]}))
    if isinstance(b.get("tensors"), list) and len(b["tensors"]) > 1:
        yield Guess(
            "swapped_operands", "the tensors are in reverse order", lambda: b(tensors=b["tensors"][::-1])
        )


@source
def transposed(b: Bound) -> Iterator[Guess]:
    """A weight that is stored the other way round, where its shape does not give it away."""
    for name in ("weight", "mat2", "other"):
        weight = b.get(name)
        if not isinstance(weight, torch.Tensor) or weight.ndim < 2:
            continue
        for first, second in itertools.combinations(range(weight.ndim), 2):
            if weight.shape[first] == weight.shape[second] > 1:
                text = f"{name} is transposed (axes {first} and {second})"
                yield Guess(
                    "transposed_weight",
                    text,
                    lambda n=name, w=weight, f=first, s=second: b(**{n: w.transpose(f, s).contiguous()}),
                )
        if weight.ndim > 2:
            axes = list(range(2, weight.ndim))
            text = f"the kernel of {name} is flipped"
            yield Guess("transposed_weight", text, lambda n=name, w=weight, a=axes: b(**{n: w.flip(a)}))


@source
def mask_wrong(b: Bound) -> Iterator[Guess]:
    for name in ("attn_mask", "mask", "condition"):
        mask = b.get(name)
        if not isinstance(mask, torch.Tensor):
            continue
        if mask.dtype == torch.bool:
            yield Guess("mask", f"{name} is inverted", lambda n=name, m=mask: b(**{n: ~m}))
        elif name == "attn_mask":
            masked = mask < mask.amax()
            other = torch.where(masked, 0.0, mask.amin()).to(mask.dtype)
            yield Guess("mask", f"{name} is inverted", lambda n=name, m=other: b(**{n: m}))
        if name == "attn_mask" and mask.ndim >= 2:
            for by in (1, -1):
                text = f"{name} is off by one"
                yield Guess("causal", text, lambda n=name, m=mask, by=by: b(**{n: _shifted(m, by)}))
    if b.node.op == "aten.scaled_dot_product_attention.default" and b["is_causal"]:
        length, width = b["query"].shape[-2], b["key"].shape[-2]
        for by in (1, -1):
            mask = torch.ones(length, width, dtype=torch.bool).tril(by)
            yield Guess(
                "causal", "the causal mask is off by one", lambda m=mask: b(attn_mask=m, is_causal=False)
            )


def _shifted(mask: torch.Tensor, by: int) -> torch.Tensor:
    """The mask with every row where its neighbour was; the row at the border stays."""
    rows = torch.arange(mask.shape[-2])
    return mask.index_select(-2, (rows + by).clamp(0, mask.shape[-2] - 1))


@source
def gates(b: Bound) -> Iterator[Guess]:
    """The gates of a recurrent layer in another order."""
    number = {"aten.lstm.input": 4, "aten.gru.input": 3}.get(b.node.op)
    if number is None:
        return
    names = "ifgo" if number == 4 else "rzn"
    for order in itertools.permutations(range(number)):
        if list(order) == sorted(order):
            continue

        def reordered(order: tuple[int, ...] = order) -> Any:
            params = [torch.cat([part.chunk(number)[i] for i in order]) for part in b["params"]]
            return b(params=params)

        letters = "".join(names[i] for i in order)
        yield Guess("gate_order", f"the gates are in the order {letters}, not {names}", reordered)


@source
def heads(b: Bound) -> Iterator[Guess]:
    """A reshape in the place of a transpose, or without the transpose before it."""
    operand, result = b.get("self"), b.result
    if not isinstance(operand, torch.Tensor) or not isinstance(result, torch.Tensor):
        return
    name = b.node.op.split(".")[1]
    if name in ("transpose", "permute", "t") and operand.numel() == result.numel():
        text = "it is reshaped where the model transposes"
        yield Guess("heads", text, lambda: operand.reshape(result.shape))
    if name in ("view", "reshape", "_unsafe_view", "flatten") and operand.ndim > 2:
        for first, second in itertools.combinations(range(operand.ndim), 2):
            text = f"axes {first} and {second} are transposed before it is reshaped"
            yield Guess(
                "heads", text, lambda f=first, s=second: operand.transpose(f, s).reshape(result.shape)
            )
    if name in ("view", "reshape") and result.ndim > operand.ndim:
        for first, second in itertools.combinations(range(result.ndim), 2):
            shape = list(result.shape)
            shape[first], shape[second] = shape[second], shape[first]
            text = f"axes {first} and {second} of the result are split the other way round"
            yield Guess(
                "heads",
                text,
                lambda s=shape, f=first, c=second: operand.reshape(s).transpose(f, c),
            )


_FAMILIES: list[tuple[str, tuple[str, ...]]] = [
    (
        "activation",
        ("relu", "gelu", "silu", "sigmoid", "tanh", "leaky_relu", "elu", "hardswish", "hardsigmoid", "mish",
         "softplus", "relu6", "hardtanh", "selu"),
    ),
    ("pad_mode", ("constant_pad_nd", "reflection_pad1d", "replication_pad1d")),
    ("pad_mode", ("constant_pad_nd", "reflection_pad2d", "replication_pad2d")),
    ("operation", ("add", "sub", "mul", "div", "maximum", "minimum")),
    ("operation", ("mean", "sum", "amax", "amin")),
    ("operation", ("max_pool2d", "avg_pool2d")),
    ("comparison", ("lt", "le", "gt", "ge", "eq", "ne")),
    ("rounding_mode", ("floor", "ceil", "round", "trunc")),
    ("causal", ("tril", "triu")),
    ("rotary", ("sin", "cos")),
]  # fmt: skip
"""Operations that are taken for each other, of one signature."""


@source
def another_operation(b: Bound) -> Iterator[Guess]:
    _, name, overload = b.node.op.split(".")
    for kind, family in _FAMILIES:
        if name in family:
            for other in family:
                if other != name:
                    text = f"it is {other} where the model has {name}"
                    yield Guess(kind, text, lambda other=other, o=overload: _as_another(b, other, o))
    if name == "relu":
        text = "it is leaky_relu with a slope of {value} where the model has relu"
        leaky = torch.nn.functional.leaky_relu
        yield Guess("activation", text, lambda x: leaky(b["self"], x), (1e-6, 1.0))


def _as_another(b: Bound, name: str, overload: str) -> Any:
    packet = getattr(torch.ops.aten, name)
    chosen = getattr(packet, overload if overload in packet.overloads() else packet.overloads()[0])
    known = {argument.name for argument in chosen._schema.arguments}
    return chosen(**{key: value for key, value in b.args.items() if key in known})


@source
def another_interpolation(b: Bound) -> Iterator[Guess]:
    name = b.node.op.split(".")[1]
    if not name.startswith(("upsample_", "_upsample_")):
        return
    for mode in ("nearest", "bilinear", "bicubic", "linear", "trilinear", "area", "nearest-exact"):
        for corners in (False, True) if mode.endswith(("linear", "cubic")) else (None,):
            text = f"the interpolation is {mode}" + (" with align_corners" if corners else "")
            kind = "interpolation" if mode not in name else "align_corners"
            yield Guess(kind, text, lambda m=mode, c=corners: _interpolated(b, m, c))


def _interpolated(b: Bound, mode: str, corners: bool | None) -> torch.Tensor:
    operand: torch.Tensor = b.get("self") if b.get("self") is not None else b["input"]
    size = b.result.shape[2:]
    return torch.nn.functional.interpolate(operand, size=tuple(size), mode=mode, align_corners=corners)


@source
def operand_alone(b: Bound) -> Iterator[Guess]:
    """The operation is missing, or one side of it: what comes out is one of the operands."""
    if not isinstance(b.result, torch.Tensor):
        return
    several = len(b.tensors) > 1
    for name, operand in b.tensors.items():
        if operand.shape == b.result.shape:
            left = [b.called(other) for other in b.tensors if other != name]
            text = f"{' and '.join(left)} left out" if several else f"{b.node.op.split('.')[1]} is left out"
            kind = "dropped_operand" if several else "dropped_operation"
            yield Guess(kind, text, lambda operand=operand: operand)


@source
def broadcast(b: Bound) -> Iterator[Guess]:
    """An operand with fewer axes, lined up with other axes."""
    for first, second in (("self", "other"), ("other", "self")):
        big, small = b.get(first), b.get(second)
        if not isinstance(big, torch.Tensor) or not isinstance(small, torch.Tensor) or big.ndim < 2:
            continue
        axes = [size for size in small.shape if size > 1]
        if not axes or len(axes) >= big.ndim:
            continue
        for places in itertools.combinations(range(big.ndim), len(axes)):
            if [big.shape[place] for place in places] == axes:
                shape = [1] * big.ndim
                for place, size in zip(places, axes, strict=True):
                    shape[place] = size
                text = f"{second} is lined up with axis {', '.join(map(str, places))} of {first}"
                yield Guess("broadcast", text, lambda n=second, v=small, s=shape: b(**{n: v.reshape(s)}))


@source
def half(b: Bound) -> Iterator[Guess]:
    """Computed in half precision."""
    for dtype in (torch.float16, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")

        def narrow(value: Any, dtype: torch.dtype = dtype) -> Any:
            if isinstance(value, torch.Tensor) and value.dtype == torch.float32:
                return value.to(dtype)
            return [narrow(item) for item in value] if isinstance(value, list) else value

        def computed(narrow: Callable[[Any], Any] = narrow) -> Any:
            result = b.overload(**{key: narrow(value) for key, value in b.args.items()})
            return result.to(b.result.dtype)

        if isinstance(b.result, torch.Tensor) and b.result.dtype == torch.float32:
            yield Guess("half", f"it is computed in {name}", computed)
            for key, value in b.tensors.items():
                if value.dtype == torch.float32:
                    text = f"{key} is rounded to {name}"
                    yield Guess("half", text, lambda k=key, v=value, d=dtype: b(**{k: v.to(d).to(v.dtype)}))
            yield Guess("half", f"the result is rounded to {name}", lambda d=dtype: b.result.to(d).float())


@source
def channels_last(b: Bound) -> Iterator[Guess]:
    """An image read as if its channels came last."""
    for name in ("self", "input"):
        image = b.get(name)
        if isinstance(image, torch.Tensor) and image.ndim == 4:
            batch, channels, height, width = image.shape
            other = image.reshape(batch, height, width, channels).permute(0, 3, 1, 2).contiguous()
            text = f"{name} is read with its channels last"
            yield Guess("channels_last", text, lambda n=name, v=other: b(**{n: v}))


def scaled(b: Bound) -> Iterator[Guess]:
    """The whole result times a number: what is said when nothing tells why."""
    if isinstance(b.result, torch.Tensor) and b.result.is_floating_point():
        yield Guess(
            "scale", "the result is {value} times what it should be", lambda x: b.result * x, (1e-4, 1e4)
        )


def _others(tried: list[list[int]], value: list[int]) -> Iterator[list[int]]:
    seen = [value]
    for other in tried:
        if other not in seen and min(other, default=0) >= 0:
            seen.append(other)
            yield other
