"""An argument that is not a tensor has another value: a word, a flag, a number, a stride, an axis, an index."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from torchport.explain.bound_operation import BoundOperation
from torchport.explain.hypotheses.hypothesis import Hypothesis

_WORDS: dict[str, tuple[str, tuple[str | None, ...]]] = {
    "approximate": ("gelu_tanh", ("none", "tanh")),
    "rounding_mode": ("rounding_mode", (None, "trunc", "floor")),
    "mode": ("pad_mode", ("constant", "reflect", "replicate", "circular")),
}
"""Argument → kind of hypothesis, and the values that it can have."""
_FLAGS = {
    "is_causal": "causal",
    "align_corners": "align_corners",
    "count_include_pad": "pad",
    "ceil_mode": "pad",
}
"""Argument → kind of hypothesis, as in the tables below."""
_STEPS = {"stride": "stride", "dilation": "dilation", "padding": "pad", "pad": "pad", "output_padding": "pad"}
_INDICES = {
    "diagonal": "causal",
    "start": "off_by_one",
    "end": "off_by_one",
    "index": "off_by_one",
    "shifts": "off_by_one",
    "step": "off_by_one",
}
_EPSILONS = (1e-14, 1e-1)
_SPANS = {"eps": _EPSILONS, "scale": (1e-4, 1e4)}
"""Argument → the numbers that are tried. Such an argument may be left out, and then has a default of its own."""
_NOT_FITTED = {"dim", "dim0", "dim1", "p", "fill_value", "dropout_p", "momentum"}
_MOST_AXES = 5
"""Lists of axes are not tried for tensors with more axes than this: there are too many."""


def another_word(operation: BoundOperation) -> Iterator[Hypothesis]:
    """A word such as the approximation of gelu."""
    for name, (kind, words) in _WORDS.items():
        if name in operation.arguments:
            yield from _instead(operation, name, kind, (word for word in words if word != operation[name]))


def another_flag(operation: BoundOperation) -> Iterator[Hypothesis]:
    for name, value in operation.arguments.items():
        if isinstance(value, bool) and name in _FLAGS:
            yield from _instead(operation, name, _FLAGS[name], [not value])


def another_number(operation: BoundOperation) -> Iterator[Hypothesis]:
    """An epsilon, a scale or another number, fitted to what the port computed."""
    for name, value in operation.arguments.items():
        if name in _SPANS and (value is None or isinstance(value, float)):
            yield _fitted(operation, name, name, _SPANS[name], sign=1.0)
        elif isinstance(value, float) and name not in _NOT_FITTED and value:
            kind = "eps" if 0 < value < 1e-2 else "scale" if name == "other" else "number"
            span = _EPSILONS if kind == "eps" else (abs(value) * 1e-4, abs(value) * 1e4)
            yield _fitted(operation, name, kind, span, sign=1.0 if value > 0 else -1.0)


def _fitted(
    operation: BoundOperation, name: str, kind: str, span: tuple[float, float], sign: float
) -> Hypothesis:
    value = operation[name]
    was = "its default" if value is None else f"{value:g}"
    compute = partial(_with_number, operation, name, sign)
    return Hypothesis(kind, f"{name} is {{value}} where the model has {was}", compute, span)


def _with_number(operation: BoundOperation, name: str, sign: float, number: float) -> Any:
    return operation(**{name: sign * number})


def another_step(operation: BoundOperation) -> Iterator[Hypothesis]:
    """Stride, dilation and padding: none, one more, one less, the other way round."""
    for name, kind in _STEPS.items():
        value = operation.get(name)
        if isinstance(value, list) and all(isinstance(item, int) for item in value):
            yield from _instead(operation, name, kind, _other_steps(value, none=0 if kind == "pad" else 1))


def _other_steps(value: list[int], none: int) -> list[list[int]]:
    tried = [[none] * len(value), value[::-1], *([item + by for item in value] for by in (1, -1))]
    for index in range(len(value)):
        tried += [[*value[:index], value[index] + by, *value[index + 1 :]] for by in (1, -1)]
    different: list[list[int]] = []
    for other in tried:
        if other != value and other not in different and min(other, default=0) >= 0:
            different.append(other)
    return different


def another_axis(operation: BoundOperation) -> Iterator[Hypothesis]:
    rank = _rank(operation)
    for name in ("dim", "dim0", "dim1", "axis"):
        value = operation.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            others = (axis for axis in range(rank) if axis != value % max(rank, 1))
            yield from _instead(operation, name, "axis", others)
    for name in ("dim", "dims"):
        value = operation.get(name)
        if isinstance(value, list) and 0 < len(value) <= rank <= _MOST_AXES:
            here = tuple(axis % rank for axis in value)
            choices = itertools.permutations if name == "dims" else itertools.combinations
            lists = (list(axes) for axes in choices(range(rank), len(value)) if axes != here)
            yield from _instead(operation, name, "axis", lists)


def _rank(operation: BoundOperation) -> int:
    """The most axes that an operand has."""
    rank = max((tensor.ndim for tensor in operation.tensors.values()), default=0)
    if rank == 0 and isinstance(operation.get("tensors"), list) and operation["tensors"]:
        rank = operation["tensors"][0].ndim
    return rank


def off_by_one(operation: BoundOperation) -> Iterator[Hypothesis]:
    for name, kind in _INDICES.items():
        value = operation.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            yield from _instead(operation, name, kind, [value + 1, value - 1])
        elif isinstance(value, list) and name == "shifts":
            yield from _instead(operation, name, kind, [[-item for item in value]])


def _instead(operation: BoundOperation, name: str, kind: str, others: Iterable[Any]) -> Iterator[Hypothesis]:
    """One hypothesis for each other value that an argument may have."""
    for other in others:
        text = f"{name} is {_shown(other)} where the model has {_shown(operation[name])}"
        yield Hypothesis(kind, text, partial(operation, **{name: other}))


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str) else str(value)
