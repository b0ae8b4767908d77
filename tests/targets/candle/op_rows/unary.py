"""Rows for functions of one tensor: special values, dtypes, activations, conversion, creation."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from .table import INF, NAN, Maker, Table, bools, finite, ints, randn, special, uniform, values

table = Table("unary")
row = table.op

F32, F64, F16, BF16 = torch.float32, torch.float64, torch.float16, torch.bfloat16
I32, U8 = torch.int32, torch.uint8

_EVERYWHERE = """
    exp expm1 sin cos tan atan sinh cosh tanh sigmoid erf erfc exp2 asinh relu floor ceil trunc round sign abs
    neg isnan isinf isfinite signbit square frac sgn log log1p log2 log10 sqrt rsqrt reciprocal
"""
_DOMAINS: dict[str, Callable[[torch.dtype], Maker]] = {
    **dict.fromkeys(_EVERYWHERE.split(), special),
    **dict.fromkeys(("asin", "acos", "atanh"), lambda dtype: uniform(-1.0, 1.0, 4, 9, dtype=dtype)),
    "acosh": lambda dtype: uniform(1.0, 4.0, 4, 9, dtype=dtype),
}
for name, domain in _DOMAINS.items():
    for dtype in (F32, F64, BF16):
        row(f"{name}_{dtype}".replace("torch.", ""), getattr(torch, name), domain(dtype))
for name in ("exp", "sqrt", "sigmoid", "tanh", "rsqrt", "round", "erf"):
    row(f"{name}_float16", getattr(torch, name), uniform(0.1, 4.0, 4, 9, dtype=F16))
for name in ("exp", "sin", "sqrt", "sigmoid", "tanh", "rsqrt", "reciprocal", "log", "erf", "atan"):
    row(f"{name}_of_int", getattr(torch, name), ints(1, 9, 4, 5))
row("sigmoid_of_bool", lambda x: (torch.sigmoid(x), torch.exp(x)), bools(4, 5))
row(
    "same_of_int",
    lambda x: (x.abs(), -x, x.sign(), x.floor(), x.round(), x.relu(), x.trunc()),
    ints(-9, 9, 4, 5),
)
row("same_of_int32", lambda x: (x.abs(), -x, x.sign(), x.ceil(), x.relu()), ints(-9, 9, 4, 5, dtype=I32))
row("negative_uint8", lambda x: -x, values([0, 1, 5, 255], U8))
row("isnan_of_int", lambda x: (x.isnan(), x.isinf(), x.isfinite()), ints(-9, 9, 4, 5))
row("round_half_to_even", torch.round, values([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, 4.5]))
row("round_decimals", lambda x: torch.round(x, decimals=2), randn(4, 9))
row("zero_dim", lambda x: (x.exp(), x.relu(), x + 1, x.abs().sqrt()), randn())
row("empty", lambda x, y: (x.exp(), x.relu(), x.sigmoid(), y + 1), randn(0, 3), randn(1))
row("not_contiguous", lambda x: (x.t().exp(), x[:, ::2].relu(), x.expand(2, 4, 6).tanh()), randn(4, 6))
row("nan_to_num", lambda x: (torch.nan_to_num(x), torch.nan_to_num(x, nan=2.0, posinf=9.0)), special())
row("logit", lambda x: (torch.logit(x), torch.logit(x, eps=0.1)), uniform(0.01, 0.99, 4, 9))
row("sinc", torch.sinc, randn(4, 9))

# activations
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "mish": F.mish,
    "elu": F.elu,
    "elu_alpha": lambda x: F.elu(x, alpha=0.3),
    "selu": F.selu,
    "celu": lambda x: F.celu(x, alpha=0.7),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "hardtanh": lambda x: F.hardtanh(x, -0.3, 0.6),
    "relu6": F.relu6,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "softplus": F.softplus,
    "softplus_beta": lambda x: F.softplus(x, beta=2.0, threshold=5.0),
    "logsigmoid": F.logsigmoid,
    "softsign": F.softsign,
    "tanhshrink": F.tanhshrink,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "threshold": lambda x: F.threshold(x, 0.1, 20.0),
}
for name, activation in _ACTIVATIONS.items():
    row(name, activation, finite() if name == "gelu" else special())
    row(f"{name}_float64", activation, randn(4, 9, dtype=F64, scale=3.0))
    row(f"{name}_bfloat16", activation, randn(4, 9, dtype=BF16, scale=3.0))
row("activation_float16", lambda x: (F.gelu(x), F.silu(x), F.relu(x), F.softplus(x)), randn(4, 9, dtype=F16))
row("relu_other_overloads", lambda x: (torch.ops.aten.relu6(x), torch.relu(x)), special())
row("prelu_one_slope", F.prelu, special(), values([0.2]))
row("prelu_channels", F.prelu, randn(2, 3, 4), randn(3))
row("prelu_kernel", torch.ops.aten._prelu_kernel, randn(2, 3, 4), randn(1, 3, 1))
row("glu", F.glu, randn(4, 6))
row("glu_dim", lambda x: F.glu(x.exp(), dim=1), randn(2, 6, 3))

# conversion between dtypes
row(
    "float_to_ints",
    lambda x: (x.long(), x.int(), x.to(torch.int16)),
    values([-2.7, -0.5, 0.0, 0.5, 2.7, 1e4, -1e4]),
)
row("float_to_uint8_wraps", lambda x: x.to(U8), values([-1.0, 300.0, 3.9, 255.0, 0.0]))
row("int_to_uint8_wraps", lambda x: (x.to(U8), x.to(I32)), values([-1, 300, 3, 255, 2**40 + 5]))
row("int_to_floats", lambda x: (x.float(), x.double(), x.bfloat16(), x.half()), ints(-999, 999, 4, 5))
row("bool_to_numbers", lambda x: (x.float(), x.long(), x.int(), x.to(U8), x.double()), bools(4, 5))
row(
    "to_bool",
    lambda x, y, z: (x.bool(), y.bool(), z.bool()),
    special(),
    ints(-1, 2, 9),
    values([0, 1, 2, 255], U8),
)
row("between_floats", lambda x: (x.double(), x.bfloat16(), x.half(), x.half().float()), randn(4, 9))
row("from_float64", lambda x: (x.float(), x.bfloat16(), x.half()), randn(4, 9, dtype=F64))
row(
    "from_bfloat16", lambda x: (x.float(), x.double(), x.half(), x.long()), randn(4, 9, dtype=BF16, scale=9.0)
)
row(
    "int32_to_floats",
    lambda x: (x.float(), x.double(), x.long(), x.to(torch.int16)),
    ints(-999, 999, 4, dtype=I32),
)
row(
    "uint8_to_numbers",
    lambda x: (x.float(), x.long(), x.int(), x.float() / 255.0),
    ints(0, 256, 4, 5, dtype=U8),
)
row("int16_arithmetic", lambda x: (x + 1, x.float(), x.long() * 3), ints(-999, 999, 4, dtype=torch.int16))
row("type_as", lambda x, y: (x.type_as(y), y.type_as(x), x.to(y)), ints(-9, 9, 4, 5), randn(5))
row("to_same_dtype", lambda x: (x.float(), x.to(F32) + 1), randn(4, 5))

# creation
row(
    "arange",
    lambda x: (x + torch.arange(5), torch.arange(2, 7) * x, torch.arange(9, -1, -2) + x),
    randn(4, 5),
)
row("arange_float", lambda x: (x + torch.arange(0.0, 1.0, 0.2), torch.arange(5.0) * x), randn(4, 5))
row(
    "arange_dtypes",
    lambda x: (torch.arange(5, dtype=I32) + x, torch.arange(5, dtype=F64) * x),
    ints(-9, 9, 5),
)
row("arange_steps", lambda x: (torch.arange(0.1, 1.0, 0.1) + x[:9], torch.arange(3, 30, 3) + x[:9]), randn(9))
row("full", lambda x: (torch.full((4, 5), 2.5) + x, torch.full((5,), True) & (x > 0)), randn(4, 5))
row(
    "full_like",
    lambda x: (torch.full_like(x, -INF) + x, x.new_full((2,), 3.5), torch.full_like(x, 7.9).long()),
    randn(5),
)
row("full_int", lambda x: (torch.full((5,), 7) + x, torch.full_like(x, 3)), ints(-9, 9, 5))
row(
    "zeros",
    lambda x: (torch.zeros(5) + x, x.new_zeros(2, 3), torch.zeros_like(x), torch.zeros(()) - x),
    randn(4, 5),
)
row(
    "ones",
    lambda x: (torch.ones(5) + x, x.new_ones(2, 3), torch.ones_like(x), torch.ones(2, dtype=I32)),
    randn(4, 5),
)
row(
    "zeros_like_dtype",
    lambda x: (torch.zeros_like(x, dtype=torch.int64), torch.ones_like(x, dtype=torch.bool)),
    randn(5),
)
row("fill_in_place", lambda x: ((x * 1).fill_(2), (x * 1).zero_(), (x * 1).fill_(x[0])), randn(5))
row(
    "copy_in_place",
    lambda x, y: ((x * 1).copy_(y), torch.empty_like(x).copy_(y)),
    randn(4, 5),
    ints(-9, 9, 5),
)
row("empty_then_filled", lambda x: torch.empty(4, 5).fill_(1.5) + x.new_empty(4, 5).zero_() + x, randn(4, 5))
row("empty_permuted_then_filled", lambda x: torch.empty_permuted((4, 5), (1, 0)).copy_(x), randn(4, 5))
row("scalar_tensor", lambda x: x + torch.ops.aten.scalar_tensor.default(2.5), randn(4, 5))
row("constant", lambda x: x + torch.tensor([1.0, -2.0, 3.0, NAN, 5.0]), randn(4, 5))
row("constant_numbers", lambda x: (x * torch.tensor(3), x + x.new_tensor([1.5])), randn(4, 5))
row("eye", lambda x: x @ torch.eye(5), randn(4, 5))
row("linspace", lambda x: x + torch.linspace(-1.0, 1.0, 5), randn(4, 5))
row("tril_mask", lambda x: x.masked_fill(torch.ones(5, 5).tril() == 0, -INF), randn(2, 5, 5))
row("tril_bool_mask", lambda x: x.masked_fill(~torch.ones(5, 5, dtype=torch.bool).tril(1), 0.0), randn(5, 5))
