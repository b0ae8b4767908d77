"""Another value of the layer: in the place of an operand, added to the result, or passed through one operation more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

import torch

from torchport.explain.bound_operation import BoundOperation
from torchport.explain.fitting import rounded
from torchport.explain.hypotheses.hypothesis import Hypothesis

_MOST_VALUES = 24
"""So many other values are tried in the place of one operand."""
_MASKS = {"attn_mask", "mask", "condition"}
_FEWEST_ELEMENTS = 8
"""A value with fewer is not fitted to a difference: a number or two explain nothing."""
_MOST_LEFT = 0.01


def operand_is_another(operation: BoundOperation) -> Iterator[Hypothesis]:
    """An operand that is another value of the layer, of the same shape and type."""
    for name, operand in operation.tensors.items():
        is_weight = operation.is_weight(name)
        kind = "neighbour_weight" if is_weight else "mask" if name in _MASKS else "wrong_tensor"
        pool = operation.weights if is_weight else operation.values
        alike = (
            (other, value)
            for other, value in pool.items()
            if value.shape == operand.shape and value.dtype == operand.dtype and value is not operand
        )
        for other, value in islice(alike, _MOST_VALUES):
            text = f"{operation.described(name)} is {other}"
            yield Hypothesis(kind, text, partial(operation, **{name: value}))


def weights_are_another_layers(operation: BoundOperation) -> Iterator[Hypothesis]:
    """All weights of the operation are those of another layer: it was called in the place of the right one."""
    named = {name: operation.weight_name(name) for name in operation.tensors}
    own = {name: full for name, full in named.items() if full is not None}
    if len(own) < 2:
        return
    prefixes = {name.rpartition(".")[0] for name in operation.weights} - {
        full.rpartition(".")[0] for full in own.values()
    }
    for prefix in sorted(prefixes):
        others = {name: f"{prefix}.{full.rpartition('.')[2]}".removeprefix(".") for name, full in own.items()}
        if all(other in operation.weights for other in others.values()):
            changed = {name: operation.weights[other] for name, other in others.items()}
            text = f"its weights are those of {prefix or 'the layer around it'}"
            yield Hypothesis("neighbour_weight", text, partial(operation, **changed))


def added(operation: BoundOperation) -> Iterator[Hypothesis]:
    """A value of the layer, or a multiple of it, that is added to the result or missing from it."""
    golden, observed = operation.result, operation.observed
    if observed is None or not _is_number(golden) or observed.shape != golden.shape:
        return
    difference = observed.double() - golden.double()
    total = difference.square().sum()
    if not torch.isfinite(total):
        return
    for name, value in {**operation.values, **operation.weights}.items():
        term = _spread(value, golden)
        if term is None or torch.equal(term, golden):
            continue
        times = ((difference * term).sum() / term.double().square().sum()).item()
        if (difference - times * term).square().sum() <= _MOST_LEFT * total:
            times = rounded(times, digits=3)
            kind, text = _of_a_term(name, times)
            yield Hypothesis(kind, text, partial(torch.add, golden, term, alpha=times))


def _of_a_term(name: str, times: float) -> tuple[str, str]:
    if times == 1.0:
        return "repeated", f"{name} is added once more"
    if times == -1.0:
        return "dropped_operand", f"{name} is left out"
    return "scale", f"{times:g} times {name} is added"


def _spread(value: torch.Tensor, golden: torch.Tensor) -> torch.Tensor | None:
    """The value in the shape of the result; None if it does not fit, or is too little to be recognised."""
    if not _is_number(value) or value.numel() < _FEWEST_ELEMENTS or not bool(torch.isfinite(value).all()):
        return None
    try:
        return value.broadcast_to(golden.shape) if bool(value.any()) else None
    except RuntimeError:
        return None


def _is_number(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def moved(operation: BoundOperation) -> Iterator[Hypothesis]:
    """Another operation of the layer that is applied to an operand, too: two operations in the other order."""
    for other in _unary(operation.layer).values():
        if other.node.name == operation.node.name:
            continue
        for name, operand in operation.tensors.items():
            if operand.is_floating_point() and not operation.is_weight(name):
                text = f"{other.short_name} is applied to {operation.described(name)} before"
                yield Hypothesis("moved", text, partial(_with_applied, operation, name, other))


def made_of_another(operation: BoundOperation) -> Iterator[Hypothesis]:
    """A value that no operation computes, in the place of which is what one makes of another value."""
    if not operation.is_a_copy:
        return
    for other in _unary(operation.layer).values():
        for name, value in islice(operation.values.items(), _MOST_VALUES):
            if value.shape == operation.result.shape and value.dtype == operation.result.dtype:
                text = f"it is {other.short_name} of {name}"
                yield Hypothesis("wrong_tensor", text, partial(_applied, other, value))


def _with_applied(operation: BoundOperation, name: str, other: BoundOperation) -> Any:
    return operation(**{name: _applied(other, operation[name])})


def _unary(layer: Mapping[str, BoundOperation]) -> dict[str, BoundOperation]:
    """Those operations of a layer that make one value of one other, of the same shape; each once."""
    found: dict[str, BoundOperation] = {}
    for operation in layer.values():
        tensors = [value for name, value in operation.tensors.items() if not operation.is_weight(name)]
        result = operation.result
        if len(tensors) == 1 and _is_number(result) and tensors[0].shape == result.shape:
            settings = {name: value for name, value in operation.arguments.items() if name != "self"}
            found.setdefault(f"{operation.node.op} {_settings(settings)}", operation)
    return found


def _settings(arguments: Mapping[str, Any]) -> str:
    return str({name: value for name, value in arguments.items() if not isinstance(value, torch.Tensor)})


def _applied(operation: BoundOperation, value: torch.Tensor) -> Any:
    """What an operation of one value makes of another."""
    (name,) = (name for name in operation.tensors if not operation.is_weight(name))
    return operation(**{name: value})
