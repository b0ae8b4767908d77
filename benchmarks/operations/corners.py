"""Samples of our own: corners in which an operation once differed from torch, and what torch's database lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .sample import Sample

_HALVES = (torch.bfloat16, torch.float16)
_FLOATS = (torch.float32, torch.float64, *_HALVES)
_INTEGERS = (torch.int64, torch.int32, torch.uint8)


def corners() -> Iterator[Sample]:
    torch.manual_seed(0)
    for make in (
        _norms,
        _spreads,
        _resizing,
        _logic,
        _zeros,
        _limits,
        _shapes,
        _products,
        _ties,
        _conversions,
        _ranks,
        _refused,
    ):
        for number, (name, function, *args) in enumerate(make()):
            tensor = next(arg for arg in args if isinstance(arg, Tensor))
            label = f"corner {make.__name__[1:]} {number}"
            yield Sample(
                name,
                tensor.dtype,
                label,
                function,
                tuple(args),
                {},
                raises=Exception if make is _refused else None,
            )


_Made = Iterator[tuple[str, Callable[..., Any], *tuple[Any, ...]]]


def _randn(*shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> Tensor:
    return (torch.randn(shape, dtype=torch.float64) * scale).to(dtype)


def _norms() -> _Made:
    for dtype in _FLOATS:
        yield "nn.functional.rms_norm", lambda x: F.rms_norm(x, (16,)), _randn(9, 16, dtype=dtype, scale=1e-2)
        yield "nn.functional.rms_norm", lambda x: F.rms_norm(x, (16,), eps=1e-3), _randn(9, 16, dtype=dtype)


def _spreads() -> _Made:
    for dtype in _FLOATS:
        x = _randn(40, 30, dtype=dtype, scale=3.0)
        yield "std", lambda x: x.std(1), x
        yield "std", lambda x: torch.std_mean(x, 0, correction=0, keepdim=True), x
        yield "var", lambda x: x.var(dim=1), x
        yield "var", lambda x: torch.var_mean(x, ()), x


def _resizing() -> _Made:
    for size, scale in ((5, 2.1), (5, 1.05), (4, 2.3), (7, 0.6), (10, 2.0), (5, 2.19), (3, 2.3)):
        for mode in ("nearest", "nearest-exact", "linear"):
            x = _randn(1, 2, size)
            yield (
                "nn.functional.interpolate",
                lambda x, s=scale, m=mode: F.interpolate(x, scale_factor=s, mode=m),
                x,
            )
        x = _randn(1, 2, size, size + 1)
        for mode in ("nearest", "bilinear", "bicubic"):
            yield (
                "nn.functional.interpolate",
                lambda x, s=scale, m=mode: F.interpolate(x, scale_factor=(s, 1.5), mode=m),
                x,
            )


def _logic() -> _Made:
    x = torch.tensor([[0.0, 1.0, -0.0], [float("nan"), 0.0, 2.0]])
    for dtype in (torch.float32, torch.int64, torch.bool):
        for dims in ((), (0,), (0, 1), None):
            yield "any", lambda x, d=dims: torch.any(x, dim=d), x.nan_to_num().to(dtype)
            yield "all", lambda x, d=dims: torch.all(x, dim=d), x.nan_to_num().to(dtype)
    yield "any", lambda x: torch.any(x, dim=()), x


def _zeros() -> _Made:
    for dtype in _FLOATS:
        x = torch.tensor([0.0, -0.0, 1.0, -1.0, float("inf"), 1e-40], dtype=dtype)
        for factor in (2.0, -2.0, 0.0, -0.0, 3, 0.1):
            yield "mul", lambda x, f=factor: x * f, x
            yield "add", lambda x, f=factor: x + f, x
            yield "sub", lambda x, f=factor: x - f, x
            yield "sub", lambda x, f=factor: f - x, x
            yield "div", lambda x, f=factor: x / f, x
        yield "atan2", lambda x: torch.atan2(x * 2.0, x * 0.5), x
        yield (
            "addmm",
            lambda x: torch.addmm(x, x[:, None], x[None], alpha=-2.0, beta=0.5),
            x.nan_to_num(0, 1, 1),
        )


def _limits() -> _Made:
    huge = torch.tensor([2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 0])
    for low, high in ((2**53 + 1, None), (None, 2**53 + 1), (-(2**53) - 1, 2**62 + 1), (5, 2), (-1.5, 2)):
        yield "clamp", lambda x, a=low, b=high: x.clamp(a, b), huge
    for dtype in (torch.int32, torch.uint8):
        x = torch.tensor([0, 3, 100, 255], dtype=dtype)
        for low, high in ((2, 6), (-1, None), (7, 3), (True, None)):
            yield "clamp", lambda x, a=low, b=high: x.clamp(a, b), x
        yield "nn.functional.relu6", F.relu6, x
    numbers = [float("nan"), -0.0, 0.0, 1.0, -2.0, float("inf"), -float("inf"), 0.3]
    for dtype in _FLOATS:
        x = torch.tensor(numbers, dtype=dtype)
        for low, high in (
            (float("nan"), None),
            (None, float("nan")),
            (float("nan"), 1.0),
            (0.0, None),
            (0.1, 0.3),
        ):
            yield "clamp", lambda x, a=low, b=high: x.clamp(a, b), x
        yield "clamp", lambda x: x.clamp(x.flip(0), x + 1), x
        yield "nn.functional.hardtanh", lambda x: F.hardtanh(x, -0.1, 0.3), x
        yield "nn.functional.relu6", F.relu6, x


def _shapes() -> _Made:
    for shape in ((0, 3), (3, 0), (2, 0, 4), (2, 4, 0)):
        yield "tril", lambda x: x.tril(1), torch.zeros(shape)
        yield "triu", lambda x: x.triu(-1), torch.zeros(shape)
    for dtype in (torch.float32, torch.int64, torch.bool, torch.bfloat16):
        x = torch.arange(60).reshape(3, 20).to(dtype)
        for size, step in ((3, 1), (4, 3), (20, 1), (1, 7), (0, 2)):
            yield "unfold", lambda x, n=size, s=step: x.unfold(1, n, s), x
    yield "unfold", lambda x: x.unfold(0, 1, 2)[-3:].clone(), torch.zeros((1 << 24) + 3, dtype=torch.uint8)
    yield "unfold", lambda x: x.unfold(0, 1, 1), torch.tensor(3.0)


def _products() -> _Made:
    for dtype in _INTEGERS:
        a, b = (torch.randint(0, 100, shape).to(dtype) for shape in ((4, 5), (5, 6)))
        yield "matmul", lambda a, b: a @ b, a, b
        yield "matmul", lambda a, b: torch.stack([a, a]) @ b, a, b
        yield "mv", lambda a, b: a @ b[:, 0], a, b
        yield "addmm", lambda a, b: torch.addmm(b[0], a, b, beta=2, alpha=3), a, b
        yield "nn.functional.linear", lambda a, b: F.linear(a, b.t().clone(), b[0]), a, b
        yield "matmul", lambda a, b: a[:, :0] @ b[:0], a, b
    for dtype in _HALVES:
        a, b, c = (_randn(*shape, dtype=dtype, scale=4.0) for shape in ((16, 8), (8, 12), (16, 12)))
        yield "addmm", torch.addmm, c, a, b
        yield "addmm", lambda c, a, b: torch.addmm(c, a, b, beta=0.3, alpha=1.7), c, a, b
        yield "baddbmm", lambda c, a, b: torch.baddbmm(c[None], a[None], b[None]), c, a, b
        yield "addmv", lambda c, a, b: torch.addmv(c[:, 0], a, b[:, 0]), c, a, b
    nan = torch.full((3, 4), float("nan"))
    yield "addmm", lambda c, a, b: torch.addmm(c, a, b, beta=0), nan, _randn(3, 5), _randn(5, 4)


def _ties() -> _Made:
    for count, size in ((3, 10), (10, 10), (40, 100), (2, 200), (3, 500), (100, 3000), (1, 70)):
        for dtype in (torch.int64, torch.float32, torch.bfloat16):
            x = torch.randint(0, 9, (4, size)).to(dtype)
            if dtype.is_floating_point:
                x[:, size // 2] = float("nan")
            for largest in (True, False):
                for ordered in (True, False):
                    yield (
                        "topk",
                        lambda x, k=count, a=largest, s=ordered: x.topk(k, largest=a, sorted=s),
                        x,
                    )
        yield "topk", lambda x, k=count: x.topk(k, dim=0), _randn(size, 3)
    x = torch.randint(0, 5, (6, 50))
    for descending in (True, False):
        yield "sort", lambda x, d=descending: x.sort(1, descending=d), x
        yield "argsort", lambda x, d=descending: x.argsort(0, descending=d), x
    yield "max.dim", lambda x: x.max(1), x
    yield "min.dim", lambda x: x.min(0), x
    yield "argmax", lambda x: x.argmax(1), x
    yield "argmin", lambda x: x.argmin(), x


def _conversions() -> _Made:
    near = [
        1 + 2**-8 + 2**-30,
        1 + 2**-8 - 2**-30,
        1 + 2**-11 + 2**-30,
        1 + 2**-24 + 2**-50,
        1e300,
        65520.0,
        1e-45,
    ]
    for dtype in (torch.float64, torch.float32, *_HALVES):
        x = torch.tensor([*near, -0.0, float("nan"), float("inf"), -1.0, 300.0, 3e9, 1e-8], dtype=dtype)
        for to in (*_FLOATS, *_INTEGERS, torch.bool, torch.int16):
            wild = not to.is_floating_point and to != torch.bool
            given = x.nan_to_num(0, 9, -9).clamp(-1e4, 1e4) if wild else x
            given = given.abs() if to == torch.uint8 else given
            yield "to", lambda x, t=to: x.to(t), given.clamp(max=200) if to == torch.uint8 else given
    x = torch.tensor([2**24 + 1 + (1 << 40), 2**53 + 1, 257 * 2**16 + 1, (1 << 24) + (1 << 15) + 1, -(2**63)])
    for dtype in _INTEGERS:
        for to in (*_FLOATS, *_INTEGERS, torch.bool, torch.int16):
            yield "to", lambda x, t=to: x.to(t), x.to(dtype)


def _ranks() -> _Made:
    near = torch.tensor([2**53, 2**53 + 1, 2**53 + 1, 2**53 + 2])
    yield "mode", lambda x: x.mode(), near
    yield "mode", lambda x: x[:, None].mode(0), near
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        nothing = torch.zeros(0, 3, dtype=dtype)
        yield "median", torch.median, nothing
        yield "nanmedian", torch.nanmedian, nothing
        x, source = torch.tensor(3, dtype=dtype), torch.tensor(5, dtype=dtype)
        for way in ("mean", "prod", "amax"):
            yield (
                "index_reduce",
                lambda x, y, i, w=way: x.index_reduce(0, i, y, w),
                x,
                source,
                torch.tensor([0]),
            )
    nothing = torch.zeros(0, 6)
    yield "narrow", lambda x: x.narrow(1, 2, 3) + 1, nothing
    yield "select", lambda x: x[:, 4] * 2, nothing
    yield "chunk", lambda x: [part.relu() for part in x.chunk(2, 1)], nothing


def _refused() -> _Made:
    """Values that torch refuses."""
    x, wide = _randn(4, 5), torch.tensor([[0, 1], [4, 2]])
    for index in (wide, torch.tensor([[0, -5], [1, 2]])):
        beyond = index + 4 * index.sign()
        yield "gather", lambda x, i: x.gather(0, i), x, index
        yield "scatter", lambda x, i: x.scatter(0, i, 1.5), x, index
        yield "scatter", lambda x, i: x.scatter(0, i, x[:2, :2] * 2), x, index
        yield "scatter_add", lambda x, i: x.scatter_add(0, i, x[:2, :2] * 2), x, index
        yield "scatter_reduce", lambda x, i: x.scatter_reduce(0, i, x[:2, :2] * 2, "amax"), x, index
        yield "index_select", lambda x, i: x.index_select(0, i[:, 1]), x, beyond
        yield "index_add", lambda x, i: x.index_add(0, i[1], x[:2] * 2), x, beyond
        yield "index_copy", lambda x, i: x.index_copy(0, i[1], x[:2] * 2), x, beyond
        yield "__getitem__", lambda x, i: x[i], x, beyond
        yield "index_put", lambda x, i: x.index_put((i,), x[0, 0]), x, beyond
        yield "nn.functional.embedding", lambda x, i: F.embedding(i, x), x, index
        yield "nn.functional.embedding_bag", lambda x, i: F.embedding_bag(i, x), x, index
        yield "nn.functional.one_hot", lambda i: F.one_hot(i, 4), index
    for dtype in _INTEGERS:
        a, b = torch.tensor([1, 2, 3], dtype=dtype), torch.tensor([1, 0, 2], dtype=dtype)
        yield "floor_divide", lambda a, b: a // b, a, b
        yield "remainder", lambda a, b: a % b, a, b
        yield "fmod", torch.fmod, a, b
        yield "div", lambda a, b: torch.div(a, b, rounding_mode="trunc"), a, b
        yield "div", lambda a: torch.div(a, 0, rounding_mode="floor"), a
