"""Computing the operations of a graph again by eager PyTorch: from the backend's values, or from the inputs on.

In: the values that the backend gave. Out: what eager gives from the same inputs, for single operations, for the
operations of a module in a row, and for a whole graph; in the graph's own dtypes, in float64, or in a class of
arithmetic.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from torchport.arithmetic.classes import Arithmetic
from torchport.arithmetic.emulation import Emulated
from torchport.capture.torch_internals import without_modes
from torchport.debug.kernel_diff.captured import CapturedGraph
from torchport.debug.kernel_diff.steps import Step, outputs_of
from torchport.debug.kernel_diff.truth import AS_IT_IS, InFloat64, NoFloat64, one_rounding_apart

Mode = Callable[[], AbstractContextManager[Any]]
ValueOf = Callable[[torch.fx.Node], Any]
Keep = Callable[[str, Any], None]
Settle = Callable[[torch.fx.Node, Any, ValueOf], Any]


class NotComputable(Exception):
    """An operation cannot be computed from the backend's values."""


def as_it_is() -> AbstractContextManager[Any]:
    return nullcontext()


def in_float64() -> AbstractContextManager[Any]:
    return InFloat64()()


def as_class(arithmetic: Arithmetic) -> Mode:
    return lambda: Emulated(arithmetic)


@dataclass
class Computing:
    """A graph, the values that the backend gave for it, and what else a node may read."""

    graph: CapturedGraph
    steps: Sequence[Step]
    values: Mapping[str, Tensor]
    plain: dict[str, Any] = field(default_factory=dict)
    """By node, what the backend does not give: numbers that are no tensors, such as sizes, and seeds."""
    settle: Settle | None = None
    """What an operation among others gives in the place of what was computed: a choice, as it was made elsewhere."""

    def __post_init__(self) -> None:
        inputs = zip(self.graph.placeholders, self.graph.inputs, strict=True)
        self.inputs = {node.name: value for node, value in inputs}
        self.fed = {value.name for step in self.steps if step.left_out is not None for value in step.values}
        """Nodes that eager PyTorch does not compute again."""

    def one(self, step: Step, mode: Mode = as_it_is) -> list[Any]:
        """The tensors that one operation gives, from the backend's values."""
        with torch.no_grad(), mode():
            return step.parts(self._computed(step.node, self.given))

    def in_a_row(self, steps: Sequence[Step], wanted: Sequence[torch.fx.Node], mode: Mode) -> list[Any]:
        """The values of some nodes, from operations of which each works on what those before it have computed."""
        known: dict[str, Any] = {}
        computed = [step for step in steps if step.left_out is None]
        readers = Readers([step.node for step in computed], keep={node.name for node in wanted})

        def value_of(node: torch.fx.Node) -> Any:
            return known[node.name] if node.name in known else self.given(node)

        with torch.no_grad(), mode():
            for step in computed:
                result = self.computed_in_a_row(step.node, value_of)
                named = zip(step.values, step.parts(result), strict=True)
                known |= {value.name: _handed_on(part, value) for value, part in named}
                readers.forget(step.node, known)
        return [known.get(node.name, self.values.get(node.name)) for node in wanted]

    def whole(self, mode: Mode = as_it_is, keep: Keep | None = None) -> list[Any]:
        """The outputs of the graph, from its inputs on. `keep` is given every tensor by the name of its node."""
        row = Row(self)
        with torch.no_grad(), mode():
            row.go_on(None, keep)
        return [
            row.value_of(node) if isinstance(node, torch.fx.Node) else node for node in outputs_of(self.graph)
        ]

    def _computed(self, node: torch.fx.Node, value_of: ValueOf) -> Any:
        target: Any = node.target
        args = torch.fx.node.map_arg(node.args, value_of)
        kwargs = torch.fx.node.map_arg(node.kwargs, value_of)
        return target(*args, **kwargs)

    def computed_in_a_row(self, node: torch.fx.Node, value_of: ValueOf) -> Any:
        """The result of an operation among others. If it alone cannot be computed in float64, the others are."""
        try:
            found = self._computed(node, value_of)
        except NoFloat64 as error:
            with without_modes():
                found = self._computed(node, lambda read: _in_own_dtype(read, value_of(read)))
            error.used[str(error.func)] = AS_IT_IS
        found = _handed_on(found, node)
        return found if self.settle is None else self.settle(node, found, value_of)

    def given(self, node: torch.fx.Node) -> Any:
        """The value of a node that is not computed here: an input, a constant, or what the backend gave."""
        if node.name in self.inputs:
            return self.inputs[node.name]
        if node.op == "get_attr":
            return attribute(self.graph.module, str(node.target))
        if node.name in self.values:
            return _laid_out(self.values[node.name], node)
        if node.name in self.plain:
            return self.plain[node.name]
        raise NotComputable(f"the backend gives no value for {node.name}, which it reads")


class Readers:
    """How many of some operations have yet to read each value, so that none is held longer than it is needed."""

    def __init__(self, nodes: Iterable[torch.fx.Node], keep: Collection[str] = ()) -> None:
        self.left = Counter(name for node in nodes for name in _names(node.all_input_nodes))
        self.keep = keep

    def forget(self, node: torch.fx.Node, known: MutableMapping[str, Any]) -> None:
        """Lets go of what an operation that has been computed was the last to read."""
        for name in _names(node.all_input_nodes):
            self.left[name] -= 1
            if self.left[name] <= 0 and name not in self.keep:
                known.pop(name, None)


class Row:
    """A graph that is computed from its inputs on, in one go or in several."""

    def __init__(self, computing: Computing) -> None:
        self.computing = computing
        self.nodes = deque(node for node in computing.graph.module.graph.nodes if node.op == "call_function")
        self.readers = Readers(computing.graph.module.graph.nodes)
        self.known: dict[str, Any] = {}

    def value_of(self, node: torch.fx.Node) -> Any:
        return self.known[node.name] if node.name in self.known else self.computing.given(node)

    def go_on(self, until: torch.fx.Node | None, keep: Keep | None = None) -> None:
        """Computes what is left up to a node, or to the end."""
        given = self.computing
        while self.nodes:
            node = self.nodes.popleft()
            is_fed = node.name in given.fed and node.name in given.values
            found = given.given(node) if is_fed else given.computed_in_a_row(node, self.value_of)
            # What is no number of the model, such as a seed, has no truth: eager PyTorch's is handed on.
            self.known[node.name] = given.plain.get(node.name) if found is None else found
            if keep is not None:
                keep(node.name, self.known[node.name])
            self.readers.forget(node, self.known)
            if node is until:
                return


def attribute(module: nn.Module, path: str) -> Any:
    found: Any = module
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _in_own_dtype(node: torch.fx.Node, value: Any) -> Any:
    return one_rounding_apart(value, node.meta["val"].dtype) if isinstance(value, Tensor) else value


def _names(nodes: Iterable[torch.fx.Node]) -> list[str]:
    return [node.name for node in nodes]


def _handed_on(value: Any, node: torch.fx.Node) -> Any:
    """A value for the operations after it; in float64 with the strides of the graph, which a definition has not."""
    expected = node.meta.get("val")
    is_wide = isinstance(value, Tensor) and isinstance(expected, Tensor) and value.dtype != expected.dtype
    return _laid_out(value, node) if is_wide else value


def _laid_out(value: Tensor, node: torch.fx.Node) -> Tensor:
    """A value on the device and with the strides that it has in the graph, because views depend on them."""
    expected: Tensor = node.meta["val"]
    value = value.to(expected.device)
    strides = tuple(int(stride) for stride in expected.stride())
    is_same = value.stride() == strides or value.shape != expected.shape
    if is_same or any(stride == 0 and size > 1 for stride, size in zip(strides, value.shape, strict=True)):
        return value
    made = torch.empty_strided(value.shape, strides, dtype=value.dtype, device=value.device)
    return made.copy_(value)
