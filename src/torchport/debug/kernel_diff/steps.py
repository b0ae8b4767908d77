"""The operations of a captured graph: the tensors that each gives, the calls of modules that it is in, its line."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torchport.capture.torch_internals import OpOverload, pytree
from torchport.debug.kernel_diff.captured import CapturedGraph
from torchport.debug.nodes import clean_path, full_name, line_of

_FILLED_LATER = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "empty_permuted")
_SEEDS = ("philox_seed", "philox_offset", "rng_state", "unused", "debug_attn_mask", "cum_seq_q", "cum_seq_k")
"""Names of results that are no numbers of the model."""


@dataclass(frozen=True)
class ModuleCall:
    """One call of a module, as the stack of a node names it."""

    path: str
    type: str
    number: int

    @property
    def name(self) -> str:
        return self.path if self.number == 0 else f"{self.path}#{self.number}"


@dataclass(frozen=True)
class Step:
    """One operation with the tensors that it gives."""

    node: torch.fx.Node
    values: tuple[torch.fx.Node, ...]
    """The nodes whose values they are: the node itself, or those that take its results apart."""
    op: str
    inside: tuple[ModuleCall, ...]
    """The calls around it, the outermost first."""
    source: str | None
    left_out: str | None
    """Why its values are not compared; None if they are."""
    origin: str
    """The operation of eager PyTorch that it is a part of, if that was taken apart for the backend."""

    @property
    def whole(self) -> Hashable:
        """What is the same for the parts of one operation."""
        return self.origin, self.node.meta.get("seq_nr"), self.node.meta.get("stack_trace"), self.inside

    def parts(self, result: Any) -> list[Any]:
        """The tensors in what the operation gives, in the order of `values`."""
        if self.values == (self.node,):
            return [result]
        return [result[value.args[1]] for value in self.values]


def read_steps(graph: CapturedGraph, names: Mapping[int, str]) -> list[Step]:
    """The operations that give tensors, in order. `names` has the path of each module of the model by its id."""
    return [
        Step(
            node=node,
            values=values,
            op=full_name(node, graph.module),
            inside=calls_around(node, names),
            source=line_of(node),
            left_out=_why_left_out(node, values),
            origin=str(node.meta.get("original_aten") or node.target),
        )
        for node in graph.module.graph.nodes
        if node.op == "call_function" and not is_part(node) and (values := _values(node))
    ]


def is_part(node: torch.fx.Node) -> bool:
    """Whether a node takes apart what another one gives."""
    return node.target is operator.getitem and not _gives_tensor(node.args[0])


def _values(node: torch.fx.Node) -> tuple[torch.fx.Node, ...]:
    if _gives_tensor(node):
        return (node,)
    return tuple(
        user
        for user in node.users
        if user.target is operator.getitem and _gives_tensor(user) and not _is_seed(node.target, user)
    )


def _gives_tensor(node: Any) -> bool:
    return isinstance(node, torch.fx.Node) and isinstance(node.meta.get("val"), Tensor)


def calls_around(node: torch.fx.Node, names: Mapping[int, str]) -> tuple[ModuleCall, ...]:
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    found = []
    for key, (path, kind) in stack.items():
        identity, _, number = str(key).partition("@")
        known = names.get(int(identity)) if identity.isdecimal() else None
        path = clean_path(str(path)) if known is None else known
        type_name = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
        if path:
            found.append(ModuleCall(path, type_name, int(number) if number.isdecimal() else 0))
    return tuple(found)


def _why_left_out(node: torch.fx.Node, values: Sequence[torch.fx.Node]) -> str | None:
    target = node.target
    if all(value.meta["val"].numel() == 0 for value in values):
        return "it is empty"
    if not isinstance(target, OpOverload):
        return None
    if target._schema.is_mutable:
        return "it writes to what it is given"
    if target._schema.name.partition("::")[2] in _FILLED_LATER:
        return "its memory is not filled"
    if draws_random_numbers(node):
        return "it draws random numbers: eager PyTorch goes on with those of the backend"
    return None


def _is_seed(target: Any, value: torch.fx.Node) -> bool:
    index, returns = value.args[1], target._schema.returns if isinstance(target, OpOverload) else ()
    return isinstance(index, int) and index < len(returns) and returns[index].name in _SEEDS


def draws_random_numbers(node: torch.fx.Node) -> bool:
    """Whether an operation gives other numbers with another seed; attention without dropout does not."""
    target = node.target
    if not isinstance(target, OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    for place, argument in enumerate(target._schema.arguments):
        if argument.name == "dropout_p":
            given = node.args[place] if place < len(node.args) else node.kwargs.get("dropout_p", 0.0)
            return bool(given != 0.0)
    return True


def outputs_of(graph: CapturedGraph) -> list[Any]:
    """What the graph gives: nodes, and None."""
    (output,) = (node for node in graph.module.graph.nodes if node.op == "output")
    return list(pytree.tree_leaves(output.args[0], is_leaf=lambda leaf: leaf is None))
