"""A size that depends on free dimensions, as an expression of Rust over the variables that hold these dimensions."""

from __future__ import annotations

from collections.abc import Callable

from torchport.capture import graph as g
from torchport.targets.candle.body import Unsupported
from torchport.targets.candle.code import Code, as_code, code, joined

Digits = Callable[[int], Code]
"""How a number inside the expression is written."""


def size_code(expr: g.Expr, digits: Digits) -> Code:
    return _with_parentheses(expr, digits).without_outer_parentheses()


def _with_parentheses(expr: g.Expr, digits: Digits) -> Code:
    if isinstance(expr, str):
        return as_code(expr)
    if isinstance(expr, int):
        return digits(expr)
    operation, operands = expr[0], expr[1:]
    if operation == "add":
        return _sum(expr, digits)
    if operation in ("max", "min"):
        first, *rest = (_with_parentheses(operand, digits) for operand in operands)
        return joined("", [first, *(code(".{}({})", operation, other) for other in rest)])
    if operation == "pow":
        return code("{}.pow({})", _with_parentheses(operands[0], digits), operands[1])
    if any(_negated(operand) for operand in operands):
        raise Unsupported(f"the size {expr} has a negative factor")
    sign = {"mul": " * ", "floordiv": " / ", "mod": " % "}[operation]
    return code("({})", joined(sign, (_with_parentheses(operand, digits) for operand in operands)))


def _sum(expr: tuple[g.Expr, ...], digits: Digits) -> Code:
    """A sum in which what is subtracted comes last, because a usize cannot be negative on the way."""
    operands = expr[1:]
    plus = [_with_parentheses(operand, digits) for operand in operands if not _negated(operand)]
    minus = [_with_parentheses(operand, digits) for operand in map(_negated, operands) if operand]
    if not plus:
        raise Unsupported(f"the size {expr} is negative")
    return code("({})", joined(" - ", [joined(" + ", plus), *minus]))


def _negated(expr: g.Expr) -> g.Expr | None:
    """The operand without its minus sign, or None if it has none."""
    if isinstance(expr, int) and expr < 0:
        return -expr
    if isinstance(expr, tuple) and expr[0] == "mul" and isinstance(expr[1], int) and expr[1] < 0:
        rest = expr[2:]
        if expr[1] == -1:
            return rest[0] if len(rest) == 1 else ("mul", *rest)
        return ("mul", -expr[1], *rest)
    return None
