"""The body that one module becomes: the fields of its struct, the statements of its `forward`, and its numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from torchport.targets.base import Todo
from torchport.targets.candle.code import EMPTY, Code, InputName

Binding = tuple[str, int]
"""A variable's name and the number of its `let`, because a later `let` may give the name to another value."""


@dataclass(frozen=True)
class Value:
    """A tensor in generated code: how to write it, and the variables that this code reads."""

    code: Code
    form: Literal["ref", "owned", "expr"]
    """`ref`: a variable of type &Tensor; `owned`: a variable or field of type Tensor; `expr`: an expression."""
    reads: frozenset[Binding] = frozenset()
    hint: str | None = None
    """The variable that the user's source assigns this value to."""
    calls: frozenset[str] = frozenset()
    """The paths of the modules that are called where this code is evaluated."""

    @property
    def reference(self) -> Code:
        """The value as a `&Tensor`."""
        return self.code if self.form == "ref" else self.code.borrowed

    @property
    def operand(self) -> Code:
        """The value beside an operator; candle has them for tensors and for references."""
        return self.code.borrowed if self.form == "owned" else self.code

    @property
    def is_field(self) -> bool:
        """Whether the value is kept in the struct, so that it cannot be moved out of it."""
        return self.form == "owned" and self.code.startswith("self.")


class Written(NamedTuple):
    """How code is written: what it shows to a checker, and whether it may draw random numbers."""

    checks: str
    allow_random: bool


UNWATCHED = Written("none", allow_random=False)


@dataclass(frozen=True)
class Field:
    """A field of the struct, and the expression that `new` sets it to."""

    name: str
    type: Code
    init: Code


@dataclass(frozen=True)
class Number:
    """A number that a slot stands for. Its role says what it is, so that it can be given a name."""

    value: int | float
    role: str | None
    kind: str
    """The Rust type: `usize`, `i64` or `f64`."""
    in_forward: bool
    """Whether `forward` reads the number; otherwise `new` does."""
    place: str | None = None
    """The axis of a weight that the number is the length of: `encoder.fc.weight[0]`."""
    digits: float = 1e-12
    """How far, relatively, an expression may be from the number: more if it was rounded to fewer digits."""


class Unsupported(Exception):
    """An operation, or one of its arguments, cannot be written. The message says why and becomes a TODO."""


@dataclass(frozen=True)
class ChildCall:
    """A call of a child, and what each of its arguments is called in the caller, if it has a name there."""

    key: str
    arguments: tuple[str | InputName | None, ...]


@dataclass
class Body:
    """All that is written for one module."""

    inputs: list[InputName] = field(default_factory=list)
    statements: list[Code] = field(default_factory=list)
    result: Code = EMPTY
    """The last expression of `forward`."""
    fields: list[Field] = field(default_factory=list)
    numbers: list[Number] = field(default_factory=list)
    todos: list[Todo] = field(default_factory=list)
    calls: list[ChildCall] = field(default_factory=list)
    outputs: int = 1
    variables: set[str] = field(default_factory=set)
    """The names that `forward` declares."""
    given_sizes: list[str] = field(default_factory=list)
    """Free sizes that no input shows, so that the caller must give them."""
    calls_module_trait: bool = False
    """Whether it calls a `forward` that is a method of candle's `Module`, which must then be imported."""
    is_layer: bool = False
    """Whether the module is one layer of the runtime crate, which reports to the checker by itself."""

    @property
    def used_slots(self) -> set[int]:
        """The positions of the numbers that are written somewhere."""
        written = [*self.statements, self.result, *(item.init for item in self.fields)]
        return {index for code in written for index in code.slots()}
