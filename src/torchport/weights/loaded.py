"""The weights that a port loads, as the model that was ported has them."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import torch

from torchport.capture.graph import Graph, TensorMeta
from torchport.capture.weights import FileWeights, SelectedWeights, Weights
from torchport.errors import WeightsError
from torchport.trace.writing import write_tensors


class LoadedWeights(Weights):
    """A file that a port loads, read in the shapes and dtypes of the model, one tensor at a time."""

    def __init__(self, path: Path, graph: Graph):
        if not path.is_file():
            raise WeightsError(
                "TP0320",
                f"there is no weights file {path}",
                where=str(path),
                fix=f"Run `torchport weights extract CHECKPOINT --manifest FILE --out {path}`.",
            )
        tied = {name: weight.tied_to for name, weight in graph.weights.items() if weight.tied_to is not None}
        self._file, self._graph = FileWeights(path, tied), graph
        self._names = dict.fromkeys(graph.weights)
        if lacking := [name for name in self._names if name not in self._file]:
            raise WeightsError("TP0320", f"the weights have no tensor {lacking[0]!r}", where=str(path))

    def names(self) -> Collection[str]:
        return self._names.keys()

    def meta(self, name: str) -> TensorMeta:
        return self._graph.weights[name].meta

    def read(self, name: str) -> torch.Tensor:
        meta, tensor = self.meta(name), self._file.read(name)
        dtype: torch.dtype = getattr(torch, meta.dtype)
        if dtype.is_complex and not tensor.is_complex():
            tensor = torch.view_as_complex(tensor)
        if tuple(tensor.shape) != meta.shape:
            message = f"tensor {name!r} has shape {tuple(tensor.shape)}, the model needs {meta.shape}"
            raise WeightsError("TP0321", message, where=str(self._file.path))
        return tensor.to(dtype)

    def save(self, path: Path) -> None:
        """Writes the weights as a recording has them: another name of the same file, if it is the same as that."""
        heads = [name for name in self._names if self._graph.weights[name].tied_to is None]
        if all(self._file.meta(name) == self.meta(name) for name in heads):
            try:
                path.unlink(missing_ok=True)
                os.link(self._file.path, path)
                return
            except OSError:
                pass  # Another file system, or one that knows no links: a copy does as well.
        write_tensors(path, SelectedWeights(self, heads), {"schema": "1"})
