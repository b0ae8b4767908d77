"""Checkpoints, which forget what is inside them and compute it again in the backward pass, and their gradients.

A checkpoint that is not reentrant gives the values of the forward pass again. One that is reentrant runs without
recording gradients at first, and goes back by itself through what it then computes again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node

from torchport.candidates.cuts import Cut, Flow, Gradients, Starts, gradients_of

_REENTRANT = "CheckpointFunctionBackward"


def gradients_at(probe: Flow | Cut, starts: Starts, parameters: Mapping[str, Tensor]) -> Gradients:
    """The gradient of each parameter and at each border that the probe knows, None where none arrives.

    No parameter may have a gradient before, see `without_gradients`.
    """
    if not _is_reentrant(start for start, _ in starts):
        return gradients_of(_recorded([*starts, *probe.further_starts()]), {**probe.ends, **parameters})
    try:
        probe.note_arrivals()
        _go_back(starts)
        _go_back(probe.further_starts())
        found = {name: parameter.grad for name, parameter in parameters.items()}
        return {**probe.arrivals(), **found}
    finally:
        for parameter in parameters.values():
            parameter.grad = None


def _go_back(starts: Starts) -> None:
    if _recorded(starts):
        outputs, given = zip(*_recorded(starts), strict=True)
        torch.autograd.backward(outputs, given)


def _recorded(starts: Starts) -> Starts:
    return [(start, gradient) for start, gradient in starts if start.requires_grad]


def _is_reentrant(starts: Iterable[Tensor]) -> bool:
    """Whether the way back leads through a reentrant checkpoint, which only `backward` can go through."""
    waiting: list[Node] = [start.grad_fn for start in starts if start.grad_fn is not None]
    known: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node in known:
            continue
        if node.name() == _REENTRANT:
            return True
        known.add(node)
        waiting += [following for following, _ in node.next_functions if following is not None]
    return False


@contextmanager
def without_gradients(*models: nn.Module) -> Iterator[None]:
    """Within, no parameter has a gradient; afterwards each has the one that it had before."""
    before = [(parameter, parameter.grad) for model in models for parameter in model.parameters()]
    try:
        for parameter, _ in before:
            parameter.grad = None
        yield
    finally:
        for parameter, gradient in before:
            parameter.grad = gradient
