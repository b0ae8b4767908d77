"""A size that depends on free dimensions, as an expression of Rust over the variables that hold these dimensions.

The length of something is a `usize`. What is only counted with, such as the bound of a slice or a factor, is an `i64`,
because a difference may be negative where an input is short.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torchport.capture import graph as g
from torchport.targets.candle.body import Unsupported
from torchport.targets.candle.code import Code, as_code, code, joined

Digits = Callable[[int], Code]
"""How a number inside the expression is written."""


def size_code(expr: g.Expr, digits: Digits) -> Code:
    """A size as a `usize`."""
    return _Unsigned(digits).operand(expr).without_outer_parentheses()


def signed_code(expr: g.Expr, digits: Digits) -> Code:
    """A size as an `i64`."""
    return _Signed(digits).operand(expr).without_outer_parentheses()


def may_be_negative(expr: g.Expr) -> bool:
    """Whether something is subtracted in a size."""
    return isinstance(expr, tuple) and any(
        _negated(operand) is not None or may_be_negative(operand) for operand in expr[1:]
    )


@dataclass(frozen=True)
class _Unsigned:
    digits: Digits

    def operand(self, expr: g.Expr) -> Code:
        """An expression between operators, in parentheses if it needs them."""
        if isinstance(expr, str):
            return self.symbol(expr)
        if isinstance(expr, int):
            return self.digits(expr)
        operation, operands = expr[0], expr[1:]
        match operation:
            case "add":
                plus, minus = self.terms(expr)
                return code("({})", joined(" - ", [plus.without_outer_parentheses(), *minus]))
            case "mul":
                return code("({})", joined(" * ", map(self.factor, operands)))
            case "max" | "min":
                return self.extreme(operation, operands)
            case "pow":
                return code("{}.pow({})", self.receiver(operands[0]), operands[1])
            case _:
                return self.quotient(operation, *operands)

    def symbol(self, name: str) -> Code:
        return as_code(name)

    def receiver(self, expr: g.Expr) -> Code:
        """An expression in front of a method."""
        return self.operand(expr)

    def argument(self, expr: g.Expr) -> Code:
        return self.operand(expr).without_outer_parentheses()

    def factor(self, expr: g.Expr) -> Code:
        if _negated(expr):
            raise Unsupported(f"the size {expr} is negative")
        return self.operand(expr)

    def terms(self, expr: tuple[g.Expr, ...]) -> tuple[Code, list[Code]]:
        """What is added in a sum, in parentheses if it is several, and each operand that is subtracted."""
        operands = expr[1:]
        plus = [self.operand(operand) for operand in operands if not _negated(operand)]
        minus = [self.operand(operand) for operand in map(_negated, operands) if operand]
        if not plus:
            raise Unsupported(f"the size {expr} is negative")
        return code("({})" if len(plus) > 1 else "{}", joined(" + ", plus)), minus

    def extreme(self, operation: str, operands: tuple[g.Expr, ...]) -> Code:
        """The larger or the smaller of some sizes, the numbers last. Beside a number, a difference may be negative."""
        numbers = [operand for operand in operands if isinstance(operand, int)]
        first, *rest = [operand for operand in operands if not isinstance(operand, int)]
        if operation == "max" and max(numbers, default=-1) >= 0:
            values = [self.at_least_zero(first), *map(self.at_least_zero, rest)]
            numbers = [number for number in numbers if number > 0]
        else:
            values = [self.receiver(first), *map(self.argument, rest)]
        values += [self.digits(number) for number in numbers]
        return joined("", [values[0], *(code(".{}({})", operation, value) for value in values[1:])])

    def at_least_zero(self, expr: g.Expr) -> Code:
        """A size, or 0 if it is negative."""
        if not isinstance(expr, tuple) or expr[0] != "add":
            return self.receiver(expr)
        plus, minus = self.terms(expr)
        less = (code(".saturating_sub({})", item.without_outer_parentheses()) for item in minus)
        return joined("", [plus, *less]) if minus else plus

    def quotient(self, operation: str, above: g.Expr, below: g.Expr) -> Code:
        if (
            operation == "floordiv"
            and isinstance(below, int)
            and isinstance(above, tuple)
            and above[0] == "add"
        ):
            rest = tuple(operand for operand in above[1:] if operand != below - 1)
            if len(rest) == len(above) - 2 and not may_be_negative(above):
                whole = rest[0] if len(rest) == 1 else ("add", *rest)
                return code("{}.div_ceil({})", self.receiver(whole), self.digits(below))
        sign = {"floordiv": "/", "mod": "%"}[operation]
        return code("({} {} {})", self.factor(above), sign, self.factor(below))


@dataclass(frozen=True)
class _Signed(_Unsigned):
    def operand(self, expr: g.Expr) -> Code:
        if isinstance(expr, tuple) and expr[0] == "mul" and expr[1] == -1:
            return code("(-{})", self.receiver(expr[2] if len(expr) == 3 else ("mul", *expr[2:])))
        return super().operand(expr)

    def symbol(self, name: str) -> Code:
        return code("{} as i64", name)

    def receiver(self, expr: g.Expr) -> Code:
        return code("({})", self.argument(expr))

    def factor(self, expr: g.Expr) -> Code:
        return self.operand(expr)

    def at_least_zero(self, expr: g.Expr) -> Code:
        return code("{}.max(0)", self.receiver(expr))

    def quotient(self, operation: str, above: g.Expr, below: g.Expr) -> Code:
        """Both round down in Python, which for a positive divisor is what Euclid's division does."""
        if not isinstance(below, int) or below <= 0:
            raise Unsupported(f"the size {operation} of {above} and {below} may be negative")
        method = {"floordiv": "div_euclid", "mod": "rem_euclid"}[operation]
        return code("{}.{}({})", self.receiver(above), method, self.digits(below))


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
