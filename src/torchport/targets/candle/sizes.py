"""A size that depends on free dimensions, as an expression of Rust over the variables that hold these dimensions.

Sizes are `usize`. What may be negative, on the way or at the end, is computed in `i64`, with torch's rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from torchport.capture import graph as g
from torchport.targets.candle.code import Code, as_code, code, joined

Digits = Callable[[int], Code]
"""How a number inside the expression is written."""


def size_code(expr: g.Expr, digits: Digits) -> Code:
    """The expression as a `usize`, for one that cannot be negative: the size of an axis."""
    if _needs_sign(expr):
        return code("({}) as usize", signed_code(expr))
    return _unsigned(expr, digits).without_outer_parentheses()


def signed_code(expr: g.Expr) -> Code:
    """The expression as an `i64`."""
    return _signed(expr).without_outer_parentheses()


def _needs_sign(expr: g.Expr) -> bool:
    """Whether part of a size may be negative, such as an operand of `max`."""
    if isinstance(expr, str | int):
        return isinstance(expr, int) and expr < 0
    operation, operands = expr[0], expr[1:]
    if operation == "add":
        parts = [_negated(operand) or operand for operand in operands]
        return all(_negated(operand) for operand in operands) or any(map(_needs_sign, parts))
    if operation in ("max", "min", "mod"):
        return lowest(expr) is None
    return any(map(_needs_sign, operands))


def lowest(expr: g.Expr) -> int | None:
    """A number that the expression is never below if each free size is 1 or more; None if it may be negative."""
    if isinstance(expr, str):
        return 1
    if isinstance(expr, int):
        return expr if expr >= 0 else None
    operation, operands = expr[0], expr[1:]
    if operation == "add":
        return _lowest_sum(operands)
    lows = [low for operand in operands if (low := lowest(operand)) is not None]
    if len(lows) < len(operands):
        return None
    if operation in ("max", "min", "mul"):
        return {"max": max, "min": min, "mul": math.prod}[operation](lows)
    if operation == "floordiv" and isinstance(operands[1], int):
        return lows[0] // operands[1]
    return 0


def _lowest_sum(operands: tuple[g.Expr, ...]) -> int | None:
    """The least sum: known if nothing but a number is taken from it, or a part that is one of those added."""
    plus = [operand for operand in operands if not _negated(operand)]
    minus = [_negated(operand) for operand in operands if _negated(operand)]
    lows = [lowest(operand) for operand in plus]
    if any(low is None for low in lows):
        return None
    total = sum(low for low in lows if low is not None)
    if all(isinstance(operand, int) for operand in minus):
        total -= sum(operand for operand in minus if isinstance(operand, int))
        return total if total >= 0 else None
    return 0 if all(_is_part_of(operand, plus) for operand in minus) else None


def _is_part_of(operand: g.Expr | None, plus: list[g.Expr]) -> bool:
    """Whether one of what is added is never below the operand: itself, or for a quotient, what is divided."""
    if operand in plus:
        return True
    if isinstance(operand, tuple) and operand[0] == "floordiv" and operand[1] in plus:
        return len(plus) == 1
    return False


def _unsigned(expr: g.Expr, digits: Digits) -> Code:
    if isinstance(expr, str):
        return as_code(expr)
    if isinstance(expr, int):
        return digits(expr)
    operation, operands = expr[0], expr[1:]
    if operation == "add":
        return _difference(operands, digits)
    parts = [_unsigned(operand, digits) for operand in operands]
    if operation in ("max", "min"):
        return joined("", [parts[0], *(code(".{}({})", operation, other) for other in parts[1:])])
    if operation == "pow":
        return code("{}.pow({})", parts[0], operands[1])
    return code("({})", joined({"mul": " * ", "floordiv": " / ", "mod": " % "}[operation], parts))


def _difference(operands: tuple[g.Expr, ...], digits: Digits) -> Code:
    """A sum in which what is subtracted comes last, because a usize cannot be negative on the way."""
    plus = [_unsigned(operand, digits) for operand in operands if not _negated(operand)]
    minus = [_unsigned(operand, digits) for operand in map(_negated, operands) if operand]
    return code("({})", joined(" - ", [joined(" + ", plus), *minus]))


def _signed(expr: g.Expr) -> Code:
    if isinstance(expr, str):
        return code("({} as i64)", expr)
    if isinstance(expr, int):
        return as_code(f"({expr}_i64)" if expr < 0 else f"{expr}_i64")
    operation, operands = expr[0], expr[1:]
    parts = [_signed(operand) for operand in operands]
    if operation in ("add", "mul"):
        return code("({})", joined({"add": " + ", "mul": " * "}[operation], parts))
    method = {"max": "max", "min": "min", "pow": "pow", "floordiv": "div_euclid", "mod": "rem_euclid"}[
        operation
    ]
    if operation == "pow":
        return code("{}.pow({})", parts[0], operands[1])
    return joined("", [parts[0], *(code(".{}({})", method, other) for other in parts[1:])])


def _negated(expr: g.Expr | None) -> g.Expr | None:
    """The operand without its minus sign, or None if it has none."""
    if isinstance(expr, int) and expr < 0:
        return -expr
    if isinstance(expr, tuple) and expr[0] == "mul" and isinstance(expr[1], int) and expr[1] < 0:
        rest = expr[2:]
        if expr[1] == -1:
            return rest[0] if len(rest) == 1 else ("mul", *rest)
        return ("mul", -expr[1], *rest)
    return None
