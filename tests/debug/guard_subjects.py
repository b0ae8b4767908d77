"""Functions and modules whose breaks, skips and recompilations are known. A comment on a line is its name in tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn


def line(comment: str) -> str:
    """The `file:line` that bears a comment here."""
    lines = Path(__file__).read_text().splitlines()
    (number,) = [number for number, text in enumerate(lines, 1) if text.endswith(f"  # {comment}")]
    return f"{__file__}:{number}"


def two_breaks(x: Tensor) -> Tensor:  # two_breaks
    x = x + 1  # first part
    print("first")  # first break
    x = x * 2  # second part
    print("second")  # second break
    return x - 1  # third part


def one_graph(x: Tensor) -> Tensor:
    return x + 1


def print_within(x: Tensor) -> Tensor:
    x = x + 1
    print("within")  # break within
    return x * 2


def calls_twice(x: Tensor) -> Tensor:
    y = print_within(x)  # first call
    z = print_within(y + 1)  # second call
    return y + z


def two_deep(x: Tensor) -> Tensor:
    return calls_twice(x) + 1  # deep call


def break_on_every_line(x: Tensor) -> Tensor:
    print(1)  # every 1
    print(2)  # every 2
    x = x + x.max().item()  # every 3
    print(4)  # every 4
    if x.sum() > 0:  # every 5
        x = x + 1
    torch._dynamo.graph_break()  # every 6
    return x


def two_breaks_on_a_line(x: Tensor) -> Tensor:
    return x.sin() * x.max().item() + x.cos() * x.min().item()  # twice on a line


def break_in_a_loop(x: Tensor) -> Tensor:
    for number in range(3):
        x = x + number
        print(number)  # in a loop
    return x


def calls_a_loop(x: Tensor) -> Tensor:
    return break_in_a_loop(x * 2) + 1  # calls a loop


def loop_of_breaks(x: Tensor) -> Tensor:
    for _ in range(3):
        x = print_within(x)
    return x


def branch(x: Tensor) -> Tensor:
    if x.sum() > 0:  # branch
        return x + 1  # yes
    return x - 1  # no


def break_in_try(x: Tensor) -> Tensor:
    try:
        x = x + 1
        print("tried")  # in try
    finally:
        x = x * 2
    return x


def generator(x: Tensor) -> Iterator[Tensor]:
    yield x + 1


def nothing_to_compile(number: int) -> int:
    return number + 1


def wrong_shapes(x: Tensor) -> Tensor:
    return x @ torch.ones(7, 7)  # wrong shapes


def raises_for_four(x: Tensor) -> Tensor:
    x = x + 1
    if x.shape[0] == 4:
        raise ValueError("four")  # raises
    return x


def scaled(x: Tensor, factor: float) -> Tensor:
    return x * factor  # scaled


def by_name(x: Tensor, name: str) -> Tensor:
    return x * len(name)  # by name


def by_size(x: Tensor) -> Tensor:
    if x.shape[0] > 5:  # by size
        return x + 1
    return x - 1


def first_at_3(x: Tensor) -> Tensor:
    print("a name that looks like a resume function's")
    return x + 1


def closure(factor: float) -> Callable[[Tensor], Tensor]:
    def inner(x: Tensor, *, plus: float = 1.0) -> Tensor:
        return x * factor + plus

    return inner


class Inner(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        print("inner")  # break in a module
        return x * 3


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.inner = Inner()
        self.drop = nn.Dropout(0.5)
        self.times = 2

    def forward(self, x: Tensor) -> Tensor:
        x = self.linear(x)  # linear
        x = self.inner(x)  # calls inner
        return self.drop(x) * self.times


class Straight(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.drop = nn.Dropout(0.5)
        self.times = 2
        self.rate = 0.5

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.linear(x)) * self.times * self.rate

    def twice(self, x: Tensor) -> Tensor:
        return self.linear(self.linear(x))


class CallableObject:
    def __call__(self, x: Tensor) -> Tensor:
        return x + 1


def refuse(module: Any, inputs: Any) -> Any:
    raise RuntimeError("this backend compiles nothing")
