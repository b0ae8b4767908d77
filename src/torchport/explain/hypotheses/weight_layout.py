"""A weight has another layout: transposed, flipped, or with the gates of a recurrent layer in another order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from torchport.explain.bound_operation import BoundOperation
from torchport.explain.hypotheses.hypothesis import Hypothesis

_GATES = {"aten.lstm.input": "ifgo", "aten.gru.input": "rzn"}
"""The letters by which the gates of an operation are known, in torch's order."""


def transposed(operation: BoundOperation) -> Iterator[Hypothesis]:
    """A weight the other way round, if its shape does not give it away."""
    for name in ("weight", "mat2", "other"):
        weight = operation.get(name)
        if not isinstance(weight, torch.Tensor) or weight.ndim < 2:
            continue
        for first, second in itertools.combinations(range(weight.ndim), 2):
            if weight.shape[first] == weight.shape[second] > 1:
                text = f"{name} is transposed (axes {first} and {second})"
                compute = partial(_with_transposed, operation, name, first, second)
                yield Hypothesis("transposed_weight", text, compute)
        if weight.ndim > 2:
            text = f"the kernel of {name} is flipped"
            yield Hypothesis("transposed_weight", text, partial(_with_flipped_kernel, operation, name))


def _with_transposed(operation: BoundOperation, name: str, first: int, second: int) -> Any:
    return operation(**{name: operation[name].transpose(first, second).contiguous()})


def _with_flipped_kernel(operation: BoundOperation, name: str) -> Any:
    weight: torch.Tensor = operation[name]
    return operation(**{name: weight.flip(list(range(2, weight.ndim)))})


def gates_reordered(operation: BoundOperation) -> Iterator[Hypothesis]:
    letters = _GATES.get(operation.node.op)
    if letters is None:
        return
    for order in itertools.permutations(range(len(letters))):
        if list(order) != sorted(order):
            found = "".join(letters[gate] for gate in order)
            text = f"the gates are in the order {found}, not {letters}"
            yield Hypothesis("gate_order", text, partial(_with_gates, operation, order))


def _with_gates(operation: BoundOperation, order: tuple[int, ...]) -> Any:
    reordered = []
    for weight in operation["params"]:
        gates = weight.chunk(len(order))
        reordered.append(torch.cat([gates[gate] for gate in order]))
    return operation(params=reordered)
