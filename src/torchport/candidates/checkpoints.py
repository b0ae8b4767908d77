"""Checkpoints, which forget what is inside them and compute it again in the backward pass, and their gradients.

A checkpoint that is not reentrant gives the values of the forward pass again. One that is reentrant runs without
recording gradients at first, and goes back by itself through what it then computes again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node, saved_tensors_hooks

_REENTRANT = "CheckpointFunctionBackward"


def may_be_in_a_checkpoint() -> bool:
    """Whether gradients are not recorded, or what is saved for them goes through hooks, as a checkpoint has it."""
    return not torch.is_grad_enabled() or _saves_through_hooks()


def _saves_through_hooks() -> bool:
    return torch._C._autograd._top_saved_tensors_default_hooks(False) is not None


def nodes_behind(nodes: Iterable[Node]) -> set[Node]:
    """The nodes that a backward pass from these nodes comes to."""
    waiting, known = list(nodes), set[Node]()
    while waiting:
        node = waiting.pop()
        if node not in known:
            known.add(node)
            waiting += [following for following, _ in node.next_functions if following is not None]
    return known


def is_reentrant(nodes: Iterable[Node]) -> bool:
    """Whether a reentrant checkpoint is among the nodes of a graph, which only `backward` can go through."""
    return any(node.name() == _REENTRANT for node in nodes)


def recorded_and_remembered(*, record: bool) -> ExitStack:
    """Until it is closed, what is saved for gradients is kept, and with `record` gradients are recorded.

    Inside of a checkpoint, such a part of it can be gone back through without being computed again.
    """
    modes = ExitStack()
    if record and not torch.is_grad_enabled():
        modes.enter_context(torch.enable_grad())
    if _saves_through_hooks():
        kept: AbstractContextManager[None] = saved_tensors_hooks(_as_it_is, _as_it_is)
        modes.enter_context(kept)
    return modes


def _as_it_is(tensor: Tensor) -> Tensor:
    return tensor


class GoldenBridge(torch.autograd.Function):
    """Hands on golden outputs of a call and, on the way back, golden gradients of its inputs.

    The gradients that arrive at the outputs are noted.
    """

    @staticmethod
    def over(
        inputs: Sequence[tuple[Tensor, Tensor]],
        outputs: Sequence[Tensor],
        note: Callable[[Sequence[Tensor | None]], None],
    ) -> tuple[Tensor, ...]:
        """`inputs` are tensors with their golden gradients, `outputs` golden values."""
        # A result wants a gradient only if an operand does, and there may be no input that does.
        operands = (torch.empty(0, requires_grad=True), *(tensor for tensor, _ in inputs))
        gradients = (None, *(gradient for _, gradient in inputs))
        values = [output.detach() for output in outputs]
        found: tuple[Tensor, ...] = GoldenBridge.apply(values, gradients, note, *operands)  # type: ignore[no-untyped-call]
        return found

    @staticmethod
    def forward(ctx: Any, values: Any, gradients: Any, note: Any, *operands: Tensor) -> Any:
        ctx.gradients, ctx.note = gradients, note
        ctx.set_materialize_grads(False)
        return tuple(value.clone() for value in values)

    @staticmethod
    def backward(ctx: Any, *arriving: Tensor | None) -> Any:
        ctx.note(arriving)
        return None, None, None, *ctx.gradients


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
