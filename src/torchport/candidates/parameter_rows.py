"""The gradients of all parameters in a row: what the chained verdict is on, because single ones may be nothing but
rounding. The row of a large model is cut into several, each with a share of every parameter, to take less memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

_ELEMENTS = 2**22
"""A row has about as many elements at most."""


@dataclass(frozen=True)
class ParameterRow:
    """One of several rows: the first has the first elements of every parameter, the last one the last."""

    label: str
    parameters: tuple[str, ...]
    index: int
    count: int

    def joined(self, gradients: Mapping[str, Tensor], golden: Mapping[str, Tensor]) -> Tensor:
        """The gradients in a row; one that is missing, or has another shape than the golden one, is 0 throughout."""
        dtype = reduce(torch.promote_types, (golden[name].dtype for name in self.parameters))
        return torch.cat(
            [self._share(name, gradients, golden[name].shape, dtype) for name in self.parameters]
        )

    def _share(
        self, name: str, gradients: Mapping[str, Tensor], shape: torch.Size, dtype: torch.dtype
    ) -> Tensor:
        size = shape.numel()
        start, end = size * self.index // self.count, size * (self.index + 1) // self.count
        if name not in gradients or gradients[name].shape != shape:
            return torch.zeros(end - start, dtype=dtype)
        return gradients[name].detach().reshape(-1)[start:end].to("cpu", dtype)


class JoinedRows(Mapping[str, Tensor]):
    """The gradients of each row in one tensor, which is made when it is asked for."""

    def __init__(
        self,
        rows: Mapping[str, ParameterRow],
        gradients: Mapping[str, Tensor],
        golden: Mapping[str, Tensor],
    ):
        self.rows, self.gradients, self.golden = rows, gradients, golden

    def __getitem__(self, key: str) -> Tensor:
        return self.rows[key].joined(self.gradients, self.golden)

    def __contains__(self, key: object) -> bool:
        return key in self.rows

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def rows_of(root: str, parameters: Sequence[str], golden: Mapping[str, Tensor]) -> dict[str, ParameterRow]:
    """By key; parameters without a golden gradient are in none."""
    there = tuple(name for name in parameters if name in golden)
    count = math.ceil(sum(golden[name].numel() for name in there) / _ELEMENTS)
    rows = [ParameterRow(_label(index, count), there, index, count) for index in range(count)]
    return {f"{root}.parameters{f'.{row.index}' if row.index else ''}": row for row in rows}


def _label(index: int, count: int) -> str:
    everything = "the gradients of all parameters"
    return everything if count == 1 else f"{everything}, part {index + 1} of {count}"
