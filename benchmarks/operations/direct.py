"""Samples of operations that torch's database never calls: each is called by its own name, as a graph has it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from torchport.capture.operations import always_draws_random_numbers
from torchport.targets.candle.registry import OPS

from .sample import Sample

_FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_WIDE = (torch.float32, torch.float64)
_INTEGERS = (torch.int64, torch.int32, torch.uint8)
_BITS = (*_INTEGERS, torch.bool)
_ELSEWHERE = {
    **dict.fromkeys(("aten.new_empty.default", "aten.empty_strided.default"), "its elements are undefined"),
    "aten.clone.default": "a capture leaves it only in bodies of torch.cond and the like, which other tests have",
    "aten.conj_physical.default": "torch.export writes it as aten._conj_physical.default",
}
_RANDOM = "its numbers are random: what becomes of them is tested with ports"

_Made = Iterator[tuple[str, *tuple[Any, ...]]]


def elsewhere() -> dict[str, str]:
    """The operations of the table that no sample has, and why."""
    return {**dict.fromkeys(filter(always_draws_random_numbers, OPS), _RANDOM), **_ELSEWHERE}


def direct() -> Iterator[Sample]:
    torch.manual_seed(0)
    importlib.import_module("transformers.integrations.moe")  # It registers an operation.
    for make in (
        _bits,
        _numbers,
        _resizing,
        _padding,
        _pooling,
        _norms,
        _complex,
        _recurrent,
        _counting,
        _others,
    ):
        for number, (name, *args) in enumerate(make()):
            tensor = next((arg for arg in args if isinstance(arg, Tensor)), torch.zeros(()))
            label = f"direct {make.__name__[1:]} {number}"
            options = args.pop() if isinstance(args[-1], dict) else {}
            yield Sample(name, tensor.dtype, label, _function(name), tuple(args), options)


def _function(name: str) -> Callable[..., Any]:
    """Operations by their full names: each takes what that before gives, and `[0]` is the first of several results."""
    words = name.split(" + ")

    def call(*args: Any, **options: Any) -> Any:
        given, rest = args, options
        for word in words:
            space, base, overload = word.removesuffix("[0]").split(".")
            result = getattr(getattr(getattr(torch.ops, space), base), overload)(*given, **rest)
            given, rest = (result[0] if word.endswith("[0]") else result,), {}
        return given[0]

    return call


def _randn(*shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> Tensor:
    return (torch.randn(shape, dtype=torch.float64) * scale).to(dtype)


def _whole(*shape: int, dtype: torch.dtype, high: int = 7) -> Tensor:
    return torch.randint(0, high, shape).to(dtype)


def _bits() -> _Made:
    for dtype in _BITS:
        x, y = _whole(3, 4, dtype=dtype), _whole(4, dtype=dtype)
        number: int | bool = True if dtype == torch.bool else 3
        for word in ("and", "or", "xor"):
            yield f"aten.__{word}__.Tensor", x, y
            yield f"aten.__{word}__.Scalar", x, number
            yield f"aten.bitwise_{word}.Scalar", x, number
            yield f"aten.bitwise_{word}.Scalar_Tensor", number, x
    for dtype in _INTEGERS:
        x, y = _whole(3, 4, dtype=dtype, high=200), _whole(3, 4, dtype=dtype)
        for word, side in (("lshift", "left"), ("rshift", "right")):
            yield f"aten.__{word}__.Tensor", x, y
            yield f"aten.__{word}__.Scalar", x, 2
            yield f"aten.bitwise_{side}_shift.Scalar_Tensor", 100, y
            yield f"aten.bitwise_{side}_shift.Tensor_Scalar", x, 3


def _numbers() -> _Made:
    """Operations on a tensor and a number."""
    for dtype in (*_FLOATS, *_INTEGERS):
        x = _randn(3, 5, dtype=dtype) if dtype.is_floating_point else _whole(3, 5, dtype=dtype, high=100)
        for number in (3, 7) if dtype == torch.uint8 else (3, -7) if dtype in _INTEGERS else (0.7, -2.5):
            yield "aten.floor_divide.Scalar", x, number
            yield "aten.fmod.Scalar", x, number
            yield "aten.remainder.Scalar_Tensor", number, x + 101 if dtype in _INTEGERS else x
            for mode in (None, "floor", "trunc"):
                yield "aten.div.Scalar_mode", x, number, {"rounding_mode": mode}
            yield "aten.clamp_max.default", x, number
        yield "aten.fill.Tensor", x, torch.tensor(3, dtype=dtype)
        yield "aten.xlogy.Scalar_Other", x, 2.5
        yield "aten.xlogy.Scalar_Self", 1.5, x
        yield "aten.special_xlog1py.other_scalar", x, 2.5
        yield "aten.special_xlog1py.self_scalar", 1.5, x
        bounds = x.flatten().sort().values
        for right in (False, True):
            yield "aten.searchsorted.Scalar", bounds, 2, {"right": right}
            yield "aten.bucketize.Scalar", 2, bounds, {"right": right}
    for dtype in _FLOATS:
        x = torch.tensor([0.0, -0.0, 1.5, -2.5, float("inf"), -float("inf")], dtype=dtype)
        for number in (2.0, -0.0, -3.5):
            yield "aten.copysign.Scalar", x, number


def _resizing() -> _Made:
    for dtype in _WIDE:
        for align in (False, True):
            yield "aten.upsample_linear1d.default", _randn(2, 3, 5, dtype=dtype), [8], align
            yield "aten.upsample_trilinear3d.default", _randn(1, 2, 3, 4, 5, dtype=dtype), [5, 3, 7], align
            for way in ("bicubic", "bilinear"):
                for size in ([9, 4], [3, 11]):
                    yield f"aten._upsample_{way}2d_aa.default", _randn(1, 2, 5, 7, dtype=dtype), size, align
                yield f"aten._upsample_{way}2d_aa.vec", _randn(1, 2, 5, 7, dtype=dtype), [9, 4], align, None
        for axes in (1, 2, 3):
            x = _randn(1, 2, *(5, 4, 3)[:axes], dtype=dtype)
            yield f"aten.upsample_nearest{axes}d.default", x, [7, 3, 5][:axes]
        yield "aten.upsample_nearest3d.vec", _randn(1, 2, 3, 4, 5, dtype=dtype), None, [2.0, 1.5, 0.7]


def _padding() -> _Made:
    for dtype in _FLOATS:
        for axes in (1, 2, 3):
            x, sides = _randn(2, 3, *(6, 5, 4)[:axes], dtype=dtype), [1, 2, 0, 3, 2, 1][: 2 * axes]
            yield f"aten.reflection_pad{axes}d.default", x, sides
            yield f"aten.replication_pad{axes}d.default", x, sides
            yield f"aten.replication_pad{axes}d.default", x, [-1, *sides[1:]]


def _pooling() -> _Made:
    for dtype in _FLOATS:
        yield "aten._adaptive_avg_pool2d.default", _randn(2, 3, 7, 5, dtype=dtype), [3, 2]
        yield "aten._adaptive_avg_pool3d.default", _randn(2, 3, 7, 5, 4, dtype=dtype), [3, 2, 4]
        x, w, b = (_randn(*shape, dtype=dtype) for shape in ((2, 4, 6, 7), (6, 2, 3, 3), (6,)))
        for padding in ("same", "valid"):
            yield "aten.conv2d.padding", x, w, b, [1, 1], padding, [1, 2], 2
        yield "aten.convolution.default", x, w, b, [2, 1], [1, 0], [1, 2], False, [0, 0], 2
        turned = _randn(4, 3, 3, 3, dtype=dtype)
        yield "aten.convolution.default", x, turned, None, [2, 2], [1, 1], [1, 1], True, [1, 0], 2
        flat, thin = x.flatten(2), _randn(5, 4, 3, dtype=dtype)
        yield "aten.convolution.default", flat, thin, None, [1], [2], [2], False, [0], 1

        for axes in (1, 2, 3):
            x = _randn(2, 3, *(6, 5, 4)[:axes], dtype=dtype)
            yield f"aten.max_pool{axes}d.default", x, [2] * axes, [1] * axes, [1] * axes
        yield "aten.conv3d.default", _randn(1, 2, 4, 5, 3, dtype=dtype), _randn(3, 2, 2, 3, 1, dtype=dtype)


def _norms() -> _Made:
    for dtype in _FLOATS:
        x = _randn(4, 6, dtype=dtype, scale=3.0)
        for dim in (1, 0):
            yield "aten._softmax.default", x, dim, False
            yield "aten._log_softmax.default", x, dim, False
            yield "aten.norm_except_dim.default", x, 2, dim
            sizes = [1, 1]
            sizes[dim] = x.shape[dim]
            yield "aten._weight_norm_interface.default[0]", x, _randn(*sizes, dtype=dtype), dim
        yield "aten.median.dim", x, 1, True
        yield "aten._prelu_kernel.default", x, _randn(1, 6, dtype=dtype)
    for dtype in _WIDE:
        x, w = _randn(4, 6, 5, dtype=dtype, scale=3.0), _randn(6, dtype=dtype)
        yield "aten._native_batch_norm_legit.no_stats[0]", x, w, w * 2, True, 0.1, 1e-5


def _complex() -> _Made:
    """Complex numbers come from pairs of real ones and end as such, as they do in a port."""
    for dtype in _WIDE:
        x, y = _randn(3, 8, dtype=dtype), _randn(3, 8, dtype=dtype)
        pairs = "aten.view_as_complex.default"
        real = "aten.view_as_real.default"
        yield f"aten.complex.default + {real}", x, y
        yield f"aten.polar.default + {real}", x.abs(), y
        yield f"{pairs} + aten._conj_physical.default + {real}", x.view(3, 4, 2)
        for normalization in (0, 1, 2):
            yield f"aten._fft_r2c.default + {real}", x, [1], normalization, True
            yield f"aten._fft_r2c.default + {real}", x, [1], normalization, False
        yield "aten._neg_view.default", x
    yield "aten.fft_fftfreq.default", 9, 0.5
    yield "aten.fft_rfftfreq.default", 8, 0.25


def _recurrent() -> _Made:
    for dtype in _FLOATS:
        for name, gates in (("rnn_tanh", 1), ("rnn_relu", 1), ("gru", 3), ("lstm", 4)):
            for both in (False, True):
                ways = 1 + both
                shapes = [(gates * 5, 3), (gates * 5, 5), (gates * 5,), (gates * 5,)] * ways
                weights = [_randn(*shape, dtype=dtype, scale=0.4) for shape in shapes]
                x, state = _randn(4, 2, 3, dtype=dtype), _randn(ways, 2, 5, dtype=dtype)
                start = [state, state * 0.5] if name == "lstm" else state
                yield f"aten.{name}.input", x, start, weights, True, 1, 0.0, False, both, False


def _counting() -> _Made:
    """Operations whose result has as many elements as the data say."""
    for dtype in (*_FLOATS, *_INTEGERS, torch.bool):
        x = _whole(3, 5, dtype=dtype, high=4)
        mask = torch.arange(15).view(3, 5) % 3 > 0
        yield "aten.masked_select.default", x, mask
        yield "aten.nonzero.default", x
        if dtype not in (torch.float16, torch.bool):
            yield "aten.unique_consecutive.default", x.flatten(), True, True
            yield "aten._unique2.default", x, True, True, True
        yield "aten.repeat_interleave.self_Tensor", x, torch.tensor([2, 0, 1]), 0
        if dtype in _INTEGERS:
            yield "aten.bincount.default", x.flatten(), None, 9
    for dtype in (torch.int64, torch.int32):
        yield "aten.repeat_interleave.Tensor", torch.tensor([2, 0, 3], dtype=dtype)
    yield "aten.bincount.default", torch.tensor([1, 3, 1]), torch.tensor([0.5, 2.0, 1.5]), 2


def _others() -> _Made:
    index = torch.tensor([[0, 2, 1], [2, 0, 0]])
    for dtype in (*_FLOATS, torch.int64, torch.int32):
        x = _randn(3, 4, dtype=dtype, scale=3.0)
        for way in ("add", "multiply"):
            yield "aten.scatter.reduce", x, 0, index, x[:2, :3] * 2, {"reduce": way}
            yield "aten.scatter.value_reduce", x, 0, index, 3, {"reduce": way}
    for dtype in _FLOATS:
        table, words, starts = (
            _randn(9, 4, dtype=dtype),
            torch.tensor([1, 8, 0, 2, 2]),
            torch.tensor([0, 2, 2]),
        )
        for mode in (0, 1, 2):
            yield "aten._embedding_bag.default[0]", table, words, starts, False, mode
        yield "aten.sort.stable", table, {"stable": True, "dim": 0, "descending": True}
        yield "aten.argsort.stable", table, {"stable": True, "dim": 0}
        yield "aten.native_dropout.default[0]", table, 0.5, False
    ends = torch.tensor([3, 3, 8], dtype=torch.int32)
    x, w = _randn(8, 16, dtype=torch.bfloat16), _randn(3, 16, 8, dtype=torch.bfloat16)
    yield "aten._grouped_mm.default", x, w, ends
    yield "transformers.grouped_mm_fallback.default", x.float(), w.float(), ends
