"""The state while one module is written: its values by node, the names that are taken, and the body so far.

In: a module of the graph. Out: its `Body`. The tables (`ops`, `layers`) say what an operation or a layer becomes; the
emitter names values, shares them, and decides when an expression is too long to be written inside another.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable

from torchport.capture import graph as g
from torchport.capture.drawn import shown_nodes
from torchport.targets.candle import rust
from torchport.targets.candle.body import Binding, Body, Field, Number, Unsupported, Value, Written
from torchport.targets.candle.code import (
    Code,
    Parameter,
    Piece,
    Slot,
    as_code,
    code,
    joined,
    optional,
    slice_of,
    tuple_of,
)
from torchport.targets.candle.sizes import signed_code, size_code

FALLBACK = "ys"
"""The name of a value that the user's source does not name; an input is called `xs`."""
_LONG_ARGUMENT = 44
_LONG_OPERAND = 72
_LONG_CHAIN = 160
"""An expression that is wider gets a name before it is an argument, an operand or the receiver of a method."""


PAIRS = {"complex64": "float32", "complex128": "float64"}
"""The dtype of the two parts of a complex number."""


def as_pairs(meta: g.TensorMeta) -> g.TensorMeta:
    """A complex tensor as generated code has it, with an axis for the parts; other tensors as they are."""
    return g.TensorMeta((*meta.shape, 2), PAIRS[meta.dtype]) if meta.dtype in PAIRS else meta


class Emitter:
    """Holds what is known while a module is written, and writes its values, names and numbers."""

    def __init__(self, graph: g.Graph, module: g.Module, written: Written):
        self.graph, self.module, self.checks = graph, module, written.checks
        self.allows_random = written.allow_random
        self.shown = shown_nodes(module)
        """The operations that are shown to a checker, whatever else is."""
        self.path = module.path
        """The path that the struct's VarBuilder has."""
        self.body = Body()
        self.values: dict[g.Ref, Value] = {}
        """How each value is written, for all values that are known so far."""
        self.metas: dict[g.Ref, g.TensorMeta] = {}
        self.collected: dict[tuple[g.Ref, ...], Value] = {}
        """The vectors of values that a loop computed in all of its steps, which are only read together."""
        self.complex: set[g.Ref] = set()
        """The values that are complex; their metas are those of pairs."""
        self.sizes: set[str] = set()
        """The free sizes that the code reads from the inputs."""
        self.measured: dict[str, tuple[g.Ref, int]] = {}
        """Sizes that depend on data: the value and the axis that each can be read from."""
        self._lets: set[str] = set()
        """The sizes that depend on data and have a variable."""
        self.unread = _count_reads(module)
        """How often each value is still to be read, by the name of its node."""
        self.weight_fields: dict[str, str] = {}
        """The field of each weight that the struct holds, by the weight's name."""
        self._field_names: set[str] = {"probe"}
        shown = {
            name
            for item in module.inputs
            for dim in item.meta.shape
            if isinstance(dim, g.Sym)
            for name in dim.symbols()
        }
        self._data_sizes = graph.measured - shown
        self._bindings: dict[str, int] = {}
        """Variable → number of the last `let` that declares it."""
        self._binding_numbers = itertools.count(1)

    # names and numbers

    def slot(
        self,
        value: int | float,
        role: str | None,
        kind: str = "usize",
        *,
        new: bool = False,
        place: str | None = None,
        digits: float = Number.digits,
    ) -> Code:
        """A number that may become a literal, a Config field or a constructor argument.

        With `new`, the constructor reads it; otherwise `forward` does. `place` is the axis of a weight that it is of.
        """
        self.body.numbers.append(Number(value, role, kind, in_forward=not new, place=place, digits=digits))
        return as_code(Slot(len(self.body.numbers) - 1))

    def add_field(self, name: str, type_: Piece, init: Piece) -> str:
        """Adds a field to the struct and gives its name, which may be longer than the one asked for."""
        unique = rust.unique(name, self._field_names.__contains__)
        self._field_names.add(unique)
        self.body.fields.append(Field(unique, as_code(type_), as_code(init)))
        return unique

    def declare(self, name: str, beside: Collection[str] = ()) -> tuple[str, frozenset[Binding]]:
        """A variable that hides no value which is still to be read, and none of the variables beside it."""
        taken = {*self.sizes, *(symbol.name for symbol in self.graph.symbols), *beside, *self._data_sizes}
        unique = rust.unique(name, lambda found: self.is_live(found) or found in taken)
        self._bindings[unique] = next(self._binding_numbers)
        self.body.variables.add(unique)
        return unique, frozenset({(unique, self._bindings[unique])})

    def is_live(self, name: str) -> bool:
        """Whether a value that is still to be read reads a variable."""
        binding = (name, self._bindings.get(name, -1))
        return any(binding in v.reads for ref, v in self.values.items() if self.unread[ref.name] > 0)

    # values

    def learn(self, ref: g.Ref, meta: g.TensorMeta) -> None:
        """Notes shape and dtype of a value."""
        self.metas[ref] = as_pairs(meta)
        if meta.dtype in PAIRS:
            self.complex.add(ref)

    def meta(self, arg: g.Arg) -> g.TensorMeta:
        return self.metas[arg]

    def ref(self, arg: g.Ref) -> Code:
        """The value as a `&Tensor`; a long expression gets a name first."""
        return self._short(arg, _LONG_ARGUMENT).reference

    def optional_ref(self, arg: g.Ref | None) -> Code:
        """The value as an `Option<&Tensor>`."""
        return optional(None if arg is None else self.ref(arg))

    def operand(self, arg: g.Ref) -> Code:
        """The value as an operand of `+`, `-`, `*`, `/`."""
        return self._short(arg, _LONG_OPERAND).operand

    def receiver(self, arg: g.Ref) -> Code:
        """The value in front of a method call."""
        return self._short(arg, _LONG_CHAIN).code

    def _short(self, arg: g.Ref, longest: int) -> Value:
        value = self.values[arg]
        return self.name_it(arg) if value.form == "expr" and value.code.width() > longest else value

    def name_it(self, arg: g.Ref) -> Value:
        """Binds an expression to a variable."""
        value = self.values[arg]
        name, reads = self.declare(value.hint or FALLBACK)
        self.write(code("let {} = {};", name, value.code))
        named = Value(as_code(name), "owned", reads)
        self.values[arg] = named
        return named

    def name_if_expression(self, arg: g.Ref) -> None:
        """Binds the value to a variable unless it is in one already; for values that are read more than once."""
        if self.values[arg].form == "expr":
            self.name_it(arg)

    def is_own(self, ref: g.Ref) -> bool:
        """Whether a value is in a variable that the code may give away."""
        value = self.values[ref]
        return value.form == "owned" and not value.is_field

    def is_free(self, ref: g.Ref, reads: int) -> bool:
        """Whether a value can be given away, because nothing reads it behind its next so many reads."""
        reads_it = (
            known.reads & self.values[ref].reads and self.unread[other.name] > 0
            for other, known in self.values.items()
            if other.name != ref.name
        )
        return self.is_own(ref) and self.unread[ref.name] == reads and not any(reads_it)

    def name_calls_of(self, path: str, given: Iterable[g.Ref]) -> None:
        """Writes calls of a module that are not written yet, but for those in its arguments, before it is called again.

        A run is compared with the model's call by call, so a module's calls must come in the model's order.
        """
        for ref, value in list(self.values.items()):
            is_waiting = value.form == "expr" and self.unread[ref.name] > 0 and ref not in given
            if is_waiting and any(_are_of_one(path, other) for other in value.calls):
                self.name_it(ref)

    def write(self, *statements: Code) -> None:
        self.body.statements.extend(statements)

    def reads_of(self, refs: Iterable[g.Ref]) -> frozenset[Binding]:
        """The variables that an expression over these values reads."""
        return frozenset(binding for ref in refs for binding in self.values[ref].reads)

    def calls_of(self, refs: Iterable[g.Ref]) -> frozenset[str]:
        """The modules that are called where these values are evaluated."""
        return frozenset(path for ref in refs for path in self.values[ref].calls)

    def times_read(self, ref: g.Ref) -> int:
        """How often the module reads a value, its own outputs included."""
        everything = [[node.args, node.kwargs] for node in self.module.nodes] + [list(self.module.outputs)]
        return sum(found == ref for found in g.refs(everything))

    # sizes

    def size(self, dim: g.Dim, role: str | None = "size") -> Code:
        """A size as a usize expression."""
        if isinstance(dim, g.Sym):
            self._read_sizes(dim)
            try:
                return size_code(dim.expr, lambda value: self.slot(value, None))
            except Unsupported:  # a part of it is negative, as in n + (-n % 4)
                return code("({}) as usize", self.signed_size(dim))
        return code("1") if dim == 1 else self.slot(dim, role)

    def data_sizes_of(self, ref: g.Ref) -> dict[str, int]:
        """The sizes of a value that depend on data and that no input shows, each with its axis."""
        shape = self.metas[ref].shape if ref in self.metas else ()
        free = {dim.expr: axis for axis, dim in enumerate(shape) if isinstance(dim, g.Sym)}
        return {str(name): axis for name, axis in free.items() if name in self._data_sizes}

    def show_sizes(self, ref: g.Ref) -> None:
        """Notes the sizes of a value that depend on data and that nothing before it shows."""
        for name, axis in self.data_sizes_of(ref).items():
            if name not in self.measured:
                self.measured[name] = ref, axis
                self.unread[ref.name] += 1  # so that no other variable takes the name before the size is read
                self.name_if_expression(ref)

    def _read_sizes(self, dim: g.Sym) -> None:
        """Sees to it that the free sizes in an expression have variables."""
        for name in sorted(dim.symbols()):
            if name not in self.measured:
                self.sizes.add(name)
            elif name not in self._lets:
                self._lets.add(name)
                ref, axis = self.measured[name]
                self.write(code("let {} = {}.dim({})?;", name, self.values[ref].code, axis))

    def signed_size(self, size: g.Sym) -> Code:
        """A size that may be negative as an i64 expression."""
        self._read_sizes(size)
        return signed_code(size.expr, lambda value: self.slot(value, None, "i64"))

    def shape(self, dims: Iterable[g.Dim]) -> Code:
        """Sizes as an argument that candle takes for a shape."""
        return shape_of([self.size(dim) for dim in dims])

    def sizes_list(self, dims: Iterable[g.Dim]) -> Code:
        """Sizes as a `&[usize]`."""
        return slice_of(self.size(dim) for dim in dims)

    def device_of(self, arg: g.Ref) -> Code:
        return code("{}.device()", self.receiver(arg))

    def device(self) -> Code:
        """The device that new tensors are made on: that of the inputs, or of a weight if there are no inputs."""
        names = [*(item.name for item in self.module.inputs), *self.module.params]
        if names:
            return code("{}.device()", self.values[g.Ref(names[0])].code)
        if "device" not in self._field_names:
            self.add_field("device", "Device", code("{}.device().clone()", Parameter.BUILDER))
        return code("&self.device")


def shape_of(sizes: list[Code]) -> Code:
    """Sizes as an argument that candle takes for a shape: a tuple of up to five, or a Vec."""
    return tuple_of(sizes) if len(sizes) <= 5 else code("vec![{}]", joined(", ", sizes))


def _are_of_one(path: str, other: str) -> bool:
    """Whether two paths are the same, or one is inside the other."""
    return path == other or path.startswith(f"{other}.") or other.startswith(f"{path}.")


def _count_reads(module: g.Module) -> Counter[str]:
    reads: Counter[str] = Counter()
    for node in module.nodes:
        reads.update(ref.name for ref in g.refs([node.args, node.kwargs]))
    reads.update(ref.name for ref in module.outputs)
    return reads
