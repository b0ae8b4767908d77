"""Which operations of eager PyTorch run while something else should compute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from torchport.capture.torch_internals import OpOverload, TorchDispatchMode


class WatchedDispatch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within, the ATen operations that are dispatched are counted."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ran: Counter[OpOverload] = Counter()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        self.ran[func] += 1
        return func(*args, **(kwargs or {}))


def ran_as_it_is(nodes: Iterable[torch.fx.Node], ran: Counter[OpOverload]) -> bool:
    """Whether eager PyTorch ran every operation of a graph as often as it is there, and no other that computes.

    A kernel that is made of other operations of eager PyTorch, or that is not dispatched at all, is told from it so.
    """
    asked: Counter[Any] = Counter(node.target for node in nodes if node.op == "call_function")
    computed = {
        one: number for one, number in asked.items() if isinstance(one, OpOverload) and _computes(one)
    }
    return (
        bool(computed)
        and all(ran[one] >= number for one, number in computed.items())
        and all(number <= asked[one] for one, number in ran.items() if _computes(one) and one not in _MOVES)
    )


_MOVES = frozenset(
    {
        torch.ops.aten.clone.default,
        torch.ops.aten.copy_.default,
        torch.ops.aten.empty.memory_format,
        torch.ops.aten.empty_like.default,
        torch.ops.aten.empty_strided.default,
    }
)
"""What hands values on: it may run more often than the graph has it, before and after what computes."""


def _computes(operation: Any) -> bool:
    """Whether an operation does more than to look at its operand in another way."""
    if not isinstance(operation, OpOverload):
        return True
    is_view = not operation._schema.is_mutable and any(one.alias_info for one in operation._schema.returns)
    return not is_view
