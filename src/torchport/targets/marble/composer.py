"""Composing the groups of one operation: what a recipe is written with.

A recipe is given the operation's arguments: values that arrive (`Value`), weights of the model (`Weight`), and plain
ones. It makes groups, each from values of others, and gives back the values that the operation returns. Shapes are
found by doing the work of each group without numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from torchport.capture.graph import Dtype, dtype_name
from torchport.errors import ConvertError
from torchport.targets.marble import works
from torchport.targets.marble.groups import MADE, Form, Group, Kind, Port

Number = int | float | bool | complex


@dataclass(frozen=True)
class Value:
    """What a group gives, and its form."""

    port: Port
    form: Form

    @property
    def shape(self) -> tuple[int, ...]:
        return self.form.shape

    @property
    def rank(self) -> int:
        return len(self.form.shape)

    @property
    def dtype(self) -> str:
        return self.form.dtype

    @property
    def is_float(self) -> bool:
        return bool(getattr(torch, self.form.dtype).is_floating_point)


@dataclass(frozen=True)
class Weight:
    """An array of the model, by its name."""

    name: str
    form: Form

    @property
    def shape(self) -> tuple[int, ...]:
        return self.form.shape

    @property
    def rank(self) -> int:
        return len(self.form.shape)

    @property
    def dtype(self) -> str:
        return self.form.dtype


Operand = Value | Weight | Number


@dataclass
class Composer:
    """The groups of one operation so far."""

    prefix: str
    layer: str
    sizes: Mapping[str, int]
    """The free sizes of the example."""
    first: int
    """The id of the next neuron."""
    groups: list[Group] = field(default_factory=list)
    made: dict[str, Tensor] = field(default_factory=dict)
    """Arrays that the model does not have as they are, such as a factor of a normalisation."""
    forms: dict[str, Form] = field(default_factory=dict)
    """The forms of the arrays that are used."""

    # Neurons

    def weighted(self, *terms: tuple[Value, Number | Weight], bias: Weight | Number | None = None) -> Value:
        """One value of each term, times a number or a weight, added up, and a bias."""
        factors = [1 if isinstance(factor, Weight) else factor for _, factor in terms]
        weights = {f"weight{i}": factor for i, (_, factor) in enumerate(terms) if isinstance(factor, Weight)}
        options: dict[str, Any] = {"factors": factors}
        if isinstance(bias, Weight):
            weights["bias"] = bias
        elif bias is not None:
            options["bias"] = bias
        return self.add(Kind.WEIGHTED_SUM, "aligned", [value for value, _ in terms], options, weights)

    def dense(self, value: Value, weight: Weight, bias: Weight | None = None) -> Value:
        """Sums over the last axis, times the rows of a weight."""
        return self.add(Kind.WEIGHTED_SUM, "dense", [value], {}, _named(weight=weight, bias=bias))

    def convolution(
        self, value: Value, weight: Weight, bias: Weight | None, options: dict[str, Any]
    ) -> Value:
        return self.add(Kind.WEIGHTED_SUM, "convolution", [value], options, _named(weight=weight, bias=bias))

    def function(self, operation: str, value: Value, **options: Any) -> Value:
        """A function of one value, by torch's name for it."""
        return self.operation(Kind.FUNCTION, operation, [("self", value)], options)[0]

    def product(self, *values: Value) -> Value:
        return self.add(Kind.PRODUCT, "product", list(values))

    def quotient(self, value: Value, divisor: Value) -> Value:
        """A product with the inverse of a value, rounded once."""
        return self.add(Kind.PRODUCT, "quotient", [value, divisor])

    def reduce(
        self, work: str, value: Value, dims: Sequence[int] | None, keepdim: bool = False, dtype: Any = None
    ) -> Value:
        given = None if dims is None else sorted(dim % max(value.rank, 1) for dim in dims)
        options = {"dims": given, "keepdim": keepdim} | ({} if dtype is None else {"dtype": dtype})
        return self.add(Kind.REDUCTION, work, [value], options)

    def constant(self, weight: Weight) -> Value:
        """An array as neurons whose value never changes."""
        return self.add(Kind.CONSTANT, "array", [], {}, {"value": weight})

    def operation(
        self,
        kind: Kind,
        name: str,
        given: Sequence[tuple[str, Any]],
        options: Mapping[str, Any] | None = None,
    ) -> list[Value]:
        """A group whose work is an operation of torch.

        Each argument that arrives is a value, or a list of values in which some may be None.
        """
        inputs: list[Value] = []
        order: list[tuple[str, list[bool] | None]] = []
        for argument, values in given:
            several = values if isinstance(values, list) else [values]
            there = [value is not None for value in several]
            order.append((argument, there if isinstance(values, list) else None))
            inputs += [value for value in several if value is not None]
        return self._added(kind, name, inputs, {**(options or {}), "order": order}, {})

    def cast(self, value: Value, dtype: str) -> Value:
        """The value in another dtype."""
        if value.dtype == dtype:
            return value
        return self.function("aten._to_copy.default", value, dtype=Dtype(dtype))

    def chosen(self, where: Value, value: Value, other: Value) -> Value:
        """One value where a flag is set, the other where it is not."""
        given = [("condition", where), ("self", value), ("other", other)]
        return self.operation(Kind.SELECTION, "aten.where.self", given)[0]

    def filled(self, value: Value, where: Value, number: Number) -> Value:
        """The value, or a number where a flag is set."""
        given = [("self", value), ("mask", where)]
        return self.operation(Kind.SELECTION, "aten.masked_fill.Scalar", given, {"value": number})[0]

    # Wiring

    def wire(self, name: str, value: Value, **options: Any) -> Value:
        """Values in another order or shape, by torch's name for it."""
        return self.operation(Kind.WIRING, name, [("self", value)], options)[0]

    def transposed(self, value: Value, first: int, second: int) -> Value:
        return self.wire("aten.transpose.int", value, dim0=first, dim1=second)

    def reshaped(self, value: Value, shape: Sequence[int]) -> Value:
        return self.wire("aten.reshape.default", value, shape=list(shape))

    # Groups

    def add(
        self,
        kind: Kind,
        work: str,
        inputs: Sequence[Value],
        options: dict[str, Any] | None = None,
        weights: Mapping[str, Weight] | None = None,
    ) -> Value:
        return self._added(kind, work, list(inputs), options or {}, weights or {})[0]

    def _added(
        self,
        kind: Kind,
        work: str,
        inputs: list[Value],
        options: dict[str, Any],
        weights: Mapping[str, Weight],
    ) -> list[Value]:
        name = f"{self.prefix}.{len(self.groups)}" if self.groups else self.prefix
        self.forms |= {weight.name: weight.form for weight in weights.values()}
        group = Group(
            name=name,
            kind=kind,
            work=work,
            inputs=tuple(value.port for value in inputs),
            results=(),
            first=self.first,
            layer=self.layer,
            options=options,
            weights={purpose: weight.name for purpose, weight in weights.items()},
        )
        results = self._forms(group, inputs)
        group = Group(**{**vars(group), "results": results})
        self.groups.append(group)
        self.first += len(group.ids)
        return [Value(Port(name, index), form) for index, form in enumerate(results)]

    def _forms(self, group: Group, inputs: Sequence[Value]) -> tuple[Form, ...]:
        """The forms of a group's results, found with tensors that have no numbers."""
        arrays = {name: empty(self.forms[name]) for name in group.weights.values()}
        with torch.device("meta"):
            found = works.compute(group, [empty(value.form) for value in inputs], arrays, self.sizes)
        return tuple(Form(tuple(one.shape), dtype_name(one.dtype)) for one in found)

    def array(self, name: str, tensor: Tensor) -> Weight:
        """An array that the model does not have as it is."""
        full = f"{self.prefix}{MADE}{name}"
        self.made[full] = tensor.detach().clone()
        return Weight(full, Form(tuple(tensor.shape), dtype_name(tensor.dtype)))


def _named(**weights: Weight | None) -> dict[str, Weight]:
    return {name: weight for name, weight in weights.items() if weight is not None}


def empty(form: Form) -> Tensor:
    return torch.empty(form.shape, dtype=getattr(torch, form.dtype), device="meta")


class Unsupported(ConvertError):
    """What no recipe expresses: the operation stays a TODO."""

    def __init__(self, reason: str) -> None:
        super().__init__("TP0401", reason)
        self.reason = reason
