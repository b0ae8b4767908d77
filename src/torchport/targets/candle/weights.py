"""The weights as a generated project loads them: one tensor at a time, each checked against the graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import torch

from torchport.capture.graph import Graph, TensorMeta, dtype_name
from torchport.errors import WeightsError

_STORED_AS = {"bool": "uint8", "int8": "int16"}
"""candle reads neither; generated code expects these instead, and pairs for complex numbers."""
_PARTS = {"complex64": "float32", "complex128": "float64"}


def stored_as(meta: TensorMeta) -> TensorMeta:
    """The shape and dtype in which the generated code reads a weight."""
    if meta.dtype in _PARTS:
        return TensorMeta((*meta.shape, 2), _PARTS[meta.dtype])
    return TensorMeta(meta.shape, _STORED_AS.get(meta.dtype, meta.dtype))


class StoredWeights(Mapping[str, torch.Tensor]):
    """The weights of a graph under the names that the generated code reads. Nothing is read before it is asked for."""

    def __init__(self, graph: Graph, weights: Mapping[str, torch.Tensor], folder: Path):
        self._graph, self._weights, self._folder = graph, weights, folder
        self._names = [name for name, weight in graph.weights.items() if weight.tied_to is None]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, name: str) -> torch.Tensor:
        if name not in self._weights:
            raise WeightsError("TP0320", f"the weights have no tensor {name!r}", where=str(self._folder))
        tensor, expected = self._weights[name], self._graph.weights[name].meta.shape
        if tuple(tensor.shape) != expected:
            raise WeightsError(
                "TP0321",
                f"tensor {name!r} has shape {tuple(tensor.shape)}, the model needs {expected}",
                where=str(self._folder),
            )
        if tensor.is_complex():
            return torch.view_as_real(tensor.resolve_conj())
        meta = TensorMeta(tuple(tensor.shape), dtype_name(tensor.dtype))
        return tensor.to(getattr(torch, stored_as(meta).dtype))
