"""Reads a pickle as data: a stack machine for the opcodes that snapshots need, which calls and imports nothing.

It is not Python's unpickler with a filter, since that one still calls what passes the filter. Here a name becomes a
`Name` of the list in `stubs`, and a call becomes a `Made` that holds the name and its arguments. The memory that the
objects take is counted as they are made. Which opcodes there are is in `opcodes`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NoReturn

from torchport.errors import GraphFileError
from torchport.targets.marble.exchange.labels import kind_of
from torchport.targets.marble.exchange.limits import Limits, in_words
from torchport.targets.marble.exchange.stubs import (
    ALLOWED,
    TAKES_ITEMS,
    TAKES_STATE,
    Collected,
    Made,
    Name,
    not_numeric,
)

MOST_INTEGER_BYTES = 16
STOP = ord(".")
BYTES_OF_AN_OBJECT = 120
"""A rough count: an object, and its place in a list or a dict."""


Step = Callable[["Pickle"], object]
"""What an opcode does."""


class Pickle:
    """The bytes of a pickle, and how far they are read."""

    def __init__(self, content: bytes, limits: Limits) -> None:
        self.content = content
        self.limits = limits
        self.position = 0
        self.start = 0
        """Where the opcode begins that is being read."""
        self.stack: list[Any] = []
        self.marked: list[list[Any]] = []
        """The stacks below each mark, the oldest first."""
        self.memo: dict[int, Any] = {}
        self.taken = 0

    def value(self, table: dict[int, Step], refused: dict[int, str]) -> Any:
        """What the pickle holds, if each of its opcodes has a step in the table."""
        count = 0
        content = self.content
        while True:
            self.start = self.position
            if self.start >= len(content):
                self.cut_off()
            opcode = content[self.start]
            self.position += 1
            count += 1
            if count > self.limits.opcodes:
                self.refuse("TP0366", f"there are more than {self.limits.opcodes:,} opcodes")
            if opcode == STOP:
                return self.result()
            step = table.get(opcode)
            if step is None:
                self.unknown(opcode, refused)
            else:
                step(self)

    def result(self) -> Any:
        if self.marked or len(self.stack) != 1:
            self.refuse("TP0361", "the pickle ends with something left over")
        if self.position != len(self.content):
            self.refuse("TP0361", "something follows the pickle")
        return self.stack[0]

    # What opcodes are made of

    def refuse(self, code: str, message: str) -> NoReturn:
        raise GraphFileError(code, message, where=f"byte {self.start:,}")

    def cut_off(self) -> NoReturn:
        self.refuse("TP0361", "the pickle ends before its end")

    def unknown(self, opcode: int, refused: dict[int, str]) -> NoReturn:
        if opcode in refused:
            self.refuse("TP0365", f"the pickle asks for {refused[opcode]}")
        self.refuse("TP0361", f"there is no opcode {opcode:#04x} in snapshots")

    def take(self, count: int) -> bytes:
        end = self.position + count
        if end > len(self.content):
            self.cut_off()
        part = self.content[self.position : end]
        self.position = end
        return part

    def number(self, form: struct.Struct) -> Any:
        end = self.position + form.size
        if end > len(self.content):
            self.cut_off()
        (number,) = form.unpack_from(self.content, self.position)
        self.position = end
        return number

    def line(self) -> str:
        end = self.content.find(b"\n", self.position, self.position + 1000)
        if end < 0:
            self.cut_off()
        text = self.content[self.position : end]
        self.position = end + 1
        return self.text(text)

    def text(self, content: bytes) -> str:
        try:
            return content.decode()
        except UnicodeDecodeError:
            self.refuse("TP0361", "a text is not UTF-8")

    def spend(self, size: int = BYTES_OF_AN_OBJECT) -> None:
        """Counts memory that is about to be taken."""
        self.taken += size
        if self.taken > self.limits.memory_bytes:
            most = in_words(self.limits.memory_bytes)
            self.refuse("TP0366", f"the pickle would take more than {most} of memory")

    def push(self, value: Any, size: int = BYTES_OF_AN_OBJECT) -> None:
        self.spend(size)
        self.stack.append(value)

    def pop(self) -> Any:
        if not self.stack:
            self.refuse("TP0361", "the stack is empty")
        return self.stack.pop()

    def top(self) -> Any:
        if not self.stack:
            self.refuse("TP0361", "the stack is empty")
        return self.stack[-1]

    def since_mark(self) -> list[Any]:
        if not self.marked:
            self.refuse("TP0361", "there is no mark")
        since = self.stack
        self.stack = self.marked.pop()
        return since

    # What opcodes do

    def find(self, module: Any, name: Any) -> None:
        if type(module) is not str or type(name) is not str:
            self.refuse("TP0361", "a name is not a text")
        found = ALLOWED.get((module, name))
        if found is None:
            self.refuse(
                "TP0365", f"the pickle asks for {module[:80]!a}.{name[:80]!a}, which no neuron graph needs"
            )
        self.push(found)

    def make(self, args: Any, callable_: Any, allowed: set[Any]) -> None:
        if type(callable_) is not Name:
            self.refuse("TP0365", f"the pickle calls {_told(callable_)}")
        if callable_.role not in allowed:
            self.refuse("TP0365", f"the pickle calls {callable_}, which is {callable_.role.value}")
        if type(args) is not tuple:
            self.refuse("TP0361", f"arguments are {kind_of(args)}, and must be a tuple")
        made = Made(callable_, args)
        self.require_numbers(made)
        self.push(made)

    def require_numbers(self, made: Made) -> None:
        if reason := not_numeric(made):
            self.refuse("TP0365", f"the pickle has {reason}, and not plain numbers")

    def build(self) -> None:
        state, made = self.pop(), self.top()
        if type(made) is not Made or made.name.role not in TAKES_STATE:
            self.refuse("TP0365", f"the pickle sets the state of {_told(made)}")
        if type(state) is not TAKES_STATE[made.name.role]:
            self.refuse("TP0362", f"the state of {made.name} is {kind_of(state)}")
        if type(state) is dict:
            self.spend(BYTES_OF_AN_OBJECT * (len(made.state or {}) + len(state)))
            made.state = {**(made.state or {}), **state}
        else:
            made.state = state
            self.require_numbers(made)

    def extend(self, items: list[Any]) -> None:
        """Appends to a list. What is appended to a deque is dropped: nothing that is read is in one."""
        holder = self.top()
        if type(holder) is list:
            holder.extend(items)
        elif type(holder) is not Made or holder.name.role not in TAKES_ITEMS:
            self.refuse("TP0365", f"the pickle appends to {_told(holder)}")

    def set_items(self, items: list[Any]) -> None:
        """Only keys that are text are kept: nothing that is read has another."""
        holder = self.top()
        if type(holder) is not dict:
            self.refuse("TP0365", f"the pickle sets items of {_told(holder)}")
        if len(items) % 2:
            self.refuse("TP0361", "a key has no value")
        for index in range(0, len(items), 2):
            if type(items[index]) is str:
                holder[items[index]] = items[index + 1]

    def fetch(self, index: int) -> None:
        if index not in self.memo:
            self.refuse("TP0361", f"nothing is remembered as {index}")
        self.push(self.memo[index], 8)

    def remember(self, index: int) -> None:
        self.spend()
        self.memo[index] = self.top()

    def integer(self, size: int) -> None:
        if not 0 <= size <= MOST_INTEGER_BYTES:
            self.refuse("TP0366", f"an integer of {size:,} bytes, and {MOST_INTEGER_BYTES} are allowed")
        self.push(int.from_bytes(self.take(size), "little", signed=True))

    def collect(self) -> None:
        self.since_mark()
        if type(self.top()) is not Collected:
            self.refuse("TP0365", f"the pickle adds items to {_told(self.top())}")


def _told(value: Any) -> str:
    if type(value) is Made:
        return f"an object of {value.name}"
    return f"{value}, which is {value.role.value}" if type(value) is Name else kind_of(value)
