"""Functions of `torch.special` and of whole numbers, and those of one or two tensors that networks use seldom."""

from __future__ import annotations

from functools import partial

from torchport.capture import graph as g
from torchport.capture.operations import arguments
from torchport.targets.candle.arguments import Args
from torchport.targets.candle.code import Code, call
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.operands import cast, operand
from torchport.targets.candle.registry import Several, op, register, rows

_UNARY = {
    **{f"{name}.default": name for name in ("erfinv", "lgamma", "digamma", "i0")},
    **{f"special_{name}.default": name for name in ("erfcx", "i0e", "i1", "i1e", "ndtri", "log_ndtr")},
    **{f"special_bessel_{name}.default": f"bessel_{name}" for name in ("j0", "j1", "y0")},
    **{
        f"special_modified_bessel_{name}.default": f"{'bessel_' if name[0] == 'k' else ''}{name}"
        for name in ("i0", "i1", "k0", "k1")
    },
    **{f"special_scaled_modified_bessel_{name}.default": f"scaled_bessel_{name}" for name in ("k0", "k1")},
    "special_spherical_bessel_j0.default": "spherical_bessel_j0",
}
_PAIRS = {
    "logaddexp.default": "logaddexp({self}, {other})",
    "logaddexp2.default": "logaddexp2({self}, {other})",
    "heaviside.default": "heaviside({self}, {values})",
    "nextafter.default": "nextafter({self}, {other})",
    "gcd.default": "gcd({self}, {other})",
    "lcm.default": "lcm({self}, {other})",
    "igamma.default": "igamma({self}, {other})",
    "igammac.default": "igammac({self}, {other})",
    "special_zeta.default": "zeta({self}, {other})",
    "polygamma.default": "polygamma({n:usize}, {self})",
}

for _name, _function in _UNARY.items():
    _argument = arguments(f"aten.{_name}")[0].name
    rows({f"aten.{_name}": f"ops::{_function}({{{_argument}}})?"}, promote=True)
rows({f"aten.{name}": f"ops::{text}?" for name, text in _PAIRS.items()}, promote=True)


@op("aten.frexp.Tensor")
def frexp(e: Emitter, a: Args) -> Several:
    return Several(call("ops::frexp", e.ref(a["self"])))


@op("aten.ldexp.Tensor")
def ldexp(e: Emitter, a: Args) -> Code:
    """`self · 2^other`."""
    dtype = a.output.dtype
    power = call("ops::rpow", "2.0", cast(e, a["other"], dtype))
    return call("ops::mul", cast(e, a["self"], dtype), power.borrowed)


def _product_with_logarithm(e: Emitter, a: Args, name: str) -> Code:
    x, y = a["self"], a["other"]
    like, dtype = x if isinstance(x, g.Ref) else y, a.output.dtype
    return call(f"ops::{name}", operand(e, x, dtype, like), operand(e, y, dtype, like))


for _name in ("xlogy.Tensor", "xlogy.Scalar_Self", "xlogy.Scalar_Other"):
    register(f"aten.{_name}", partial(_product_with_logarithm, name="xlogy"))
for _name in ("default", "self_scalar", "other_scalar"):
    register(f"aten.special_xlog1py.{_name}", partial(_product_with_logarithm, name="xlog1py"))
