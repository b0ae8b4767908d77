"""A program while it is written: every line is run as soon as it is there, at two sizes, and is kept if it works.

So what is written is a model that PyTorch runs, whose values stay finite and small at both sizes.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from hypothesis import strategies as st
from torch.nn import functional

SIZES = ((3, 6), (2, 5))
"""The sizes at which lines are run: the batch, and the length. The first is what is recorded."""
_LARGEST = 50.0
T = TypeVar("T")


class Choices:
    """Hypothesis's choices, by which it makes a program and finds the least that still fails."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]):
        self._draw = draw

    def one(self, options: Sequence[T]) -> T:
        return options[self._draw(st.integers(0, len(options) - 1))]

    def number(self, low: int, high: int) -> int:
        return int(self._draw(st.integers(low, high)))

    def once_in(self, times: int) -> bool:
        """Whether something happens that seldom does; never, in the least program."""
        return self.number(0, times - 1) == times - 1


@dataclass
class Book:
    """All classes of a program."""

    choices: Choices
    namespace: dict[str, Any] = field(
        default_factory=lambda: {"torch": torch, "nn": torch.nn, "F": functional}
    )
    sources: list[str] = field(default_factory=list)
    signatures: dict[str, list[list[torch.Tensor]]] = field(default_factory=dict)
    """The classes that are written, and the values that each was made for, by size."""

    def add(self, name: str, source: str, inputs: list[list[torch.Tensor]]) -> None:
        exec(source, self.namespace)
        self.sources.append(source)
        self.signatures[name] = inputs

    def free_name(self, options: Sequence[str]) -> str:
        name, number = self.choices.one(options), 2
        base = name
        while name in self.namespace:
            name, number = f"{base}{number}", number + 1
        return name


class Scope:
    """A class while its `forward` is written, with the values that are known there."""

    def __init__(self, book: Book, depth: int, inputs: Mapping[str, list[torch.Tensor]]):
        self.book, self.depth, self.choices = book, depth, book.choices
        self.init: list[str] = []
        self.body: list[str] = []
        self.attributes: set[str] = set()
        self.children: dict[str, list[list[torch.Tensor]]] = {}
        """The expression of each child, and the values that it was called with, by size."""
        self.module = torch.nn.Module()
        self.envs = [{**book.namespace, "self": self.module} for _ in SIZES]
        self.unread: list[str] = []
        """The variables that no line has read since they were set, the latest last."""
        self.values: dict[str, list[torch.Tensor]] = {}
        """The expression of each tensor that is known → its value at each size."""
        for name, tensors in inputs.items():
            self.know(name, tensors)

    # what is known

    def know(self, name: str, tensors: list[torch.Tensor]) -> None:
        """Adds an input, whose name may be an expression into a structure that is there already."""
        self.values[name] = tensors
        if name.isidentifier():
            for env, tensor in zip(self.envs, tensors, strict=True):
                env[name] = tensor

    def pick(self, fits: Callable[[torch.Tensor], bool]) -> str | None:
        """A value of a kind, the latest ones more often."""
        found = [name for name, (first, *_) in self.values.items() if fits(first)]
        if not found:
            return None
        return found[-1 - min(self.choices.number(0, len(found) - 1), self.choices.number(0, len(found) - 1))]

    def floats(self, rank: int | None = None) -> str | None:
        return self.pick(lambda t: t.is_floating_point() and (rank is None or t.ndim == rank))

    def integers(self) -> str | None:
        return self.pick(lambda t: t.dtype == torch.int64)

    def like(self, wanted: list[torch.Tensor]) -> str | None:
        """A value with the shapes and the dtype of another."""
        found = [
            name
            for name, tensors in self.values.items()
            if all(a.shape == b.shape and a.dtype == b.dtype for a, b in zip(tensors, wanted, strict=True))
        ]
        return self.choices.one(found[::-1]) if found else None

    def fixed(self, name: str, axis: int) -> int | None:
        """The length of an axis, if it is the same at every size."""
        lengths = {tensor.shape[axis] for tensor in self.values[name] if tensor.ndim > 0}
        return lengths.pop() if len(lengths) == 1 else None

    # what is added

    def attribute(self, options: Sequence[str]) -> str:
        name, number = self.choices.one(options), 2
        base = name
        while name in self.attributes or hasattr(self.module, name):
            name, number = f"{base}_{number}", number + 1
        self.attributes.add(name)
        return name

    def make(self, name: str, constructor: str) -> str | None:
        """An attribute of the module; None if it cannot be made."""
        line = f"self.{name} = {constructor}"
        return name if self.do_init(line) else None

    def do_init(self, line: str) -> bool:
        try:
            exec(line, self.envs[0])
        except Exception:
            return False
        self.init.append(line)
        return True

    def target(self, options: Sequence[str]) -> str:
        """A variable, which may be one that has a value already."""
        name = self.choices.one(options)
        return f"{name}_" if keyword.iskeyword(name) else name

    def do(self, line: str, *targets: str, body: str | None = None) -> bool:
        """Runs a line at every size, and keeps it if it works; `targets` are the variables that it sets."""
        befores = [dict(env) for env in self.envs]
        try:
            with torch.no_grad():
                for env in self.envs:
                    exec(body or line, env)
            found = {name: [env[name] for env in self.envs] for name in targets}
            works = all(
                _is_sound(leaf) for values in found.values() for value in values for leaf in _leaves(value)
            )
        except Exception:
            works = False
        if not works:
            for env, before in zip(self.envs, befores, strict=True):
                env.clear()
                env.update(before)
            return False
        self.body.append(line)
        read = set(re.findall(r"\w+", line.split("=", 1)[1]))
        self.unread = [name for name in self.unread if name not in read and name not in targets] + [*targets]
        self._forget(targets)
        for name in targets:
            for place in _places(name, found[name][0]):
                self.values[place] = [eval(place, env) for env in self.envs]
        return True

    def _forget(self, targets: Sequence[str]) -> None:
        """Drops the expressions that read a variable which has another value now."""
        for name in list(self.values):
            if name in targets or any(name.startswith(f"{target}[") for target in targets):
                del self.values[name]

    def source(self, name: str, parameters: Sequence[str], result: str) -> str:
        init = [f"        {part}" for line in self.init for part in line.splitlines()]
        body = [f"        {part}" for line in self.body for part in line.splitlines()]
        return "\n".join(
            [
                f"class {name}(nn.Module):",
                "    def __init__(self):",
                "        super().__init__()",
                *init,
                "",
                f"    def forward(self, {', '.join(parameters)}):",
                *body,
                f"        return {result}",
                "",
            ]
        )


def _places(name: str, value: Any) -> list[str]:
    """The expression of each tensor in a structure."""
    if isinstance(value, torch.Tensor):
        return [name]
    if isinstance(value, dict):
        return [place for key, item in value.items() for place in _places(f"{name}[{key!r}]", item)]
    if isinstance(value, list | tuple):
        return [place for index, item in enumerate(value) for place in _places(f"{name}[{index}]", item)]
    return []


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


def _is_sound(value: Any) -> bool:
    """Whether a value is small, finite and not empty, so that what is computed from it says something."""
    if not isinstance(value, torch.Tensor):
        return True
    if not 0 < value.numel() <= 4096 or value.ndim > 6:
        return False
    return not value.is_floating_point() or bool(value.isfinite().all() and value.abs().max() < _LARGEST)
