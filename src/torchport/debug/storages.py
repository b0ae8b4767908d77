"""Which tensors of a graph share memory: views, what is written in place, and parts of either."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from torchport.capture.torch_internals import OpOverload, storage_id
from torchport.debug.internals.operations import is_composite


@dataclass
class Storages:
    """Numbers for the memory behind the tensors of a graph, whose nodes are to be given in order.

    The fake tensors of a graph share their storages as the real ones will. If they do not, because the graph was made
    by other means, the schema of the operation says what its result is a view of.
    """

    by_id: dict[int, int] = field(default_factory=dict)
    of_nodes: dict[torch.fx.Node, tuple[int | None, ...]] = field(default_factory=dict)

    def numbers_of(self, node: torch.fx.Node, tensors: Sequence[Tensor]) -> tuple[int | None, ...]:
        viewed = viewed_nodes(node)
        numbers = tuple(
            self._number(tensor, viewed[index] if index < len(viewed) else None)
            for index, tensor in enumerate(tensors)
        )
        self.of_nodes[node] = numbers
        return numbers

    def _number(self, tensor: Tensor, viewed: torch.fx.Node | None) -> int | None:
        known = _id(tensor)
        if known is None:
            return None
        if known not in self.by_id:
            shared = self.of_nodes.get(viewed, ())[:1] if viewed is not None else ()
            self.by_id[known] = len(self.by_id) if shared in ((), (None,)) else int(shared[0] or 0)
        return self.by_id[known]


def _id(tensor: Tensor) -> int | None:
    if tensor.layout is not torch.strided:
        return None
    try:
        return storage_id(tensor)
    except (NotImplementedError, RuntimeError):
        return None


def viewed_nodes(node: torch.fx.Node) -> list[torch.fx.Node | None]:
    """For each result of an operation, the node whose memory it is by the operation's schema.

    The schema of a composite operation such as `reshape` names a view although it may be a copy: it tells nothing.
    """
    if not isinstance(node.target, OpOverload) or is_composite(node.target):
        return []
    schema = node.target._schema
    return [_argument_of(node, schema, result) for result in schema.returns]


def _argument_of(node: torch.fx.Node, schema: Any, result: Any) -> torch.fx.Node | None:
    if result.alias_info is None:
        return None
    for index, argument in enumerate(schema.arguments):
        if argument.alias_info is None or argument.alias_info.before_set != result.alias_info.before_set:
            continue
        given = node.args[index] if index < len(node.args) else node.kwargs.get(argument.name)
        return given if isinstance(given, torch.fx.Node) else None
    return None
