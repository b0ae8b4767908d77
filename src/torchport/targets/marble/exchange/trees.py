"""Trees of plain values, such as metadata: dicts with text for keys, lists, text, numbers, bools and None."""

from __future__ import annotations

from typing import Any, NoReturn

from torchport.errors import GraphFileError
from torchport.targets.marble.exchange.labels import kind_of, require_text

DEEPEST = 32
LARGEST_INTEGER = 2**63
MOST_VALUES = 250_000
MOST_CHARACTERS = 10_000_000


def checked_tree(tree: Any, place: str) -> Any:
    """A copy of the tree, with tuples as lists.

    Something within it that is not a plain value is refused, and so is a tree that is nested too deep or becomes
    too large because it has the same branch many times.
    """
    return _Copy(place).of(tree)


class _Copy:
    def __init__(self, place: str) -> None:
        self.path: list[str | int] = [place]
        self.values = 0
        self.characters = 0

    def of(self, value: Any) -> Any:
        self.values += 1
        if self.values > MOST_VALUES:
            self.refuse("TP0366", f"there are more than {MOST_VALUES:,} values")
        if len(self.path) > DEEPEST:
            self.refuse("TP0366", f"it is nested more than {DEEPEST} deep")
        if type(value) in (list, tuple):
            return [self.within(index, item) for index, item in enumerate(value)]
        if type(value) is dict:
            return {self.key(key): self.within(key, item) for key, item in value.items()}
        return self.leaf(value)

    def within(self, step: str | int, value: Any) -> Any:
        self.path.append(step)
        copy = self.of(value)
        self.path.pop()
        return copy

    def key(self, key: Any) -> str:
        if type(key) is not str:
            self.refuse("TP0362", f"a key is {kind_of(key)}, and must be a text")
        return self.text(key)

    def text(self, text: str) -> str:
        self.characters += len(text)
        if self.characters > MOST_CHARACTERS:
            self.refuse("TP0366", f"there are more than {MOST_CHARACTERS:,} characters of text")
        require_text(text, "a text")
        return text

    def leaf(self, value: Any) -> Any:
        if type(value) is str:
            self.text(value)
        elif type(value) is int:
            if not -LARGEST_INTEGER <= value < LARGEST_INTEGER:
                self.refuse("TP0362", "it is an integer of more than 64 bits")
        elif value is not None and type(value) not in (bool, float):
            self.refuse("TP0362", f"it is {kind_of(value)}, and not a plain value")
        return value

    @property
    def place(self) -> str:
        first, *steps = (step if isinstance(step, int) else step[:40] for step in self.path)
        return f"{first}" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)

    def refuse(self, code: str, message: str) -> NoReturn:
        raise GraphFileError(code, message, where=self.place)
