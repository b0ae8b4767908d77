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


def were_all_run(nodes: Iterable[torch.fx.Node], ran: Counter[OpOverload]) -> bool:
    """Whether every operation of a graph that computes something was run by eager PyTorch, as often as it is there."""
    asked = Counter(node.target for node in nodes if isinstance(node.target, OpOverload) and _computes(node))
    return bool(asked) and all(ran[operation] >= number for operation, number in asked.items())  # type: ignore[index]


def _computes(node: torch.fx.Node) -> bool:
    target = node.target
    return isinstance(target, OpOverload) and all(one.alias_info is None for one in target._schema.returns)
