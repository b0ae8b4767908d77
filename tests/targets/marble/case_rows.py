"""A case for every operation that is one group, with the options that change its synapses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from tests.targets.marble.cases import Case, case, flags, ints, randn, weight
from torchport.targets.marble.groups import Kind
from torchport.targets.marble.recipes import RECIPES


def convolutions() -> Iterator[Case]:
    x1, x2, x3 = randn(2, 4, 9), randn(2, 4, 6, 7), randn(1, 2, 4, 5, 3)
    yield case("conv1d.default", x1, weight(6, 4, 3), weight(6), [2], [1], [2])
    yield case("conv2d.default", x2, weight(6, 4, 3, 2), weight(6), [2, 1], [1, 0], [1, 2])
    yield case("conv2d.default", x2, weight(6, 2, 3, 3), None, [1], [1], [1], 2, label="groups")
    yield case("conv2d.default", x2, weight(4, 1, 3, 3), None, [1], [1], [1], 4, label="depthwise")
    yield case("conv2d.default", x2[0], weight(2, 4, 3, 3), None, label="without a batch")
    yield case("conv3d.default", x3, weight(3, 2, 2, 3, 2), None, [1, 2, 1], [1, 1, 0], [1, 1, 2])
    yield case("conv2d.padding", x2, weight(6, 4, 2, 3), None, [1], "same")
    yield case("conv_transpose1d.default", x1, weight(4, 3, 3), weight(3), [3], [1], [2], 1, [2])
    yield case("conv_transpose2d.input", x2, weight(4, 3, 3, 2), weight(6), [2, 1], [1, 0], [1, 0], 2, [1, 2])
    yield case("conv_transpose3d.input", x3, weight(2, 2, 2, 2, 2), None, [2], [1], [1])


def pools() -> Iterator[Case]:
    x1, x2, x3 = randn(2, 3, 9), randn(2, 3, 7, 8), randn(1, 2, 5, 6, 4)
    yield case("max_pool1d.default", x1, [3], [2], [1], [2], True)
    yield case("max_pool2d.default", x2, [3, 2], [2, 3], [1, 0], [2, 1], True)
    yield case("max_pool2d.default", x2[0], [2], label="without a batch")
    yield case("max_pool3d.default", x3, [2, 3, 2], [2], [1, 0, 1])
    yield case("avg_pool1d.default", x1, [3], [2], [1], True)
    yield case("avg_pool2d.default", x2, [3, 2], [2, 3], [1, 0], True, True, label="padding counts")
    yield case("avg_pool2d.default", x2, [3, 2], [2, 2], [1, 1], True, False, label="padding does not count")
    yield case("avg_pool2d.default", x2, [3], [], [0], False, True, 5, label="divisor")
    yield case("avg_pool3d.default", x3, [2, 3, 2], [2], [1, 1, 0], True, False)
    yield case("adaptive_avg_pool1d.default", x1, [4])
    yield case("adaptive_avg_pool2d.default", x2, [3, 5])
    yield case("adaptive_avg_pool3d.default", x3, [2, 4, 1])
    yield case("adaptive_max_pool1d.default", x1, [4])
    yield case("adaptive_max_pool2d.default", x2, [3, 5])
    yield case("adaptive_max_pool3d.default", x3, [2, 4, 1])


def sums() -> Iterator[Case]:
    x = randn(3, 4, 5)
    yield case("linear.default", x, weight(6, 5), weight(6))
    yield case("linear.default", randn(5), weight(6, 5), label="of one row")
    yield case("add.Tensor", x, randn(4, 1), alpha=0.3)
    yield case("add.Tensor", x, weight(4, 5), label="bias")
    yield case("mul.Tensor", x, weight(5))
    yield case("add.Scalar", x, 0.1)
    yield case("add.Tensor", ints(9, 3, 4), 7, label="integers")
    yield case("add.Tensor", ints(9, 3, 4), randn(4), label="integers and floats")
    yield case("cumsum.default", x, 1)
    yield case("cumsum.default", randn(1)[0], 0, label="of one value")
    yield case("diff.default", x, 2, 1)
    yield case("diff.default", x, 1, -1, randn(3, 4, 2), randn(3, 4, 1), label="with ends")
    for corners in (False, True):
        yield case("upsample_linear1d.vec", randn(2, 3, 5), [8], corners, None, label=f"{corners}")
        yield case("upsample_bilinear2d.vec", randn(2, 3, 4, 5), [7, 3], corners, None, label=f"{corners}")
        yield case("upsample_bicubic2d.vec", randn(2, 3, 4, 5), [7, 9], corners, None, label=f"{corners}")
        yield case(
            "upsample_trilinear3d.vec", randn(1, 2, 3, 4, 2), [5, 3, 4], corners, None, label=f"{corners}"
        )
    yield case("upsample_bilinear2d.vec", randn(2, 3, 4, 5), None, False, [1.7, 0.6], label="scale")
    yield case("upsample_bicubic2d.vec", randn(2, 3, 4, 5), None, False, [1.7, 2.5], label="scale")
    yield case("upsample_linear1d.vec", randn(2, 3, 5), None, False, [2.3], label="scale")


def products_and_reductions() -> Iterator[Case]:
    x = randn(3, 4, 5)
    yield case("mul.Tensor", x, randn(4, 1), label="product")
    yield case("maximum.default", x, randn(5))
    yield case("minimum.default", x, randn(3, 1, 1))
    for name in ("sum.dim_IntList", "mean.dim", "amax.default", "amin.default"):
        yield case(name, x, [0, 2])
        yield case(name, x, [1], True, label="axis kept")
    yield case("sum.default", x)
    yield case("sum.default", randn(1)[0], label="of one value")
    yield case("sum.dim_IntList", ints(9, 3, 4), [1], label="integers")
    yield case("sum.default", flags(3, 4), label="flags")
    yield case("any.dim", flags(3, 4), 1)
    yield case("all.dim", flags(3, 4), 0, True)
    yield case("any.default", randn(1)[0], label="of one value")
    yield case("prod.default", x)
    yield case("prod.dim_int", x, 1, True)
    yield case("linalg_vector_norm.default", x, 2, [0, -1])
    yield case("linalg_vector_norm.default", x, 1)
    yield case("norm.ScalarOpt_dim", x, 3, [1], True)


def elementwise() -> Iterator[Case]:
    x, y = randn(3, 4, 5), randn(4, 1)
    for name in ["eq", "ne", "lt", "le", "gt", "ge", "remainder", "fmod"]:
        yield case(f"{name}.Tensor", x.round(), y.round())
    for name in ["logical_and", "logical_or", "logical_xor", "atan2"]:
        yield case(f"{name}.default", x, y)
    for name in ["bitwise_and", "bitwise_or", "bitwise_xor", "__and__", "__or__", "__xor__"]:
        yield case(f"{name}.Tensor", ints(9, 3, 4), ints(7, 4))
    yield case("floor_divide.default", x, y)
    yield case("div.Tensor_mode", x, y, rounding_mode="trunc")
    yield case("pow.Tensor_Tensor", x.abs(), y)
    yield case("where.self", flags(4, 5), x, y)
    yield case("where.ScalarSelf", flags(4, 5), 1.5, x)
    yield case("where.ScalarOther", flags(4, 5), x, 1.5)
    yield case("masked_fill.Scalar", x, flags(4, 1), -1e9)
    yield case("masked_fill.Tensor", x, flags(4, 1), randn(1)[0])


def selections() -> Iterator[Case]:
    x = randn(3, 4, 5)
    yield case("gather.default", x, 1, ints(4, 2, 6, 3))
    yield case("index_select.default", x, -1, ints(5, 7))
    yield case("embedding.default", randn(9, 4), ints(9, 2, 3))
    yield case("argmax.default", x)
    yield case("argmax.default", x, 1, True, label="along")
    yield case("argmin.default", x, 1)
    yield case("topk.default", x, 2, 1)
    yield case("topk.default", x, 2, label="last axis")
    yield case("sort.default", x, 1, True)
    yield case("sort.stable", x.round(), stable=True, dim=1)
    yield case("argsort.default", x, 0)
    yield case("argsort.stable", x.round(), stable=True, dim=1)
    yield case("max.dim", x, 1)
    yield case("min.dim", x, -1, True)
    yield case("one_hot.default", ints(5, 2, 3), 6)
    yield case("bucketize.Tensor", x, randn(6).sort().values)
    yield case("searchsorted.Tensor", randn(3, 6).sort().values, randn(3, 2))
    yield case("grid_sampler_2d.default", randn(2, 3, 4, 5), randn(2, 3, 6, 2) / 2, 0, 0, False)
    yield case("index.Tensor", x, [ints(3, 6), ints(4, 6)])
    yield case("_unsafe_index.Tensor", x, [ints(3, 2, 1), ints(4, 6)])
    yield case("index_put.default", x, [ints(3, 2)], randn(2, 4, 5))
    yield case("index_put.default", x, [ints(3, 2)], randn(2, 4, 5), True, label="accumulated")
    yield case("_unsafe_index_put.default", x, [torch.tensor([2, 0])], randn(2, 4, 5))
    yield case("scatter.src", x, 1, torch.arange(4)[None, :, None].flip(1), randn(1, 4, 1))
    yield case("scatter.value", x, 1, ints(4, 2, 3, 5), 0.5)
    yield case("scatter_add.default", x, 1, ints(4, 2, 3, 5), randn(2, 3, 5))
    yield case("scatter_reduce.two", x, 1, ints(4, 2, 3, 5), randn(2, 3, 5), "amax")
    yield case(
        "embedding_bag.padding_idx",
        randn(9, 4),
        ints(9, 6),
        torch.tensor([0, 2]),
        False,
        0,
        False,
        None,
        False,
        None,
    )
    yield case("_embedding_bag_forward_only.default", randn(9, 4), ints(9, 6), torch.tensor([0, 2]))


def others() -> Iterator[Case]:
    """Operations that groups built by hand may have."""
    x, y = randn(3, 4, 5), randn(4, 1)
    for name in ("fmax.default", "fmin.default", "hypot.default"):
        yield case(name, x, y, kind=Kind.REDUCTION)
    for name in ("__lshift__", "__rshift__", "bitwise_left_shift", "bitwise_right_shift"):
        yield case(f"{name}.Tensor", ints(9, 3, 4), ints(7, 4), kind=Kind.SELECTION)
    yield case("copysign.Tensor", x, y, kind=Kind.SELECTION)
    yield case("remainder.Scalar_Tensor", 2.5, x, kind=Kind.SELECTION)
    yield case("where.Scalar", flags(3, 4), 1.5, -2.0, kind=Kind.SELECTION)
    yield case("isin.Tensor_Tensor", x.round(), y.round(), kind=Kind.SELECTION)
    yield case("median.default", x, kind=Kind.SELECTION)
    yield case("median.dim", x, 1, kind=Kind.SELECTION)
    yield case("kthvalue.default", x, 2, 0, True, kind=Kind.SELECTION)
    yield case("cummax.default", x, 1, kind=Kind.SELECTION)
    yield case("cummin.default", x, -1, kind=Kind.SELECTION)
    yield case("masked_scatter.default", x, flags(4, 5), randn(60), kind=Kind.SELECTION)
    yield case("embedding_renorm.default", randn(9, 4), ints(9, 3), 0.5, 2.0, kind=Kind.SELECTION)
    bag = (randn(9, 4), ints(9, 6), torch.tensor([0, 2]))
    yield case("_embedding_bag.default", *bag, kind=Kind.SELECTION)
    for n in (2, 3):
        plane = randn(2, 3, *[5, 6, 4][:n])
        yield case(f"max_pool{n}d_with_indices.default", plane, [2], [2], [1], kind=Kind.SELECTION)
        yield case(f"_adaptive_avg_pool{n}d.default", plane, [3, 4, 2][:n], kind=Kind.REDUCTION)
    yield case("max_pool1d_with_indices.default", randn(2, 3, 9), [3], [2], [1], kind=Kind.SELECTION)
    yield case("cumprod.default", x, 1, kind=Kind.PRODUCT)
    yield case("logcumsumexp.default", x, 1, kind=Kind.REDUCTION)
    yield case("norm_except_dim.default", x, 2, 1, kind=Kind.REDUCTION)
    yield case("norm_except_dim.default", randn(5), 2, 0, kind=Kind.REDUCTION, label="of one axis")
    yield case("_cdist_forward.default", randn(2, 3, 4), randn(2, 5, 4), 2.0, None, kind=Kind.REDUCTION)
    yield case("_pdist_forward.default", randn(5, 4), 1.0, kind=Kind.REDUCTION)
    trio = (randn(3, 4), randn(5, 4), randn(3, 5))
    yield case("_trilinear.default", *trio, [1], [0], [2], [2], kind=Kind.PRODUCT)
    folded = {"kind": Kind.WEIGHTED_SUM}
    yield case("col2im.default", randn(2, 12, 15), [4, 5], [2, 2], [1, 2], [0, 1], [1, 1], **folded)
    yield case(
        "col2im.default", randn(12, 9), [5, 5], [3, 1], [1, 1], [1, 0], [2, 2], label="stride", **folded
    )


def functions() -> Iterator[Case]:
    x = randn(3, 4)
    own = {"pow.Tensor_Scalar": (x.abs(), 1.5), "pow.Scalar": (2.0, x), "round.decimals": (x,)}
    for name in sorted(names_of(Kind.FUNCTION) - WITHOUT_CASE):
        short = name.removeprefix("aten.")
        if short in own:
            yield case(short, *own[short], **({"decimals": 1} if "decimals" in short else {}))
        elif short.startswith(("bitwise", "__")):
            yield case(short, ints(9, 3, 4), *([5] if short.endswith("Scalar") else []))
        elif short in ("type_as.default", "to.other"):
            yield case(short, x, ints(3, 2))
        elif short.startswith(("to.dtype", "_to_copy")):
            yield case(short, x, dtype=torch.float32)
        else:
            yield case(short, *_call(short, x))


_NUMBERS: dict[str, tuple[Any, ...]] = {
    "clamp.default": (-0.5, 0.5),
    "clamp_min.default": (0.1,),
    "clamp_max.default": (0.1,),
    "threshold.default": (0.1, 7.0),
    "acosh.default": (),
}


def _call(short: str, x: Tensor) -> tuple[Any, ...]:
    if short in _NUMBERS:
        return x, *_NUMBERS[short]
    if short == "div.Scalar_mode":
        return x, 0.3, "floor"
    return (x, 0.25) if short.endswith(".Scalar") else (x,)


WITHOUT_CASE = frozenset({"aten.nonzero.default", "aten.to.device"})
"""Operations that torch does not do without values, so no recipe can make a group of them yet."""


def names_of(*kinds: Kind) -> set[str]:
    """The operations that are one group of some kinds each."""
    return {name for name, recipe in RECIPES.items() if _kind(recipe) in kinds}


def _kind(recipe: Callable[..., Any]) -> Kind | None:
    if recipe.__qualname__ != "_whole.<locals>.made":
        return None
    kinds = [cell.cell_contents for cell in recipe.__closure__ or () if isinstance(cell.cell_contents, Kind)]
    return kinds[0]


CASES = [
    *convolutions(),
    *pools(),
    *sums(),
    *products_and_reductions(),
    *elementwise(),
    *selections(),
    *others(),
    *functions(),
]
