"""The data model of a captured model: modules, their graphs, and typed arguments.

The reader makes these values from what torch traced; the interpreter, the targets and the JSON files share them. A free
size is a `Sym`, an expression over the capture's symbols, so no node computes sizes or hands them on.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

Expr = int | str | tuple[Any, ...]
"""An integer, a symbol's name, or `(operation, operand, …)`."""

_FOLD: dict[str, Callable[..., int]] = {
    "add": lambda *xs: sum(xs),
    "mul": lambda *xs: math.prod(xs),
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "pow": lambda a, b: a**b,
    "max": max,
    "min": min,
}
SYM_OPERATIONS = frozenset(_FOLD)


@dataclass(frozen=True)
class Sym:
    """A size that depends on free dimensions."""

    expr: Expr

    def symbols(self) -> set[str]:
        return set(_symbols(self.expr))

    def evaluate(self, bindings: Mapping[str, int]) -> int:
        return _evaluate(self.expr, bindings)


def _symbols(expr: Expr) -> Iterator[str]:
    if isinstance(expr, str):
        yield expr
    elif isinstance(expr, tuple):
        for operand in expr[1:]:
            yield from _symbols(operand)


def _evaluate(expr: Expr, bindings: Mapping[str, int]) -> int:
    if isinstance(expr, int):
        return expr
    if isinstance(expr, str):
        return bindings[expr]
    return _FOLD[expr[0]](*(_evaluate(operand, bindings) for operand in expr[1:]))


Dim = int | Sym


def added(*dims: Dim) -> Dim:
    """The sum of sizes."""
    total = sum(dim for dim in dims if isinstance(dim, int))
    free = [dim.expr for dim in dims if isinstance(dim, Sym)]
    if not free:
        return total
    operands = [*([total] if total else []), *free]
    return Sym(operands[0]) if len(operands) == 1 else Sym(("add", *operands))


@dataclass(frozen=True)
class Ref:
    """The value of a node, an input or a weight of the same module; `index` picks one of several outputs."""

    name: str
    index: int = 0


@dataclass(frozen=True)
class Dtype:
    name: str


@dataclass(frozen=True)
class Device:
    name: str


@dataclass(frozen=True)
class Layout:
    name: str


@dataclass(frozen=True)
class MemoryFormat:
    name: str


Arg = Any
"""Ref, Sym, Dtype, Device, Layout, MemoryFormat, None, bool, int, float, str, or a list of these."""


@dataclass(frozen=True)
class TensorMeta:
    shape: tuple[Dim, ...]
    dtype: str

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    @property
    def is_static(self) -> bool:
        return all(isinstance(dim, int) for dim in self.shape)


def dtype_name(dtype: object) -> str:
    """torch's dtype by the name that a graph has for it: `float32` of `torch.float32`."""
    return str(dtype).removeprefix("torch.")


FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
CALL = "call"
"""The operation of a node that calls a submodule; its `target` is the module's key."""
UNKNOWN = "torchport.unknown.default"
"""The operation of a node that stands for what a module computes and no graph says."""


@dataclass(frozen=True)
class Node:
    name: str
    op: str
    args: tuple[Arg, ...]
    kwargs: dict[str, Arg]
    outputs: tuple[TensorMeta | None, ...]
    target: str | None = None
    source: str | None = None
    hint: str | None = None
    """The variable that the user's source assigns this value to."""
    bodies: dict[str, str] = field(default_factory=dict)
    """The graphs that a control-flow operation runs: from their roles (`true`, `false`) to the keys of modules."""
    layer: str | None = None
    """Inside a body: the path of the module that ran the operation, if tracing kept it."""


@dataclass(frozen=True)
class Input:
    name: str
    meta: TensorMeta
    hint: str | None = None


def path_of(key: str) -> str:
    """The path in the module tree of a module's key, in which `@n` marks later calls that have another graph."""
    return _LATER_CALL.sub("", key)


_LATER_CALL = re.compile(r"@\d+")


@dataclass(frozen=True)
class Module:
    """One module of the tree that ran. `key` is its path, with `@n` if a later call has another graph."""

    key: str
    type: str
    inputs: tuple[Input, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Arg, ...]
    params: dict[str, str] = field(default_factory=dict)
    """The weights that the module reads: from the name that its nodes use to the weight's own name."""
    attributes: dict[str, Any] = field(default_factory=dict)
    """The module's own plain numbers, strings and flags (`num_heads`, `eps`)."""
    source: str | None = None

    @property
    def path(self) -> str:
        return path_of(self.key)

    @property
    def class_name(self) -> str:
        return self.type.rpartition(".")[2]


@dataclass(frozen=True)
class Weight:
    meta: TensorMeta
    kind: str
    """parameter, buffer or constant."""
    tied_to: str | None = None
    """The name of another weight, if both are one tensor."""
    value: int | float | None = None
    """The value of a tensor that is one number and no weight, if it is another at other sizes of the model."""


@dataclass(frozen=True)
class Symbol:
    """A free dimension: the axis of an input that it is read from, and the lengths that export allows."""

    name: str
    input: str
    axis: int
    low: int
    high: int | None
    example: int | None = None
    """The length of that axis in the example inputs; None if an earlier version captured the model."""


RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Condition:
    """What the model found out about free sizes when it was captured: else the model may do otherwise."""

    left: Dim
    relation: str
    right: Dim
    source: str | None = None
    is_limit: bool = False
    """Whether the limits of a symbol say the same."""
    otherwise: tuple[Condition, ...] = ()
    """What will do as well if this is not so."""

    def symbols(self) -> set[str]:
        return symbols_of([side for one in self.alternatives for side in one.sides])

    @property
    def alternatives(self) -> tuple[Condition, ...]:
        """The relations of which one must be so."""
        return replace(self, otherwise=()), *self.otherwise

    def holds(self, bindings: Mapping[str, int]) -> bool:
        return any(one._is_so(bindings) for one in self.alternatives)

    def _is_so(self, bindings: Mapping[str, int]) -> bool:
        try:
            left, right = (
                _evaluate(dim.expr if isinstance(dim, Sym) else dim, bindings) for dim in self.sides
            )
        except ZeroDivisionError:
            return False
        return RELATIONS[self.relation](left, right)

    @property
    def sides(self) -> tuple[Dim, Dim]:
        return self.left, self.right

    def __str__(self) -> str:
        """As Python writes it."""
        if self.otherwise:
            return " or ".join(map(str, self.alternatives))
        left, right = (_written(dim.expr if isinstance(dim, Sym) else dim) for dim in self.sides)
        bare = left[1:-1] if left.startswith("(") else left
        return f"{bare} {self.relation} {right}"


def _written(expr: Expr) -> str:
    if not isinstance(expr, tuple):
        return str(expr)
    operation, *operands = expr
    texts = [_written(operand) for operand in operands]
    return f"({_SIGNS[operation].join(texts)})" if operation in _SIGNS else f"{operation}({', '.join(texts)})"


_SIGNS = {"add": " + ", "mul": " * ", "floordiv": " // ", "mod": " % ", "pow": " ** "}


@dataclass(frozen=True)
class Move:
    """A number that is another in a variant, and the fields of the config that it moved with there."""

    variant: int
    number: int | float
    other: int | float
    fields: tuple[str, ...]


@dataclass(frozen=True)
class Graph:
    """A captured model: everything that a target needs but the values of weights."""

    name: str
    modules: dict[str, Module]
    weights: dict[str, Weight]
    symbols: tuple[Symbol, ...]
    output_names: tuple[str, ...]
    config: dict[str, Any] = field(default_factory=dict)
    variants: tuple[Graph, ...] = ()
    """The same model made with other numbers in its config: what shows which size follows from which."""
    conditions: tuple[Condition, ...] = ()
    """What must be so of the free sizes for the graph to stand for the model."""
    moves: tuple[Move, ...] = ()
    """Which numbers move with which fields of the config, as far as it is known."""
    bound: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Field of the config → tensors that are no weights, and have other values in the same shape if it is changed."""

    @property
    def root(self) -> Module:
        return self.modules[""]

    @cached_property
    def measured(self) -> frozenset[str]:
        """The sizes that depend on data: operations give tensors that have them, and they are read from these."""
        given = (node.outputs for module in self.modules.values() for node in module.nodes if node.op != CALL)
        dims = (dim for metas in given for meta in metas if meta is not None for dim in meta.shape)
        bare = {dim.expr for dim in dims if isinstance(dim, Sym) and isinstance(dim.expr, str)}
        return frozenset(str(name) for name in bare - {symbol.name for symbol in self.symbols})

    def bindings(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
        """The value of each symbol for inputs of these shapes."""
        return {s.name: shapes[s.input][s.axis] for s in self.symbols}

    def bindings_of(self, shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
        """The same for the shapes of all inputs in their order."""
        names = (item.name for item in self.root.inputs)
        return self.bindings(dict(zip(names, shapes, strict=True)))


def body_keys(modules: Mapping[str, Module]) -> frozenset[str]:
    """The keys of the modules that are bodies of control-flow operations."""
    return frozenset(
        key for module in modules.values() for node in module.nodes for key in node.bodies.values()
    )


def value_metas(module: Module, weights: Mapping[str, Weight]) -> dict[Ref, TensorMeta]:
    """What is known of each value of a module that is a tensor: its inputs, weights and results."""
    metas = {Ref(item.name): item.meta for item in module.inputs}
    metas |= {Ref(name): weights[weight].meta for name, weight in module.params.items()}
    for node in module.nodes:
        metas |= {Ref(node.name, index): meta for index, meta in enumerate(node.outputs) if meta is not None}
    return metas


def reached(modules: Mapping[str, Module], key: str) -> Iterator[str]:
    """The keys of a module, of all that it calls, and of the bodies of its control flow."""
    yield key
    for node in modules[key].nodes:
        if node.op == CALL and node.target is not None:
            yield from reached(modules, node.target)
        for body in node.bodies.values():
            yield from reached(modules, body)


def refs(arg: Arg) -> Iterator[Ref]:
    """Every value that an argument reads."""
    if isinstance(arg, Ref):
        yield arg
    elif isinstance(arg, list | tuple):
        for item in arg:
            yield from refs(item)
    elif isinstance(arg, dict):
        for item in arg.values():
            yield from refs(item)


def symbols_of(arg: Arg) -> set[str]:
    """The free sizes in an argument."""
    if isinstance(arg, Sym):
        return arg.symbols()
    if isinstance(arg, dict):
        return symbols_of(list(arg.values()))
    return set().union(*map(symbols_of, arg)) if isinstance(arg, list | tuple) else set()


def map_args(arg: Arg, change: Callable[[Arg], Arg]) -> Arg:
    """The same argument with `change` applied to every leaf."""
    if isinstance(arg, list | tuple):
        return type(arg)(map_args(item, change) for item in arg)
    if isinstance(arg, dict):
        return {key: map_args(item, change) for key, item in arg.items()}
    return change(arg)


def map_node(node: Node, change: Callable[[Arg], Arg]) -> Node:
    return replace(node, args=map_args(node.args, change), kwargs=map_args(node.kwargs, change))
