"""A row is a function or layer with inputs made from a seed; here is also the model with every row in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

Maker = Callable[[torch.Generator], Tensor]


def randn(*shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> Maker:
    return lambda generator: (torch.randn(shape, generator=generator, dtype=torch.float64) * scale).to(dtype)


def uniform(low: float, high: float, *shape: int, dtype: torch.dtype = torch.float32) -> Maker:
    def make(generator: torch.Generator) -> Tensor:
        return (torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low).to(dtype)

    return make


def ints(low: int, high: int, *shape: int, dtype: torch.dtype = torch.int64) -> Maker:
    return lambda generator: torch.randint(low, high, shape, generator=generator).to(dtype)


def bools(*shape: int) -> Maker:
    return lambda generator: torch.rand(shape, generator=generator) > 0.5


def values(items: Any, dtype: torch.dtype | None = None) -> Maker:
    return lambda _: torch.tensor(items, dtype=dtype)


INF, NAN = float("inf"), float("nan")
_SPECIAL = [
    -INF,
    -1e4,
    -7.5,
    -2.5,
    -1.5,
    -1.0,
    -0.5,
    -1e-6,
    -0.0,
    0.0,
    1e-6,
    0.5,
    1.0,
    1.5,
    2.5,
    7.5,
    1e4,
    INF,
    NAN,
]


def special(dtype: torch.dtype = torch.float32) -> Maker:
    """Zeros of both signs, halves, large and small numbers, the infinities, one NaN, and ordinary numbers."""
    ordinary = randn(3, 19, scale=2.0)
    return lambda generator: torch.cat([torch.tensor([_SPECIAL]), ordinary(generator)]).to(dtype)


def finite() -> Maker:
    """`special` without the infinities, for functions of which torch's own kernels disagree there."""
    return lambda generator: special()(generator).clamp(-1e4, 1e4)


class Function(nn.Module):
    """A function as a module, so that it is a layer of its own in a trace."""

    def __init__(self, compute: Callable[..., Any]):
        super().__init__()
        self.compute = compute

    def forward(self, *inputs: Tensor) -> Any:
        return self.compute(*inputs)


@dataclass(frozen=True)
class Row:
    name: str
    module: nn.Module
    inputs: tuple[Tensor, ...]


@dataclass
class Table:
    """The rows of one kind. A row's numbers depend on its name only, so that no row disturbs another."""

    name: str
    rows: list[Row] = field(default_factory=list)

    def op(self, name: str, compute: Callable[..., Any], *makers: Maker) -> None:
        self._add(name, lambda: Function(compute), makers)

    def layer(self, name: str, make: Callable[[], nn.Module], *makers: Maker) -> None:
        self._add(name, make, makers)

    def _add(self, name: str, make: Callable[[], nn.Module], makers: Sequence[Maker]) -> None:
        seed = crc32(name.encode())
        generator = torch.Generator().manual_seed(seed)
        inputs = tuple(maker(generator) for maker in makers)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module = make().eval()
            _train(module)
        self.rows.append(Row(name, module, inputs))


@torch.no_grad()
def _train(module: nn.Module) -> None:
    """Weights and statistics as if trained: no zeros or ones that would hide a mistake."""
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if name.endswith("running_var"):
            tensor.uniform_(0.5, 2.0)
        elif name.endswith("running_mean"):
            tensor.normal_()
        elif tensor.ndim == 1 and tensor.is_floating_point() and not name.endswith(("_u", "_v")):
            tensor.add_(torch.randn(tensor.shape).to(tensor.dtype), alpha=0.3)


class Rows(nn.Module):
    """Some rows: each is called on its own inputs, or on what is given, and all that it returns is used."""

    def __init__(self, rows: Sequence[Row]):
        super().__init__()
        self.counts = {row.name: len(row.inputs) for row in rows}
        for row in rows:
            self.add_module(row.name, row.module)
            for index, tensor in enumerate(row.inputs):
                self.register_buffer(f"{row.name}_input_{index}", tensor)

    def forward(self, *given: Tensor) -> Tensor:
        parts = []
        for name, count in self.counts.items():
            inputs = [getattr(self, f"{name}_input_{index}") for index in range(count)] or given
            results = pytree.tree_leaves(getattr(self, name)(*inputs))
            parts += [result.flatten() for result in results if isinstance(result, Tensor)]
        return torch.cat(parts).to(torch.bfloat16)


class Parts(nn.Module):
    """All rows of a table, a few to a part: rustc takes the square of a struct's number of fields for it."""

    size = 16

    def __init__(self, rows: Sequence[Row]):
        super().__init__()
        for start in range(0, len(rows), self.size):
            self.add_module(f"part_{start // self.size}", Rows(rows[start : start + self.size]))

    def forward(self, *given: Tensor) -> Tensor:
        return torch.cat([part(*given) for part in self.children()])


class Everything(nn.Module):
    """One model with every row in it, so that one build and one run prove them all."""

    def __init__(self, tables: Sequence[Table]):
        super().__init__()
        for table in tables:
            self.add_module(table.name, Parts(table.rows))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([parts(x) if name == "sizes" else parts() for name, parts in self.named_children()])
