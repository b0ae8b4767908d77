"""Which expression over a model's sizes a number is: the simplest one that holds wherever the model was captured.

In: a column for each size, with its value in every capture, and the column of a number. Out: an expression of Rust
over `cfg`. A number that is the same in every capture is a constant and follows from no size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

Column = tuple[int | float, ...]
"""The value of one number in every capture, that of the model itself first."""

_DIGITS = 1e-12
"""How far, relatively, a real number may be from an expression that holds."""
_SUM, _PRODUCT, _ATOM = 0, 1, 2
_POWERS = ((0.5, ".sqrt()"), (-0.5, ".powf(-0.5)"), (0.25, ".powf(0.25)"), (-0.25, ".powf(-0.25)"))
_LARGEST_FACTOR = 64
_DIVISORS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 32, 64)
"""What a size is divided by if the quotient is rounded; any number at all would fit some column by chance."""
_LARGEST_LOGARITHM = 36
"""The logarithm of 2⁵², beyond which a whole number is not known by its value."""


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
        self._found: dict[tuple[Column, float], list[Expression]] = {}
        self._digits = _DIGITS

    def explanations(self, target: Column, digits: float = _DIGITS) -> list[Expression]:
        """The expressions of the simplest form that hold in every capture, up to the digits; none if there is none."""
        if (target, digits) not in self._found:
            self._digits = digits
            self._found[target, digits] = self._search(target) if len(set(target)) > 1 else []
        return self._found[target, digits]

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
            lambda: _rounded_parts(self._wholes, target),
            lambda: self._threes(target),
            lambda: self._shares(target),
            lambda: [e for e, column in self._sums.items() if column == target],
            lambda: _away(self._products, target, 2),
            lambda: _parts_away(self._wholes, target),
            lambda: self._differences(target),
            lambda: _rounded_parts(self._products, target),
            lambda: self._rests(target),
            lambda: _subtracted(self._wholes, target),
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
            products = (e for e, known in self._products.items() if known == size)
            for found in [*self._by_column.get(size, ()), *_multiples(self._wholes, size), *products]:
                yield _share(real, found)

    def _rests(self, target: Column) -> Iterator[Expression]:
        """What a share of a size leaves of it."""
        for real, factors in self._reals.items():
            for whole, sizes in (*self._wholes.items(), *self._products.items()):
                if tuple(s - int(f * s) for s, f in zip(sizes, factors, strict=True)) == target:
                    yield _infix(whole, "-", _share(real, whole))

    def _differences(self, target: Column) -> Iterator[Expression]:
        """What a size leaves of a product or quotient of two."""
        for pair, column in self._products.items():
            rest = _applied("-", column, target)
            for third in self._by_column.get(rest, ()) if rest is not None else ():
                yield _infix(pair, "-", third)

    # real numbers

    def _real(self, target: Column) -> Iterator[Expression]:
        sign = -1 if all(value < 0 for value in target) else 1
        positive = tuple(sign * value for value in target)
        if any(value <= 0 for value in positive):
            return
        for expression in self._positive(positive):
            yield expression if sign > 0 else Expression(f"-({expression.text})", expression.sizes, "f64")

    def _positive(self, target: Column) -> list[Expression]:
        if found := [e for e, column in self._reals.items() if _are_close(column, target, self._digits)]:
            return found
        for expression, column in self._reals.items():
            factor = _constant(
                (t / c if c else math.nan for t, c in zip(target, column, strict=True)), self._digits
            )
            if factor is not None:
                return [Expression(f"{expression.text} * {factor!r}", expression.sizes, "f64", _PRODUCT)]
        whole = _rounded(target, self._digits)
        if whole is not None:
            return [_float(item) for item in self._whole(whole)]
        whole = _rounded(tuple(1 / value for value in target), self._digits)
        if whole is not None and (found := self._whole(whole)):
            return [Expression(f"1.0 / {_cast(e)}", e.sizes, "f64", _PRODUCT) for e in found]
        if found := [*self._quotients(target), *self._logarithms(target)]:
            return found
        for power, method in _POWERS:
            whole = _rounded(tuple(value ** (1 / power) for value in target), abs(self._digits / power))
            if whole is not None and (found := self._whole(whole)):
                return [Expression(f"({_float(e).text}){method}", e.sizes, "f64") for e in found]
        return []

    def _quotients(self, target: Column) -> Iterator[Expression]:
        """One size over another, or over a multiple or part of one, not rounded."""
        for above, column in self._wholes.items():
            below = _rounded(tuple(c / t for c, t in zip(column, target, strict=True)), self._digits)
            if below is None:
                continue
            forms = (*self._by_column.get(below, ()), *_multiples(self._wholes, below))
            for found in forms or _rounded_parts(self._wholes, below):
                text = f"{above.as_float} / {_cast(found)}"
                yield Expression(text, above.sizes | found.sizes, "f64", _PRODUCT)

    def _logarithms(self, target: Column) -> Iterator[Expression]:
        """The natural logarithm of a size, or of a quotient."""
        if max(target) > _LARGEST_LOGARITHM:
            return
        powers = tuple(math.exp(value) for value in target)
        whole = _rounded(powers, max(target) * self._digits)
        for found in self._by_column.get(whole, ()) if whole is not None else ():
            yield Expression(f"({found.as_float}).ln()", found.sizes, "f64")
        for found in self._quotients(powers):
            yield Expression(f"({found.text}).ln()", found.sizes, "f64")


def _share(real: Expression, whole: Expression) -> Expression:
    """A real number times a size, rounded down."""
    text = f"({real.text} * {whole.as_float}) as usize"
    return Expression(text, real.sizes | whole.sizes, binding=_PRODUCT)


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
        parts = {c // t if t and c % t == 0 else 0 for t, c in zip(target, column, strict=True)}
        if len(parts) == 1 and 1 < (part := parts.pop()) <= _LARGEST_FACTOR:
            yield _infix(expression, "/", int(part))


def _rounded_parts(known: Mapping[Expression, Column], target: Column) -> Iterator[Expression]:
    """Parts of what is known, rounded down or up."""
    for part in _DIVISORS:
        for expression, column in known.items():
            if all(c // part == t for t, c in zip(target, column, strict=True)):
                yield _infix(expression, "/", part)
            if all(-(-c // part) == t for t, c in zip(target, column, strict=True)):
                yield Expression(f"{expression.operand(_ATOM)}.div_ceil({part})", expression.sizes)


def _away(known: Mapping[Expression, Column], target: Column, most: int) -> Iterator[Expression]:
    """What is a constant away from what is known."""
    for expression, column in known.items():
        away = {t - c for t, c in zip(target, column, strict=True)}
        if len(away) == 1 and 0 < abs(difference := int(away.pop())) <= most:
            yield _infix(expression, "+" if difference > 0 else "-", abs(difference))


def _parts_away(known: Mapping[Expression, Column], target: Column) -> Iterator[Expression]:
    """A part of a size, rounded down, and a small constant: `cfg.num_buckets / 2 - 1`."""
    for expression, column in known.items():
        for part in range(2, 9):
            away = {t - c // part for t, c in zip(target, column, strict=True)}
            if len(away) == 1 and 0 < abs(difference := int(away.pop())) <= 2:
                yield _infix(_infix(expression, "/", part), "+" if difference > 0 else "-", abs(difference))


def _subtracted(known: Mapping[Expression, Column], target: Column) -> Iterator[Expression]:
    """What a size, or a part of it, leaves of a constant: `16 - cfg.window_size / 2`."""
    for part in range(1, 5):
        for expression, column in known.items():
            whole = {t + c // part for t, c in zip(target, column, strict=True)}
            if len(whole) == 1:
                taken = expression if part == 1 else _infix(expression, "/", part)
                yield _infix(int(whole.pop()), "-", taken)


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


def _constant(values: Iterator[float], digits: float) -> float | None:
    """The number that all of them are, as short as it can be written."""
    known = list(values)
    first = float(f"{known[0]:.12g}") if digits <= _DIGITS else float(f"{known[0]:.7g}")
    return first if _are_close(known, [first] * len(known), digits) else None


def _rounded(values: Column, digits: float) -> Column | None:
    """The whole numbers that these are; None if one is not."""
    if any(not math.isfinite(value) or value > min(2**53, 0.1 / digits) for value in values):
        return None
    whole = tuple(round(value) for value in values)
    return whole if _are_close(values, whole, digits) else None


def _are_close(values: Sequence[int | float], others: Sequence[int | float], digits: float) -> bool:
    return all(math.isclose(one, other, rel_tol=digits) for one, other in zip(values, others, strict=True))


def _cast(e: Expression) -> str:
    return f"({_float(e).text})"


def _float(e: Expression) -> Expression:
    return Expression(e.as_float, e.sizes, "f64", _PRODUCT)


def _negative(e: Expression) -> Expression:
    return Expression(f"-({e.operand(_ATOM)} as i64)", e.sizes, "i64")
