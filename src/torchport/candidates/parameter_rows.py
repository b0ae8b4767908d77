"""The gradients of all parameters in a row: what the chained verdict is on, because single ones may be nothing but
rounding. The row of a large model is cut into several, so that none of them takes much memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_LARGE = 2**24
"""A row has at least as many elements before the next one begins."""


@dataclass(frozen=True)
class ParameterRow:
    label: str
    parameters: tuple[str, ...]

    def joined(self, gradients: Mapping[str, Tensor], golden: Mapping[str, Tensor]) -> Tensor:
        """The gradients in a row; one that is missing, or has another shape than the golden one, is 0 throughout."""
        shapes = [golden[name].shape for name in self.parameters]
        dtype = golden[self.parameters[0]].dtype
        for name in self.parameters[1:]:
            dtype = torch.promote_types(dtype, golden[name].dtype)
        row = torch.zeros(sum(shape.numel() for shape in shapes), dtype=dtype)
        start = 0
        for name, shape in zip(self.parameters, shapes, strict=True):
            if name in gradients and gradients[name].shape == shape:
                row[start : start + shape.numel()] = gradients[name].detach().reshape(-1)
            start += shape.numel()
        return row


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
    parts: list[list[str]] = []
    elements = _LARGE
    for name in parameters:
        if name not in golden:
            continue
        if elements >= _LARGE:
            parts.append([])
            elements = 0
        parts[-1].append(name)
        elements += golden[name].numel()
    if len(parts) > 1 and elements < _LARGE:
        parts[-2] += parts.pop()
    return {
        f"{root}.parameters" if index == 0 else f"{root}.parameters.{index}": ParameterRow(
            _label(index, len(parts)), tuple(names)
        )
        for index, names in enumerate(parts)
    }


def _label(index: int, count: int) -> str:
    everything = "the gradients of all parameters"
    return everything if count == 1 else f"{everything}, part {index + 1} of {count}"
