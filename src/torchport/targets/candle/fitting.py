"""Which expression over a model's sizes a number is: the simplest one that holds wherever the model was captured.

In: a column for each size, with its value in every capture, and the column of a number. Out: an expression of Rust
over `cfg`. A number that is the same in every capture is a constant and follows from no size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

Column = tuple[int | float, ...]
"""The value of one number in every capture, that of the model itself first."""

_SUM, _PRODUCT, _ATOM = 0, 1, 2
_POWERS = ((0.5, ".sqrt()"), (-0.5, ".powf(-0.5)"), (0.25, ".powf(0.25)"), (-0.25, ".powf(-0.25)"))
_LARGEST_FACTOR = 64


@dataclass(frozen=True)
class Expression:
    """A number as Rust, and the sizes that it reads."""

    text: str
    sizes: frozenset[str]
    kind: str = "usize"
    """The Rust type: `usize`, `i64` or `f64`."""
    binding: int = _ATOM
    """How tightly its operator binds."""

    def operand(self, least: int) -> str:
        """The text beside an operator that binds as tightly as `least`."""
        return f"({self.text})" if self.binding < least else self.text

    @property
    def as_float(self) -> str:
        return self.text if self.kind == "f64" else f"{self.operand(_ATOM)} as f64"


def _infix(left: Expression | int, sign: str, right: Expression | int) -> Expression:
    level = _SUM if sign in "+-" else _PRODUCT
    sizes: frozenset[str] = frozenset()
    words = []
    for side, least in ((left, level), (right, level if sign in "+*" else level + 1)):
        if isinstance(side, Expression):
            sizes |= side.sizes
            words.append(side.operand(least))
        else:
            words.append(str(side))
    return Expression(f"{words[0]} {sign} {words[1]}", sizes, binding=level)


class Fitting:
    """The sizes of a model, and the expressions that explain its numbers."""

    def __init__(self, sizes: Mapping[str, Column]):
        moved = {name: column for name, column in sizes.items() if len(set(column)) > 1}
        self.sizes: dict[Expression, Column] = {
            Expression(f"cfg.{name}", frozenset({name}), "usize" if _is_whole(column) else "f64"): column
            for name, column in moved.items()
        }
        self._found: dict[Column, list[Expression]] = {}

    def explanations(self, target: Column) -> list[Expression]:
        """The expressions of the simplest form that hold in every capture; none if there is none."""
        if target not in self._found:
            self._found[target] = self._search(target) if len(set(target)) > 1 else []
        return self._found[target]

    def _search(self, target: Column) -> list[Expression]:
        if _is_whole(target):
            if all(value >= 0 for value in target):
                return self._whole(target)
            if all(value <= 0 for value in target):
                found = self._whole(tuple(-value for value in target))
                return [_negative(item) for item in found]
            return []
        return list(self._real(target))

    # whole numbers

    @cached_property
    def _wholes(self) -> dict[Expression, Column]:
        return {e: column for e, column in self.sizes.items() if e.kind == "usize"}

    @cached_property
    def _reals(self) -> dict[Expression, Column]:
        return {e: column for e, column in self.sizes.items() if e.kind == "f64"}

    @cached_property
    def _by_column(self) -> dict[Column, list[Expression]]:
        found: dict[Column, list[Expression]] = {}
        for expression, column in self._wholes.items():
            found.setdefault(column, []).append(expression)
        return found

    @cached_property
    def _products(self) -> dict[Expression, Column]:
        return self._pairs("/*")

    @cached_property
    def _sums(self) -> dict[Expression, Column]:
        return self._pairs("-+")

    def _pairs(self, signs: str) -> dict[Expression, Column]:
        """Two sizes with one of these signs between them."""
        items = list(self._wholes.items())
        found: dict[Expression, Column] = {}
        for sign in signs:
            for i, (left, a) in enumerate(items):
                for j, (right, b) in enumerate(items):
                    if (sign in "*+" and j < i) or (sign in "/-" and i == j):
                        continue
                    column = _applied(sign, a, b)
                    if column is not None and len(set(column)) > 1:
                        found[_infix(left, sign, right)] = column
        return found

    def _whole(self, target: Column) -> list[Expression]:
        """The simplest form that holds; what is added comes last, because sums of many numbers hold by chance."""
        for form in (
            lambda: self._by_column.get(target, []),
            lambda: _multiples(self._wholes, target),
            lambda: [e for e, column in self._products.items() if column == target],
            lambda: _away(self._wholes, target, _LARGEST_FACTOR),
            lambda: _multiples(self._products, target),
            lambda: _shifted(self._wholes, target),
            lambda: _squared(self._wholes, self._products, target),
            lambda: self._threes(target),
            lambda: self._shares(target),
            lambda: [e for e, column in self._sums.items() if column == target],
            lambda: _away(self._products, target, 2),
        ):
            if found := list(form()):
                return found
        return []

    def _threes(self, target: Column) -> Iterator[Expression]:
        """A product or quotient of two sizes, multiplied or divided by a third one."""
        for pair, column in self._products.items():
            for sign, rest in (
                ("*", _applied("/", target, column, exact=True)),
                ("/", _applied("/", column, target, exact=True)),
            ):
                for third in self._by_column.get(rest, ()) if rest is not None else ():
                    yield _infix(pair, sign, third)

    def _shares(self, target: Column) -> Iterator[Expression]:
        """A real number times a size, rounded down: `(cfg.mlp_ratio * cfg.width as f64) as usize`."""
        for real, column in self._reals.items():
            if not all(column):
                continue
            size = tuple(round(t / c) for t, c in zip(target, column, strict=True))
            if tuple(int(c * s) for c, s in zip(column, size, strict=True)) != target:
                continue
            for found in [*self._by_column.get(size, ()), *_multiples(self._wholes, size)]:
                text = f"({real.text} * {found.as_float}) as usize"
                yield Expression(text, real.sizes | found.sizes, binding=_PRODUCT)

    # real numbers

    def _real(self, target: Column) -> Iterator[Expression]:
        sign = -1 if all(value < 0 for value in target) else 1
        positive = tuple(sign * value for value in target)
        if any(value <= 0 for value in positive):
            return
        for expression in self._positive(positive):
            yield expression if sign > 0 else Expression(f"-({expression.text})", expression.sizes, "f64")

    def _positive(self, target: Column) -> list[Expression]:
        if found := [e for e, column in self._reals.items() if column == target]:
            return found
        for expression, column in self._reals.items():
            factor = _constant(t / c if c else math.nan for t, c in zip(target, column, strict=True))
            if factor is not None:
                return [Expression(f"{expression.text} * {factor!r}", expression.sizes, "f64", _PRODUCT)]
        whole = _rounded(target)
        if whole is not None:
            return [_float(item) for item in self._whole(whole)]
        whole = _rounded(tuple(1 / value for value in target))
        if whole is not None and (found := self._whole(whole)):
            return [Expression(f"1.0 / {_cast(e)}", e.sizes, "f64", _PRODUCT) for e in found]
        for power, method in _POWERS:
            whole = _rounded(tuple(value ** (1 / power) for value in target))
            if whole is not None and (found := self._whole(whole)):
                return [Expression(f"({_float(e).text}){method}", e.sizes, "f64") for e in found]
        return []


def _is_whole(column: Column) -> bool:
    return all(isinstance(value, int) for value in column)


def _applied(sign: str, left: Column, right: Column, *, exact: bool = False) -> Column | None:
    """Two columns put together; None if that is no column of numbers from 0."""
    pairs = list(zip(left, right, strict=True))
    if sign == "*":
        return tuple(a * b for a, b in pairs)
    if sign == "+":
        return tuple(a + b for a, b in pairs)
    if sign == "-":
        return tuple(a - b for a, b in pairs) if all(a >= b for a, b in pairs) else None
    if any(b == 0 or (exact and a % b) for a, b in pairs):
        return None
    return tuple(a // b for a, b in pairs)


def _multiples(known: Mapping[Expression, Column], target: Column) -> Iterator[Expression]:
    """Multiples and parts of what is known."""
    for expression, column in known.items():
        if all(t and c and t % c == 0 for t, c in zip(target, column, strict=True)):
            factors = {t // c for t, c in zip(target, column, strict=True)}
            if len(factors) == 1 and 1 < (factor := factors.pop()) <= _LARGEST_FACTOR**2:
                yield _infix(int(factor), "*", expression)
    for expression, column in known.items():
        parts = {c // t if t else 0 for t, c in zip(target, column, strict=True)}
        is_part = len(parts) == 1 and 1 < (part := parts.pop()) <= _LARGEST_FACTOR
        if is_part and _applied("/", column, (part,) * len(column)) == target:
            yield _infix(expression, "/", int(part))


def _away(known: Mapping[Expression, Column], target: Column, most: int) -> Iterator[Expression]:
    """What is a constant away from what is known."""
    for expression, column in known.items():
        away = {t - c for t, c in zip(target, column, strict=True)}
        if len(away) == 1 and 0 < abs(difference := int(away.pop())) <= most:
            yield _infix(expression, "+" if difference > 0 else "-", abs(difference))


def _shifted(known: Mapping[Expression, Column], target: Column) -> Iterator[Expression]:
    """A multiple of a size and a constant: `2 * cfg.window_size - 1`."""
    for expression, column in known.items():
        for factor in range(2, 9):
            away = {t - factor * c for t, c in zip(target, column, strict=True)}
            if len(away) == 1 and 0 < abs(difference := int(away.pop())) <= _LARGEST_FACTOR:
                product = _infix(factor, "*", expression)
                yield _infix(product, "+" if difference > 0 else "-", abs(difference))


def _squared(
    sizes: Mapping[Expression, Column], pairs: Mapping[Expression, Column], target: Column
) -> Iterator[Expression]:
    """The square of a size, of a quotient of sizes, or of a size of a table of distances, and what is near to it."""
    tables = {
        _infix(_infix(2, "*", e), "-", 1): tuple(2 * value - 1 for value in column)
        for e, column in sizes.items()
    }
    squares = {
        Expression(f"({e.text}).pow(2)" if e.binding < _ATOM else f"{e.text}.pow(2)", e.sizes): tuple(
            value**2 for value in column
        )
        for e, column in (*sizes.items(), *tables.items(), *pairs.items())
    }
    for expression, column in squares.items():
        if column == target:
            yield expression
    yield from _multiples(squares, target)
    yield from _away(squares, target, 2)


def _constant(values: Iterator[float]) -> float | None:
    """The number that all of them are, as short as it can be written."""
    known = list(values)
    first = float(f"{known[0]:.12g}")
    return first if all(math.isclose(value, first, rel_tol=1e-12) for value in known) else None


def _rounded(values: Column) -> Column | None:
    """The whole numbers that these are; None if one is not."""
    if any(not math.isfinite(value) or value > 2**53 for value in values):
        return None
    whole = tuple(round(value) for value in values)
    near = (math.isclose(value, to, rel_tol=1e-12) for value, to in zip(values, whole, strict=True))
    return whole if all(near) else None


def _cast(e: Expression) -> str:
    return f"({_float(e).text})"


def _float(e: Expression) -> Expression:
    return Expression(e.as_float, e.sizes, "f64", _PRODUCT)


def _negative(e: Expression) -> Expression:
    return Expression(f"-({e.operand(_ATOM)} as i64)", e.sizes, "i64")
