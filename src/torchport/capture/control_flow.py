"""The operations that run graphs of their own: a branch, a loop, a scan, a map. What each is called, and what it does.

In: the bodies as functions, and the operands. Out: the results. A node of such an operation has its bodies by their
roles, and takes its operands as the schemas below say. The last list of operands are the values that bodies close over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from torchport.capture.torch_internals import HigherOrderOperator, associative_scan

Tensors = Sequence[torch.Tensor]
Body = Callable[[Tensors], list[torch.Tensor]]


@dataclass(frozen=True)
class Bodies:
    """The bodies of one operation while it runs."""

    by_role: Mapping[str, Body]
    decide: Callable[[torch.Tensor], bool]
    """Whether a condition holds."""
    unstacked: Callable[[int], list[torch.Tensor]]
    """The outputs from a position on if no step ran: they have a length of 0."""

    def __getitem__(self, role: str) -> Body:
        return self.by_role[role]


@dataclass(frozen=True)
class ControlFlow:
    """A kind of control flow: what torch calls it, its bodies, and how it runs."""

    written: str
    """What a user writes for it."""
    roles: tuple[str, ...]
    """What its bodies are, in the order in which torch takes them."""
    schema: str
    """The name of the operation and its operands, in the words of torch.library."""
    run: Callable[..., list[torch.Tensor]]
    """Takes the bodies, then the operands."""

    signatures: Callable[[Sequence[int], int], dict[str, tuple[int, int]]]
    """For each body how many values it takes and gives, by how many each operand has and how many are given."""

    @property
    def name(self) -> str:
        return self.schema.partition("(")[0]

    @property
    def op(self) -> str:
        """The full name of the operation in a graph."""
        return f"torchport.{self.name}.default"


def _cond(bodies: Bodies, predicate: torch.Tensor, operands: Tensors) -> list[torch.Tensor]:
    return bodies["true" if bodies.decide(predicate) else "false"](operands)


def _while_loop(bodies: Bodies, carried: Tensors, closed_over: Tensors) -> list[torch.Tensor]:
    values = list(carried)
    while bodies.decide(bodies["condition"]([*values, *closed_over])[0]):
        values = bodies["body"]([*values, *closed_over])
    return values


def _scan(bodies: Bodies, init: Tensors, xs: Tensors, closed_over: Tensors) -> list[torch.Tensor]:
    carry, steps = list(init), []
    for index in range(len(xs[0])):
        results = bodies["body"]([*carry, *(x[index] for x in xs), *closed_over])
        carry = results[: len(init)]
        steps.append(results[len(init) :])
    return [*carry, *_stacked(bodies, steps, len(init))]


def _map(bodies: Bodies, xs: Tensors, closed_over: Tensors) -> list[torch.Tensor]:
    steps = [bodies["body"]([*(x[index] for x in xs), *closed_over]) for index in range(len(xs[0]))]
    return _stacked(bodies, steps, 0)


def _stacked(bodies: Bodies, steps: Sequence[Tensors], first: int) -> list[torch.Tensor]:
    """The results of all steps, which are the outputs of the operation from the position `first` on."""
    if not steps:
        return bodies.unstacked(first)
    return [torch.stack(values) for values in zip(*steps, strict=True)]


def _associative_scan(bodies: Bodies, xs: Tensors, closed_over: Tensors) -> list[torch.Tensor]:
    def combine(*operands: torch.Tensor) -> list[torch.Tensor]:
        return bodies["body"](operands)

    return associative_scan(combine, xs, closed_over)


_KINDS = (
    ControlFlow(
        "torch.cond",
        ("true", "false"),
        "cond(Tensor predicate, Tensor[] operands)",
        _cond,
        lambda counts, given: dict.fromkeys(("true", "false"), (counts[1], given)),
    ),
    ControlFlow(
        "while_loop",
        ("condition", "body"),
        "while_loop(Tensor[] carried, Tensor[] closed_over)",
        _while_loop,
        lambda counts, given: {"condition": (sum(counts), 1), "body": (sum(counts), counts[0])},
    ),
    ControlFlow(
        "scan",
        ("body",),
        "scan(Tensor[] init, Tensor[] xs, Tensor[] closed_over)",
        _scan,
        lambda counts, given: {"body": (sum(counts), given)},
    ),
    ControlFlow(
        "map",
        ("body",),
        "map(Tensor[] xs, Tensor[] closed_over)",
        _map,
        lambda counts, given: {"body": (sum(counts), given)},
    ),
    ControlFlow(
        "associative_scan",
        ("body",),
        "associative_scan(Tensor[] xs, Tensor[] closed_over)",
        _associative_scan,
        lambda counts, given: {"body": (counts[0] + sum(counts), counts[0])},
    ),
)
CONTROL_FLOW = {kind.op: kind for kind in _KINDS}
"""By the names of the operations: `torchport.cond.default`."""
_IN_TORCH = {"cond": "cond", "map_impl": "map"} | {
    name: name for name in ("while_loop", "scan", "associative_scan")
}
"""What torch calls its own operations → the names of ours."""

_library = torch.library.Library("torchport", "FRAGMENT")  # type: ignore[no-untyped-call]
for _kind in _KINDS:
    _library.define(f"{_kind.schema} -> Tensor[]")  # type: ignore[no-untyped-call]


def operation_for(target: object) -> str | None:
    """The name of our operation for one of torch's that runs graphs; None if there is none."""
    name = _IN_TORCH.get(str(target)) if isinstance(target, HigherOrderOperator) else None
    return None if name is None else f"torchport.{name}.default"


def decides(op: str) -> bool:
    """Whether what an operation runs depends on values."""
    return op in ("torchport.cond.default", "torchport.while_loop.default")
