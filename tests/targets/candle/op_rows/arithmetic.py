"""Rows for operations on two operands: dtypes, promotion, signs, broadcasting; comparison, logic, choice."""

from __future__ import annotations

import torch

from .table import INF, NAN, Table, bools, ints, randn, special, uniform, values

table = Table("arithmetic")
row = table.op

F64, F16, BF16 = torch.float64, torch.float16, torch.bfloat16
I32, U8 = torch.int32, torch.uint8
_SIGNS = values([[7, -7, 8, -8, 0, 9, -9, 1], [7, -7, 8, -8, 0, 9, -9, -1]])
_DIVISORS = values([[2, 2, -2, -2, 3, -4, -4, 5], [-2, 3, 3, -3, -1, 4, 2, 7]])
_FLOAT_SIGNS = values(
    [7.5, -7.5, 5.3, -5.3, 0.0, -0.0, 1e-3, -1e-3, INF, NAN, 3.0, -3.0, 6.0, -6.0, 1.0, -1.0, 9.9]
)
_FLOAT_DIVISORS = values(
    [2.0, 2.0, -2.0, -1.1, 3.0, 3.0, -1.0, 1.0, 2.0, 2.0, 3.0, 3.0, -4.0, 4.0, 0.0, INF, -0.3]
)
_BYTES = values([0, 1, 2, 5, 128, 200, 255, 17], U8)

# the four operations: same shapes, broadcasting on both sides, 0-dim, empty
for name, function in {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div}.items():
    row(f"{name}_same_shape", function, randn(4, 5), randn(4, 5))
    row(f"{name}_both_broadcast", function, randn(4, 1, 5), randn(3, 1))
    row(f"{name}_zero_dim", function, randn(4, 5), randn())
    row(f"{name}_float64", function, randn(4, 5, dtype=F64), randn(5, dtype=F64))
    row(f"{name}_bfloat16", function, randn(6, 5, dtype=BF16), randn(6, 5, dtype=BF16))
    row(f"{name}_float16", function, randn(6, 5, dtype=F16), randn(5, dtype=F16))
    row(f"{name}_int64", function, ints(-9, 9, 4, 5), ints(1, 9, 4, 5))
    row(f"{name}_int32_broadcast", function, ints(-9, 9, 4, 5, dtype=I32), ints(1, 9, 5, dtype=I32))
    row(f"{name}_int_with_float_tensor", function, ints(-9, 9, 4, 5), uniform(0.5, 2.0, 4, 5))
    row(f"{name}_int32_with_int64", function, ints(-9, 9, 4, 5, dtype=I32), ints(1, 9, 4, 5))
    row(f"{name}_uint8_with_int32", function, _BYTES, ints(1, 9, 8, dtype=I32))
    row(f"{name}_float_with_float64_number_tensor", function, randn(4, 5), randn(dtype=F64))
    row(f"{name}_bfloat16_with_float32", function, randn(4, 5, dtype=BF16), randn(4, 5))
    row(f"{name}_infinite", function, special(), values([1.0]))
row("add_alpha", lambda x, y: torch.add(x, y, alpha=-2.5), randn(4, 5), randn(5))
row("add_alpha_int", lambda x, y: torch.add(x, y, alpha=3), ints(-9, 9, 4, 5), ints(-9, 9, 4, 5))
row("sub_alpha", lambda x, y: torch.sub(x, y, alpha=0.5), randn(4, 5), randn(4, 5))
row("add_number_alpha", lambda x: torch.add(x, 3, alpha=2), randn(4, 5))
row("add_empty", lambda x, y: (x + y, y * 1), randn(0, 5), randn(1, 5))
row("add_wraps_uint8", torch.add, _BYTES, values([100], U8))
row("add_wraps_same_shape_uint8", torch.add, _BYTES, _BYTES)
row("mul_wraps_int32", torch.mul, values([2**30, -(2**30), 3], I32), values([4, 3, 5], I32))
row("sub_wraps_uint8_number", lambda x: x - 6, _BYTES)
row("add_bools_is_or", torch.add, bools(4, 5), bools(4, 5))
row("mul_bools_is_and", torch.mul, bools(4, 5), bools(4, 5))
row("add_bool_int", lambda x, y: (x + y, x * 2, x + 0.5), bools(4, 5), ints(0, 5, 5))
row("div_bool", lambda x, y: x / (y + 1), bools(4, 5), bools(5))
row("mul_bool_float", torch.mul, bools(4, 5), randn(4, 5))

# with a number
row("add_number", lambda x: x + 1.5, randn(4, 5))
row("sub_number", lambda x: (x - 0.3, 0.3 - x), randn(4, 5))
row("mul_number", lambda x: x * -0.1, randn(4, 5))
row("div_number", lambda x: (x / 3.0, 3.0 / x), uniform(0.5, 2.0, 4, 5))
row("mul_infinite_number", lambda x: (x + INF, x * -INF), uniform(0.5, 2.0, 4, 5))
row("int_with_float_number", lambda x: (x * 0.5, x + 0.25, x - 0.25, 2.5 - x, x / 2), ints(-9, 9, 4, 5))
row("int_with_int_number", lambda x: (x * 3, x + 7, x - 7, 7 - x, x / 4), ints(-9, 9, 4, 5))
row("int32_with_number", lambda x: (x * 3, x - 7, 7 - x, x * 0.1), ints(-9, 9, 4, 5, dtype=I32))
row("int_with_large_number", lambda x: (x + (2**53 - 1), x * 2**40), ints(-9, 9, 4, 5))
row("bfloat16_with_number", lambda x: (x * 0.1, x + 0.1, x - 0.1, x / 0.3, 0.7 - x), randn(8, 9, dtype=BF16))
row("float16_with_number", lambda x: (x * 0.1, x + 0.1, x - 0.1, x / 0.3, 0.7 - x), randn(8, 9, dtype=F16))
row("float64_with_number", lambda x: (x * 0.1, x + 0.1, x - 0.1, x / 0.3, 0.7 - x), randn(4, 5, dtype=F64))
row(
    "add_scalar_overload",
    lambda x: (torch.ops.aten.add.Scalar(x, 2), torch.ops.aten.sub.Scalar(x, 2)),
    randn(4, 5),
)
row(
    "mul_scalar_overload",
    lambda x: (torch.ops.aten.mul.Scalar(x, 2), torch.ops.aten.div.Scalar(x, 2)),
    randn(4, 5),
)
row("reciprocal_of_int", lambda x: 2 / x, ints(1, 9, 4, 5))

# division: rounding modes and signs
row("div_floor_int", lambda x, y: torch.div(x, y, rounding_mode="floor"), _SIGNS, _DIVISORS)
row("div_trunc_int", lambda x, y: torch.div(x, y, rounding_mode="trunc"), _SIGNS, _DIVISORS)
row("div_floor_float", lambda x, y: torch.div(x, y, rounding_mode="floor"), _FLOAT_SIGNS, _FLOAT_DIVISORS)
row("div_trunc_float", lambda x, y: torch.div(x, y, rounding_mode="trunc"), _FLOAT_SIGNS, _FLOAT_DIVISORS)
row("div_mode_none", lambda x, y: torch.div(x, y, rounding_mode=None), _SIGNS, _DIVISORS)
row("div_floor_number", lambda x: torch.div(x, -2, rounding_mode="floor"), _SIGNS)
row("div_trunc_number", lambda x: torch.div(x, -2, rounding_mode="trunc"), _SIGNS)
row("div_scalar_mode", lambda x: torch.ops.aten.div.Scalar_mode(x, -2, rounding_mode="trunc"), _SIGNS)
row("div_trunc_float_number", lambda x: torch.div(x, -2.5, rounding_mode="trunc"), _FLOAT_SIGNS)
row("div_floor_int_by_float", lambda x: torch.div(x, 2.5, rounding_mode="floor"), _SIGNS)
row("floor_divide_operator", lambda x, y: (x // y, x // 3, 7 // y), _SIGNS, _DIVISORS)
row("floor_divide_float", lambda x, y: x // y, _FLOAT_SIGNS, _FLOAT_DIVISORS)
row("floor_divide_scalar_overload", lambda x: torch.ops.aten.floor_divide.Scalar(x, -3), _SIGNS)
row("remainder_int", lambda x, y: (x % y, x % 3, x % -3), _SIGNS, _DIVISORS)
row("remainder_float", lambda x, y: (x % y, x % 2.5, x % -2.5), _FLOAT_SIGNS, _FLOAT_DIVISORS)
row("remainder_of_number", lambda y: 7 % y, _DIVISORS)
row("fmod_int", lambda x, y: (torch.fmod(x, y), torch.fmod(x, 3), torch.fmod(x, -3)), _SIGNS, _DIVISORS)
row("fmod_float", lambda x, y: (torch.fmod(x, y), torch.fmod(x, -2.5)), _FLOAT_SIGNS, _FLOAT_DIVISORS)

# powers
_BASES = values(
    [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, INF, -INF, NAN, 0.0, -3.0, 4.0, 10.0, 1e-3, 7.0, -2.0]
)
_POWERS = values(
    [2.0, 3.0, -1.0, 0.0, 0.5, 7.0, -2.0, 3.0, 0.0, 3.0, 0.0, 2.0, 2.5, 0.25, -3.0, 2.0, 1.0, -1.0]
)
row("pow_tensor_negative_base", torch.pow, _BASES, _POWERS)
row("pow_int_tensor", torch.pow, ints(-4, 5, 4, 5), ints(0, 5, 4, 5))
row("pow_int_base_float_power", torch.pow, ints(1, 5, 4, 5), uniform(-2.0, 2.0, 5))
row("pow_bfloat16", torch.pow, uniform(0.2, 2.0, 4, 5, dtype=BF16), uniform(-2.0, 2.0, 4, 5, dtype=BF16))
row(
    "pow_numbers",
    lambda x: (x**2, x**3, x**4, x**0.5, x**-1, x**-0.5, x**-2, x**1.7),
    uniform(0.2, 3.0, 4, 5),
)
row("pow_number_negative_base", lambda x: (x**2, x**3, x**5, x**-3, x**0, x**-2, x**0.5), _BASES)
row("pow_int_number", lambda x: (x**2, x**5, x**0, x**2.0), ints(-4, 5, 4, 5))
row("pow_of_number", lambda x: (2.0**x, 0.5**x, 10**x), uniform(-3.0, 3.0, 4, 5))
row("pow_of_number_int", lambda x: (2**x, 1.5**x), ints(0, 5, 4, 5))

# larger, smaller, angles
row("maximum_nan", lambda x, y: (torch.maximum(x, y), torch.minimum(y, x)), special(), randn(19))
row("maximum_int_float", torch.maximum, ints(-9, 9, 4, 5), randn(5))
row("minimum_int64", torch.minimum, ints(-9, 9, 4, 1), ints(-9, 9, 5))
row("max_of_two", lambda x, y: (torch.max(x, y), torch.min(x, y)), randn(4, 5), randn(4, 5))
row(
    "fmax_ignores_nan",
    lambda x, y: (torch.fmax(x, y), torch.fmin(y, x)),
    special(),
    values([NAN] + [0.0] * 18),
)
row("atan2", torch.atan2, randn(4, 5), randn(4, 5))
row("atan2_int", torch.atan2, ints(-4, 5, 4, 5), ints(-4, 5, 4, 5))
row("hypot", torch.hypot, randn(4, 5), randn(5))
row("copysign_number", lambda x: torch.copysign(x, -1.5), special())
row("copysign", torch.copysign, special(), values([-1.0, 1.0, -0.0] * 6 + [0.0]))
row("clamp_bounds", lambda x: (x.clamp(-0.5, 0.5), x.clamp(min=0.2), x.clamp(max=-0.1)), special())
row("clamp_int", lambda x: (x.clamp(-3, 4), x.clamp(min=0.5), x.clamp(-2.5, 3)), ints(-9, 9, 4, 5))
row("clamp_min_max", lambda x: (torch.clamp_min(x, 0.1), torch.clamp_max(x, 0.1)), randn(4, 5))
row(
    "clamp_tensors",
    lambda x, low, high: (x.clamp(low, high), x.clamp(max=high)),
    special(),
    randn(19),
    randn(19),
)
row(
    "clamp_min_tensor",
    lambda x, low: (torch.clamp_min(x, low), torch.clamp_max(x, low)),
    randn(4, 5),
    randn(5),
)

# comparison
for name, function in {name: getattr(torch, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}.items():
    row(f"{name}_float_nan", lambda x, y, f=function: (f(x, y), f(x, 0.5)), special(), values([0.5]))
    row(
        f"{name}_int_float",
        lambda x, y, f=function: (f(x, y), f(x, 1.5)),
        ints(-3, 4, 4, 5),
        uniform(-2.0, 2.0, 5),
    )
    row(
        f"{name}_int",
        lambda x, y, f=function: (f(x, y), f(x, 2)),
        ints(0, 4, 4, 5),
        ints(0, 4, 4, 5, dtype=I32),
    )
row("eq_bool", lambda x, y: (x == y, x == 1, x != True), bools(4, 5), bools(5))  # noqa: E712
row("eq_large_int", lambda x: (x == 2**60, x > 2**60), values([2**60, 2**60 + 1, 2**60 - 1]))
row("lt_float16_number", lambda x: (x < 0.1, x <= 0.1, x == 0.1), values([0.1, 0.0999, 0.1001, 0.5], F16))
row("isclose", torch.isclose, special(), special())

# logic and bits
row("logical", lambda x, y: (x.logical_and(y), x.logical_or(y), x.logical_xor(y)), special(), ints(0, 2, 19))
row("logical_not", lambda x, y: (x.logical_not(), y.logical_not()), special(), bools(4, 5))
row("bitwise_bool", lambda x, y: (x & y, x | y, x ^ y, ~x), bools(4, 5), bools(5))
row("bitwise_int", lambda x, y: (x & y, x | y, x ^ y, ~x), ints(-99, 99, 4, 5), ints(-99, 99, 5))
row("bitwise_uint8", lambda x, y: (x & y, x | y, x ^ y, ~x), _BYTES, ints(0, 256, 8, dtype=U8))
row("bitwise_bool_int", lambda x, y: (x & y, x | y), bools(4, 5), ints(-9, 9, 4, 5))
row("bitwise_number", lambda x: (x & 6, x | 1, x ^ 3), ints(-99, 99, 4, 5))
row(
    "bitwise_functions",
    lambda x, y: (torch.bitwise_and(x, y), torch.bitwise_or(x, y), torch.bitwise_xor(x, y)),
    ints(-99, 99, 4, 5, dtype=I32),
    ints(-99, 99, 4, 5, dtype=I32),
)
row(
    "bitwise_functions_number",
    lambda x: (torch.bitwise_and(x, 6), torch.bitwise_or(x, 1), torch.bitwise_xor(x, 3)),
    ints(-99, 99, 4, 5),
)
row("shifts", lambda x, y: (x << 2, x >> 1, x << y, x >> y), ints(-99, 99, 4, 5), ints(0, 6, 5))
row(
    "shift_functions",
    lambda x, y: (
        torch.bitwise_left_shift(x, y),
        torch.bitwise_right_shift(x, y),
        torch.bitwise_left_shift(x, 2),
        torch.bitwise_right_shift(x, 2),
    ),
    ints(0, 99, 5, dtype=I32),
    ints(0, 6, 5, dtype=I32),
)

# choice
row("where_broadcast", torch.where, bools(4, 1, 5), randn(3, 1), randn(5))
row("where_promotes", torch.where, bools(4, 5), ints(-9, 9, 4, 5), randn(5))
row(
    "where_numbers",
    lambda c, x: (torch.where(c, x, 0.5), torch.where(c, -INF, x), torch.where(c, 1, 2)),
    bools(4, 5),
    randn(4, 5),
)
row(
    "where_int_with_float_number",
    lambda c, x: (torch.where(c, x, 0.5), torch.where(c, 2, x)),
    bools(4, 5),
    ints(-9, 9, 5),
)
row("masked_fill_number", lambda x, m: (x.masked_fill(m, -INF), x.masked_fill(m, 2)), randn(4, 5), bools(5))
row(
    "masked_fill_int",
    lambda x, m: (x.masked_fill(m, -100), x.masked_fill(m, torch.iinfo(torch.int64).max)),
    ints(-9, 9, 4, 5),
    bools(4, 5),
)
row("masked_fill_bool", lambda x, m: x.masked_fill(m, True), bools(4, 5), bools(4, 5))
row(
    "masked_fill_lowest",
    lambda x, m: x.masked_fill(m, torch.finfo(torch.float32).min),
    randn(4, 5),
    bools(4, 5),
)
row("masked_fill_bfloat16", lambda x, m: x.masked_fill(m, 0.1), randn(4, 5, dtype=BF16), bools(4, 1))
row("masked_fill_tensor", lambda x, m, v: torch.masked_fill(x, m, v), randn(4, 5), bools(4, 5), randn())
row(
    "lerp",
    lambda x, y, w: (torch.lerp(x, y, 0.3), torch.lerp(x, y, w)),
    randn(4, 5),
    randn(4, 5),
    uniform(0, 1, 5),
)
row("addcmul", lambda x, y, z: torch.addcmul(x, y, z, value=0.5), randn(4, 5), randn(5), randn(4, 1))
row(
    "addcdiv",
    lambda x, y, z: torch.addcdiv(x, y, z, value=0.5),
    randn(4, 5),
    randn(4, 5),
    uniform(0.5, 2.0, 5),
)
row("logaddexp", torch.logaddexp, randn(4, 5), randn(5))
row("xlogy", torch.xlogy, uniform(0.0, 2.0, 4, 5), uniform(0.5, 2.0, 5))
