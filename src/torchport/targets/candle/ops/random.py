"""Operations that draw random numbers, from candle's generator: the numbers are others on each run."""

from __future__ import annotations

from torchport.targets.candle.arguments import Args
from torchport.targets.candle.code import Code, Piece, call
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.operands import dtype_word, number
from torchport.targets.candle.registry import op


def _drawn(e: Emitter, a: Args, function: str, *numbers: Piece) -> Code:
    """Numbers of the shape and dtype of the result. Of a tensor beside it only these count."""
    a.ignore("size", "dtype", "self")
    sizes, dtype = e.sizes_list(a.output.shape), dtype_word(a.output.dtype)
    return call(f"ops::{function}", *numbers, sizes, dtype, e.device())


@op("aten.rand.default", "aten.rand_like.default")
def rand(e: Emitter, a: Args) -> Code:
    return _drawn(e, a, "rand")


@op("aten.randn.default", "aten.randn_like.default")
def randn(e: Emitter, a: Args) -> Code:
    return _drawn(e, a, "randn")


@op("aten.randint.default", "aten.randint.low", "aten.randint_like.default", "aten.randint_like.low_dtype")
def randint(e: Emitter, a: Args) -> Code:
    bounds = [number(e, a.get("low", 0), "low", "i64"), number(e, a["high"], "high", "i64")]
    return _drawn(e, a, "randint", *bounds)


@op("aten.randperm.default")
def randperm(e: Emitter, a: Args) -> Code:
    a.ignore("dtype")
    return call("ops::randperm", number(e, a["n"], "n", "usize"), dtype_word(a.output.dtype), e.device())


@op("aten.normal.float_float", "aten.normal_functional.default")
def normal(e: Emitter, a: Args) -> Code:
    return _drawn(e, a, "normal", *(number(e, a[name], name) for name in ("mean", "std")))


@op("aten.uniform.default")
def uniform(e: Emitter, a: Args) -> Code:
    return _drawn(e, a, "uniform", *(number(e, a[name], "bound") for name in ("from", "to")))


@op("aten.exponential.default")
def exponential(e: Emitter, a: Args) -> Code:
    return _drawn(e, a, "exponential", number(e, a["lambd"], "lambd"))


@op("aten.normal.Tensor_float", "aten.normal.float_Tensor", "aten.normal.Tensor_Tensor")
def normal_of(e: Emitter, a: Args) -> Code:
    return call("ops::normal_of", *(_spread(e, a, name) for name in ("mean", "std")))


def _spread(e: Emitter, a: Args, name: str) -> Code:
    """A tensor, or a number as a tensor without axes."""
    if not isinstance(a[name], int | float):
        return e.ref(a[name])
    other = a["std" if name == "mean" else "mean"]
    e.name_if_expression(other)
    value = number(e, a[name], name)
    return call("ops::full", "&[]", value, dtype_word(e.meta(other).dtype), e.device_of(other)).borrowed


@op("aten.bernoulli.default", "aten.bernoulli.Tensor")
def bernoulli(e: Emitter, a: Args) -> Code:
    share = e.ref(a["p"] if "p" in a else a["self"])
    return call("ops::bernoulli_of", share, e.sizes_list(a.output.shape), dtype_word(a.output.dtype))


@op("aten.bernoulli.p")
def bernoulli_p(e: Emitter, a: Args) -> Code:
    return _drawn(e, a, "bernoulli", number(e, a["p"], "p"))


@op("aten.multinomial.default")
def multinomial(e: Emitter, a: Args) -> Code:
    count = number(e, a["num_samples"], "num_samples", "usize")
    return call("ops::multinomial", e.ref(a["self"]), count, a["replacement"])
