"""Writes one module's `forward`: expressions from operations, chained where a reader would chain them.

In: a module of the graph. Out: statements, fields and slots. What an operation becomes is the tables' business
(`ops`, `layers`); here is how values are named, shared, and put together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from torchport.capture import graph as g
from torchport.targets.candle import rust
from torchport.targets.candle.rust import Slot

FALLBACK = "ys"
"""A value that the source does not name; `xs` is what comes in."""
_LONG_ARGUMENT = 44
_LONG_OPERAND = 72
_LONG_CHAIN = 160


class Unsupported(Exception):
    """An operation, or one of its arguments, that nothing maps. Becomes a TODO."""


@dataclass(frozen=True)
class Value:
    """A tensor in generated code: how to write it, and the variables that this text reads."""

    text: str
    form: str
    """`ref`: a variable of type &Tensor; `owned`: a place of type Tensor; `expr`: an expression."""
    reads: frozenset[tuple[str, int]] = frozenset()
    hint: str | None = None

    @property
    def reference(self) -> str:
        return self.text if self.form == "ref" else f"&{self.text}"

    @property
    def operand(self) -> str:
        return f"&{self.text}" if self.form == "owned" else self.text


@dataclass(frozen=True)
class Field:
    name: str
    type: str
    init: str


@dataclass
class Todo:
    op: str
    layer: str
    source: str | None
    reason: str


@dataclass
class Body:
    """What was written for one module."""

    inputs: list[str]
    statements: list[str] = field(default_factory=list)
    result: str = ""
    fields: list[Field] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    todos: list[Todo] = field(default_factory=list)
    outputs: int = 1
    given_sizes: list[str] = field(default_factory=list)
    """Free sizes that no input shows, so that the caller must give them."""
    calls_module_trait: bool = False
    """It calls `forward` of something that has it only by candle's `Module`."""
    is_layer: bool = False
    """The module is one layer of the runtime crate, which reports to the checker by itself."""


class Emitter:
    """State while one module is written."""

    def __init__(self, graph: g.Graph, module: g.Module, checks: str):
        self.graph, self.module, self.checks = graph, module, checks
        self.body = Body(inputs=[])
        self.values: dict[g.Ref, Value] = {}
        self.metas: dict[g.Ref, g.TensorMeta] = {}
        self.scope: dict[str, int] = {}
        self.binding = 0
        self.sizes: set[str] = set()
        self.field_names: set[str] = {"probe"}
        self.uses = _count_uses(module)
        self.current: g.Node | None = None

    # names and slots

    def slot(self, value: int | float, role: str | None, kind: str = "usize", new: bool = False) -> str:
        """A number that may become a literal, a Config field or a constructor argument."""
        self.body.slots.append(Slot(value, role, kind, in_forward=not new))
        return rust.token(len(self.body.slots) - 1)

    def add_field(self, name: str, type_: str, init: str) -> str:
        unique, number = rust.snake(name), 2
        while unique in self.field_names:
            unique, number = f"{rust.snake(name)}_{number}", number + 1
        self.field_names.add(unique)
        self.body.fields.append(Field(unique, type_, init))
        return unique

    def declare(self, name: str) -> tuple[str, frozenset[tuple[str, int]]]:
        """A variable name that hides no value which is still to be read."""
        base = rust.snake(name)
        unique, number = base, 2
        while self._is_live(unique) or unique in self.sizes or unique in self._symbols():
            unique, number = f"{base}_{number}", number + 1
        self.binding += 1
        self.scope[unique] = self.binding
        return unique, frozenset({(unique, self.binding)})

    def _symbols(self) -> set[str]:
        return {symbol.name for symbol in self.graph.symbols}

    def _is_live(self, name: str) -> bool:
        read = (name, self.scope.get(name, -1))
        return any(read in v.reads for ref, v in self.values.items() if self.uses[ref.name] > 0)

    # values

    def meta(self, arg: g.Arg) -> g.TensorMeta:
        return self.metas[arg]

    def ref(self, arg: g.Ref) -> str:
        """The value as a `&Tensor`; a long expression gets a name first."""
        value = self.values[arg]
        if value.form == "expr" and rust.width(value.text) > _LONG_ARGUMENT:
            value = self.name_it(arg)
        return value.reference

    def operand(self, arg: g.Ref) -> str:
        """The value as an operand of `+`, `-`, `*`, `/`."""
        value = self.values[arg]
        if value.form == "expr" and rust.width(value.text) > _LONG_OPERAND:
            value = self.name_it(arg)
        return value.operand

    def receiver(self, arg: g.Ref) -> str:
        """The value in front of a method call."""
        value = self.values[arg]
        if value.form == "expr" and rust.width(value.text) > _LONG_CHAIN:
            value = self.name_it(arg)
        return value.text

    def name_it(self, arg: g.Ref, mutable: bool = False) -> Value:
        """Binds an expression to a variable."""
        value = self.values[arg]
        name, reads = self.declare(value.hint or FALLBACK)
        self.statements(f"let {'mut ' if mutable else ''}{name} = {value.text};")
        named = Value(name, "owned", reads)
        self.values[arg] = named
        return named

    def statements(self, *lines: str) -> None:
        self.body.statements.extend(lines)

    def reads_of(self, refs: Iterable[g.Ref]) -> frozenset[tuple[str, int]]:
        return frozenset().union(*(self.values[ref].reads for ref in refs)) if refs else frozenset()

    # sizes

    def size(self, dim: g.Dim, role: str | None = "size") -> str:
        """A size as a usize expression."""
        if isinstance(dim, g.Sym):
            self.sizes |= dim.symbols()
            return _expr(dim.expr, lambda value: self.slot(value, None))
        return "1" if dim == 1 else self.slot(dim, role)

    def shape(self, dims: Iterable[g.Dim]) -> str:
        return self.tuple([self.size(dim) for dim in dims])

    def tuple(self, words: list[str]) -> str:
        """Sizes as what candle takes for a shape."""
        if len(words) == 1:
            return words[0]
        return f"({', '.join(words)})" if len(words) <= 5 else f"vec![{', '.join(words)}]"

    def sizes_list(self, dims: Iterable[g.Dim]) -> str:
        return f"&[{', '.join(self.size(dim) for dim in dims)}]"

    def device(self) -> str:
        """The device that new tensors are made on: the one where the inputs are."""
        for item in self.module.inputs:
            value = self.values[g.Ref(item.name)]
            return f"{value.text}.device()"
        for name in self.module.params:
            return f"{self.values[g.Ref(name)].text}.device()"
        if "device" not in self.field_names:
            self.add_field("device", "Device", "vb.device().clone()")
        return "&self.device"


def _expr(expr: g.Expr, number: Callable[[int], str]) -> str:
    return without_outer_parentheses(_precise(expr, number))


def without_outer_parentheses(text: str) -> str:
    return text[1:-1] if text.startswith("(") and _closes_at_end(text) else text


def _closes_at_end(text: str) -> bool:
    depth = 0
    for index, char in enumerate(text):
        depth += {"(": 1, ")": -1}.get(char, 0)
        if depth == 0:
            return index == len(text) - 1
    return False


def _precise(expr: g.Expr, number: Callable[[int], str]) -> str:
    if isinstance(expr, str):
        return expr
    if isinstance(expr, int):
        return number(expr)
    operation, operands = expr[0], expr[1:]
    if operation == "add":
        plus = [_precise(o, number) for o in operands if not _negated(o)]
        minus = [_precise(n, number) for n in map(_negated, operands) if n]
        if not plus:
            raise Unsupported(f"the size {expr} is negative")
        return f"({' - '.join([' + '.join(plus), *minus])})"
    if operation in ("max", "min"):
        first, *rest = (_precise(o, number) for o in operands)
        return first + "".join(f".{operation}({o})" for o in rest)
    if operation == "pow":
        return f"{_precise(operands[0], number)}.pow({operands[1]})"
    sign = {"mul": " * ", "floordiv": " / ", "mod": " % "}[operation]
    if any(_negated(o) for o in operands):
        raise Unsupported(f"the size {expr} has a negative factor")
    return f"({sign.join(_precise(o, number) for o in operands)})"


def _negated(expr: g.Expr) -> g.Expr | None:
    """The operand with its minus sign taken off, if it has one."""
    if isinstance(expr, int) and expr < 0:
        return -expr
    if isinstance(expr, tuple) and expr[0] == "mul" and isinstance(expr[1], int) and expr[1] < 0:
        rest = expr[2:]
        if expr[1] == -1:
            return rest[0] if len(rest) == 1 else ("mul", *rest)
        return ("mul", -expr[1], *rest)
    return None


def _count_uses(module: g.Module) -> Counter[str]:
    uses: Counter[str] = Counter()
    for node in module.nodes:
        uses.update(ref.name for ref in g.refs([node.args, node.kwargs]))
    uses.update(ref.name for ref in module.outputs)
    return uses


def with_hint(value: Value, hint: str | None) -> Value:
    return replace(value, hint=hint) if hint else value
